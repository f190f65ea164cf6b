"""What a build will cost, from a little of its input.

The beginnings of a few files are indexed in this process by the very function that workers run, into a folder that is
thrown away. Two lengths of each beginning tell how the index grows: pages of one template share their shape, so that
the second half of a file costs fewer bytes than the first.
"""

from __future__ import annotations

import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.crawl.inputs import DEFAULT_CRAWL_BASE_URL
from treesim_dask.crawl.streams import is_local, read_range
from treesim_dask.dataflow import BuildJob, index_source
from treesim_dask.errors import ConfigError, SourceError
from treesim_dask.index.segment import SegmentSummary
from treesim_dask.inputs import resolve_inputs
from treesim_dask.types import Source

_LEAST_DOUBT = 0.05  # of a figure, even where all samples agree
_ONE_SAMPLE_DOUBT = 0.3
_BYTES_PER_SHAPE = 150  # a worker remembers the digest of each distinct shape, beside its bucket keys
_REQUESTS_PER_SEGMENT = 4  # beside its files: is there an old one, has everything arrived
# a new worker has Dask loaded, and nothing of ours
_LOAD = """\
import time, distributed
start = time.perf_counter()
import treesim_dask.dataflow
print(time.perf_counter() - start)
"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the range it will probably lie in."""

    value: float
    low: float
    high: float

    def compare(self, fact: float) -> float:
        """Return by how much the fact is above the estimate, as a share of the estimate."""
        return (fact - self.value) / self.value if self.value else 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build is expected to need.

    ``core_seconds`` is the processor time of all workers together, ``read_seconds`` the time they wait for input from
    other machines; ``load_seconds`` is the time in which each worker loads its code, ``start_seconds`` the processor
    time until its first page is indexed; ``worker_bytes`` is the memory of one process, ``n_requests`` counts what is
    asked of input and index stores.
    """

    n_sources: int
    n_input_bytes: int
    n_sampled_bytes: int
    pages: Estimate
    index_bytes: Estimate
    core_seconds: Estimate
    read_seconds: float
    load_seconds: float
    start_seconds: float
    worker_bytes: int
    n_requests: int

    def work(self, n_workers: int) -> Estimate:
        """Return the processor time of all workers together, getting ready included."""
        work = (self.core_seconds.value, self.core_seconds.low, self.core_seconds.high)
        return Estimate(*(seconds + n_workers * self.start_seconds for seconds in work))

    def seconds(self, n_workers: int) -> Estimate:
        """Return how long a build with so many workers takes; no file is shared between workers."""
        rounds = math.ceil(self.n_sources / n_workers) / self.n_sources
        work = (self.core_seconds.value, self.core_seconds.low, self.core_seconds.high)
        start = self.load_seconds + self.start_seconds
        return Estimate(*((seconds + self.read_seconds) * rounds + start for seconds in work))

    def n_jobs(self, cores: int, hours: float) -> int:
        """Return how many jobs of `cores` cores and `hours` hours it takes, a tenth of each lost to leaving."""
        return max(1, math.ceil((self.core_seconds.high + self.read_seconds) / (cores * hours * 3600 * 0.9)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Rebuild a plan from `to_dict`."""
        names = {field.name for field in fields(cls)}
        if values.keys() != names:
            raise ConfigError(f"this is no plan: unknown or missing {', '.join(sorted(values.keys() ^ names))}")
        estimates = {name: Estimate(**value) for name, value in values.items() if isinstance(value, dict)}
        return cls(**{**values, **estimates})


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of one source, indexed twice: to its half and to its end.

    ``n_source_bytes`` is the size of the whole source; of the rest, the first of a pair belongs to the half.
    """

    n_source_bytes: int
    read_seconds: float
    n_bytes: tuple[int, int]
    n_pages: tuple[int, int]
    n_shapes: tuple[int, int]
    index_bytes: tuple[int, int]
    seconds: tuple[float, float]


def make_plan(
    inputs: Sequence[str] | str,
    *,
    config: IndexConfig | None = None,
    page_filter: PageFilter | None = None,
    sample_files: int = 3,
    sample_bytes: int = 4 * 2**20,
    limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    crawl_base_url: str = DEFAULT_CRAWL_BASE_URL,
) -> Plan:
    """Predict pages, bytes, time, memory and requests of a build.

    Parameters
    ----------
    inputs, limit, storage_options, crawl_base_url
        As for `treesim_dask.build`.
    config, page_filter
        As the index will be built.
    sample_files, sample_bytes
        Look at so many input files, and at so many bytes of each.
    """
    for name, value in (("sample_files", sample_files), ("sample_bytes", sample_bytes)):
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, got {value}")
    config, page_filter = config or IndexConfig(), page_filter or PageFilter()
    options = dict(storage_options or {})
    found = resolve_inputs(
        [inputs] if isinstance(inputs, str) else inputs,
        limit=limit,
        storage_options=storage_options,
        crawl_base_url=crawl_base_url,
    )
    with tempfile.TemporaryDirectory(prefix="treesim-plan-") as folder:
        job = BuildJob(str(Path(folder, "index")), config, page_filter, False, {}, options)
        start_seconds, empty = _warm_up(job)
        chosen = _spread(found, sample_files)
        samples = [_take_sample(source, job, Path(folder), sample_bytes) for source in chosen]
    return _extrapolate(found, samples, empty, start_seconds, config)


def _time_loading() -> float:
    """Return the seconds in which a new process loads what a worker needs."""
    done = subprocess.run([sys.executable, "-c", _LOAD], capture_output=True, text=True, check=True)
    return float(done.stdout)


def _warm_up(job: BuildJob) -> tuple[float, SegmentSummary]:
    """Return the time until the first page can be indexed, and the segment of a source without pages."""
    started = time.process_time()
    page = b"<!doctype html><title>a</title><main><p>b<p>c</main>" + b" " * job.page_filter.min_bytes
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.html").write_bytes(page)
        index_source(Source(f"{folder}#html-0-of-1", "html", (str(Path(folder, "a.html")),), len(page)), job)
    seconds = time.process_time() - started
    return seconds, index_source(Source("nothing#html-0-of-1", "html", (), 0), job)


def _spread(sources: Sequence[Source], n_wanted: int) -> list[Source]:
    """Choose sources evenly over the list: neighbours often come from the same hour of a crawl."""
    n_chosen = min(n_wanted, len(sources))
    return [sources[(2 * number + 1) * len(sources) // (2 * n_chosen)] for number in range(n_chosen)]


def _take_sample(source: Source, job: BuildJob, folder: Path, n_bytes: int) -> Sample:
    whole = _cut_archive if source.kind == "archive" else _cut_group
    started = time.perf_counter()
    parts, size = whole(source, job, folder, n_bytes)
    read_seconds = time.perf_counter() - started
    summaries, seconds = [], []
    for part in parts:
        started = time.process_time()
        summaries.append(index_source(part, job))
        seconds.append(time.process_time() - started)
    half, full = summaries
    return Sample(
        n_source_bytes=size,
        read_seconds=0.0 if is_local(source.url) else read_seconds,
        n_bytes=(parts[0].size or 0, parts[1].size or 0),
        n_pages=(half.n_pages, full.n_pages),
        n_shapes=(half.n_shapes, full.n_shapes),
        index_bytes=(half.n_bytes, full.n_bytes),
        seconds=(seconds[0], seconds[1]),
    )


def _cut_archive(source: Source, job: BuildJob, folder: Path, n_bytes: int) -> tuple[list[Source], int]:
    """Write the beginning of an archive and half of it as files; return them and the size of the archive."""
    data, told = read_range(source.url, 0, n_bytes, job.storage_options)
    size = source.size or told
    if size is None:
        raise SourceError(f"the server does not tell the size of {source.url}: plan with a copy of the file")
    parts = []
    for name, n_taken in (("half", (len(data) + 1) // 2), ("full", len(data))):
        path = folder / f"{name}-{Path(source.url).name}"
        path.write_bytes(data[:n_taken])
        parts.append(replace(source, url=str(path), members=(str(path),), size=n_taken))
    return parts, size


def _cut_group(source: Source, job: BuildJob, folder: Path, n_bytes: int) -> tuple[list[Source], int]:
    """Take the first members of a group of HTML files, and half as many."""
    mean = max(1, (source.size or n_bytes) // max(1, len(source.members)))
    n_members = min(len(source.members), max(2, n_bytes // mean))
    parts = [
        replace(source, url=f"{name}#html-0-of-1", members=source.members[:n_taken], size=n_taken * mean)
        for name, n_taken in (("half", (n_members + 1) // 2), ("full", n_members))
    ]
    return parts, mean * len(source.members)


def _extrapolate(
    sources: Sequence[Source],
    samples: Sequence[Sample],
    empty: SegmentSummary,
    start_seconds: float,
    config: IndexConfig,
) -> Plan:
    mean_size = statistics.mean(sample.n_source_bytes for sample in samples)
    sizes = [mean_size if source.size is None else source.size for source in sources]
    n_read = sum(sample.n_bytes[1] for sample in samples)
    total = sum(sizes)
    exponent = _growth([(s.index_bytes[0] - empty.n_bytes, s.index_bytes[1] - empty.n_bytes) for s in samples], samples)
    mean_read = n_read / len(samples)
    content = statistics.mean(sample.index_bytes[1] for sample in samples) - empty.n_bytes
    index_bytes = sum(empty.n_bytes + content * (size / mean_read) ** exponent for size in sizes)
    shapes = statistics.mean(sample.n_shapes[1] for sample in samples)
    most_shapes = shapes * (max(sizes) / mean_read) ** _growth([s.n_shapes for s in samples], samples)
    n_segment_requests = len(empty.files) + _REQUESTS_PER_SEGMENT
    return Plan(
        n_sources=len(sources),
        n_input_bytes=round(total),
        n_sampled_bytes=n_read,
        pages=_estimate(
            total * sum(s.n_pages[1] for s in samples) / n_read, [s.n_pages[1] / s.n_bytes[1] for s in samples]
        ),
        index_bytes=_estimate(index_bytes, [s.index_bytes[1] / s.n_bytes[1] for s in samples]),
        core_seconds=_estimate(
            total * sum(s.seconds[1] for s in samples) / n_read, [s.seconds[1] / s.n_bytes[1] for s in samples]
        ),
        read_seconds=total * sum(s.read_seconds for s in samples) / n_read,
        load_seconds=_time_loading(),
        start_seconds=start_seconds,
        worker_bytes=_peak_memory() + round(most_shapes * (_BYTES_PER_SHAPE + 16 * config.n_bands)),
        n_requests=len(sources) * (1 + n_segment_requests),
    )


def _growth(pairs: Sequence[tuple[float, float]], samples: Sequence[Sample]) -> float:
    """Return e such that a quantity grows with the e-th power of what is read: 1 if nothing repeats, less if much does.

    Examples
    --------
    >>> sample = Sample(1000, 0.0, (100, 200), (5, 10), (5, 8), (50, 80), (1.0, 2.0))
    >>> round(_growth([(50, 100)], [sample]), 3), round(_growth([(50, 70.71)], [sample]), 3)
    (1.0, 0.5)
    """
    half, full = (sum(pair[i] for pair in pairs) for i in (0, 1))
    read_half, read_full = (sum(sample.n_bytes[i] for sample in samples) for i in (0, 1))
    if half <= 0 or full <= half or read_full <= read_half:
        return 1.0
    return min(1.0, max(0.0, math.log(full / half) / math.log(read_full / read_half)))


def _estimate(value: float, ratios: Sequence[float]) -> Estimate:
    """Return a range from how much the samples differ: two standard errors."""
    doubt = _ONE_SAMPLE_DOUBT
    mean = statistics.mean(ratios)
    if len(ratios) > 1 and mean > 0:
        doubt = max(_LEAST_DOUBT, 2 * statistics.stdev(ratios) / mean / math.sqrt(len(ratios)))
    return Estimate(value, value * max(0.0, 1 - doubt), value * (1 + doubt))


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

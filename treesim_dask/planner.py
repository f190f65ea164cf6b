"""What a build will cost, from a little of its input.

Excerpts of a few files are indexed by the very function that workers run, into a folder that is thrown away. Two
lengths of each tell how the index grows: pages of one template share their shape, so that the second half of a file
costs fewer bytes than the first. Time is measured on workers: see `treesim_dask.pace`.
"""

from __future__ import annotations

import heapq
import math
import statistics
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from treesim_dask.choice import InputChoice
from treesim_dask.clients import usable_cores
from treesim_dask.config import IndexConfig, PageFilter, check_count
from treesim_dask.crawl.excerpts import read_excerpt
from treesim_dask.crawl.streams import is_local
from treesim_dask.dataflow import BuildJob, index_source
from treesim_dask.errors import ConfigError, SourceError
from treesim_dask.index.segment import SegmentSummary
from treesim_dask.pace import Pace, Timing, try_samples, write_page
from treesim_dask.types import Source

_LEAST_DOUBT = 0.05  # of a figure, even where all samples agree
_ONE_SAMPLE_DOUBT = 0.3
_BYTES_PER_SHAPE = 150  # a worker remembers the digest of each distinct shape, beside its bucket keys
_REQUESTS_PER_SEGMENT = 4  # beside its files: is there an old one, has everything arrived


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the range it will probably lie in."""

    value: float
    low: float
    high: float

    @classmethod
    def with_doubt(cls, value: float, doubt: float) -> Estimate:
        """Return a figure that is uncertain by a share of it."""
        return cls(value, value * max(0.0, 1 - doubt), value * (1 + doubt))

    def compare(self, fact: float) -> float:
        """Return by how much the fact is above the estimate, as a share of the estimate."""
        if not self.value:
            return math.inf if fact else 0.0
        return (fact - self.value) / self.value


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build is expected to need.

    Parameters
    ----------
    source_bytes
        The size of each source, in the order in which they are indexed.
    n_sampled_bytes
        How much of them was looked at.
    pages, index_bytes
        What the index will hold.
    alone, together
        The pace of one worker of this machine, and of all of them at the same time.
    read_byte_seconds
        How long a worker waits for a byte from another machine.
    doubt
        By what share of it a time is uncertain, since the samples differ.
    worker_bytes
        The memory of one process.
    n_requests
        What is asked of input and index stores.
    """

    source_bytes: tuple[int, ...]
    n_sampled_bytes: int
    pages: Estimate
    index_bytes: Estimate
    alone: Pace
    together: Pace
    read_byte_seconds: float
    doubt: float
    worker_bytes: int
    n_requests: int

    @property
    def n_sources(self) -> int:
        """How many files are indexed."""
        return len(self.source_bytes)

    @property
    def n_input_bytes(self) -> int:
        """Their size together."""
        return sum(self.source_bytes)

    def seconds(self, n_workers: int) -> Estimate:
        """Return how long a build with so many workers takes, from its start to its last file."""
        pace = self.alone.toward(self.together, n_workers)
        work = longest_queue(self._source_seconds(pace), n_workers)
        return Estimate.with_doubt(pace.open_seconds + pace.first_seconds + work, self.doubt)

    def core_seconds(self, n_workers: int) -> Estimate:
        """Return how long the workers are busy, all together."""
        pace = self.alone.toward(self.together, n_workers)
        busy = n_workers * pace.first_seconds + math.fsum(self._source_seconds(pace))
        return Estimate.with_doubt(busy, self.doubt)

    def _source_seconds(self, pace: Pace) -> list[float]:
        byte_seconds = pace.byte_seconds + self.read_byte_seconds
        return [pace.segment_seconds + byte_seconds * n_bytes for n_bytes in self.source_bytes]

    def n_jobs(self, cores: int, hours: float) -> int:
        """Return how many jobs of `cores` cores and `hours` hours it takes, a tenth of each lost to leaving."""
        if cores < 1 or hours <= 0:
            raise ConfigError(f"a job needs at least 1 core and some time, got {cores} cores and {hours:g} hours")
        return max(1, math.ceil(self.core_seconds(cores).high / (cores * hours * 3600 * 0.9)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "source_bytes": list(self.source_bytes)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Rebuild a plan from `to_dict`."""
        names = {field.name for field in fields(cls)}
        if not isinstance(values, Mapping):
            raise ConfigError(f"this is no plan: expected an object, got {type(values).__name__}")
        if values.keys() != names:
            raise ConfigError(f"this is no plan: unknown or missing {', '.join(sorted(values.keys() ^ names))}")
        estimates = {name: Estimate(**values[name]) for name in ("pages", "index_bytes")}
        paces = {name: Pace(**values[name]) for name in ("alone", "together")}
        return cls(**{**values, **estimates, **paces, "source_bytes": tuple(values["source_bytes"])})


def longest_queue(seconds: Iterable[float], n_workers: int) -> float:
    """Return when the last worker is done if each takes the next task as soon as it is free.

    Examples
    --------
    >>> longest_queue([3.0, 1.0, 1.0, 2.0], 2)
    4.0
    """
    free = [0.0] * n_workers
    for duration in seconds:
        heapq.heapreplace(free, free[0] + duration)
    return max(free)


@dataclass(frozen=True, slots=True)
class Sample:
    """An excerpt of the source at ``url``: ``half`` of it and all of it, as sources of their own.

    ``n_source_bytes`` is the size of the whole source, ``read_seconds`` how long the excerpt took to arrive.
    """

    url: str
    half: Source
    full: Source
    n_source_bytes: int
    read_seconds: float


def make_plan(
    choice: InputChoice | Sequence[str] | str,
    *,
    config: IndexConfig | None = None,
    page_filter: PageFilter | None = None,
    vectors: bool = True,
    workers: int | None = None,
    sample_files: int = 3,
    sample_bytes: int = 4 * 2**20,
) -> Plan:
    """Predict pages, bytes, time, memory and requests of a build.

    Parameters
    ----------
    choice
        The input, or which of it.
    config, page_filter, vectors
        As the index will be built.
    workers
        Time the samples on so many local processes at once; None for one a core, as a build does.
    sample_files, sample_bytes
        Look at so many input files, and at so many bytes of each.
    """
    for name, value in (("sample_files", sample_files), ("sample_bytes", sample_bytes), ("workers", workers)):
        if value is not None:
            check_count(name, value)
    config, page_filter = config or IndexConfig(), page_filter or PageFilter()
    choice = choice if isinstance(choice, InputChoice) else InputChoice(choice)
    found = choice.find_sources()
    with tempfile.TemporaryDirectory(prefix="treesim-plan-") as folder:
        job = BuildJob(
            str(Path(folder, "index")), config, page_filter, False, {}, dict(choice.storage_options), vectors
        )
        chosen = enumerate(_spread(found, sample_files))
        taken = [_take_sample(source, job, Path(folder, str(number)), sample_bytes) for number, source in chosen]
        # here and first: it compiles the kernels where that was never done, which is no part of a pace
        samples, halves = _index_halves(taken, job)
        least = index_source(write_page(Path(folder), page_filter), job)
        sources = [sample.full for sample in samples]
        alone, timings = try_samples(1, sources, job)
        n_workers = usable_cores() if workers is None else workers
        together = try_samples(n_workers, sources, job)[0] if n_workers > 1 else alone
    return _extrapolate(found, samples, halves, timings, least, (alone, together), config)


def _spread(sources: Sequence[Source], n_wanted: int) -> list[Source]:
    """Choose sources evenly over the bytes of the input: one at the middle of each of `n_wanted` equal shares.

    Neighbours often come from the same hour of a crawl, and a large file counts for more than a small one.
    """
    if n_wanted >= len(sources):
        return list(sources)
    ends = list(accumulate(size + 1 for size in _known_sizes(sources)))  # empty ones are files too
    middles = [(2 * number + 1) * ends[-1] / (2 * n_wanted) for number in range(n_wanted)]
    return [sources[number] for number in sorted({bisect_right(ends, middle) for middle in middles})]


def _known_sizes(sources: Sequence[Source], otherwise: float = 1.0) -> list[float]:
    """Return the size of each source, for unknown ones the mean of the others, or `otherwise` where none is known."""
    known = [source.size for source in sources if source.size is not None]
    mean = statistics.mean(known) if known else otherwise
    return [mean if source.size is None else source.size for source in sources]


def _take_sample(source: Source, job: BuildJob, folder: Path, n_bytes: int) -> Sample:
    folder.mkdir()
    cut = _cut_archive if source.kind == "archive" else _cut_group
    started = time.perf_counter()
    half, full, size = cut(source, job, folder, n_bytes)
    read_seconds = 0.0 if is_local(source.url) else time.perf_counter() - started
    return Sample(source.url, half, full, size, read_seconds)


def _index_halves(samples: Sequence[Sample], job: BuildJob) -> tuple[list[Sample], list[SegmentSummary]]:
    """Index half of each sample; return those that can be read, as a build goes on without the others, and segments."""
    segments, reasons = {}, []
    for sample in samples:
        try:
            segments[sample] = index_source(sample.half, job)
        except SourceError as error:
            reasons.append(str(error).replace(sample.half.url, sample.url))
    if not segments:
        raise SourceError(f"nothing to plan from: {reasons[0]}")
    return list(segments), list(segments.values())


def _cut_archive(source: Source, job: BuildJob, folder: Path, n_bytes: int) -> tuple[Source, Source, int]:
    """Write an excerpt of an archive and half of it as files; return them and the size of the archive."""
    pieces, size = read_excerpt(source.url, n_bytes, source.size, job.storage_options)
    full = b"".join(pieces)
    half = b"".join(pieces[::2]) if len(pieces) > 1 else full[: (len(full) + 1) // 2]

    def write(name: str, data: bytes) -> Source:
        path = folder / f"{name}-{Path(source.url).name}"
        path.write_bytes(data)
        return replace(source, url=str(path), members=(str(path),), size=len(data))

    return write("half", half), write("full", full), size


def _cut_group(source: Source, job: BuildJob, folder: Path, n_bytes: int) -> tuple[Source, Source, int]:
    """Take the first members of a group of HTML files, and half as many."""
    mean = max(1, (source.size or n_bytes) // max(1, len(source.members)))
    n_members = min(len(source.members), max(2, n_bytes // mean))

    def take(name: str, n_taken: int) -> Source:
        return replace(
            source, url=f"{folder}/{name}#html-0-of-1", members=source.members[:n_taken], size=n_taken * mean
        )

    return take("half", (n_members + 1) // 2), take("full", n_members), mean * len(source.members)


def _extrapolate(
    sources: Sequence[Source],
    samples: Sequence[Sample],
    halves: Sequence[SegmentSummary],
    timings: Sequence[Timing],
    least: SegmentSummary,
    paces: tuple[Pace, Pace],
    config: IndexConfig,
) -> Plan:
    sizes = _known_sizes(sources, statistics.mean(sample.n_source_bytes for sample in samples))
    total = sum(sizes)
    fulls = [timing.segment for timing in timings]
    n_bytes = [sample.full.size or 0 for sample in samples]
    n_half, n_read = sum(sample.half.size or 0 for sample in samples), sum(n_bytes)
    mean_read = n_read / len(samples)
    # 1. pages grow with the input; bytes, beyond those of any segment, and shapes with a power of it
    pages = total * sum(full.n_pages for full in fulls) / n_read
    content = [max(0, full.n_bytes - least.n_bytes) for full in fulls]  # a sample without pages has less than the least
    exponent = _growth((n_half, sum(half.n_bytes - least.n_bytes for half in halves)), (n_read, sum(content)))
    index_bytes = sum(least.n_bytes + statistics.mean(content) * (size / mean_read) ** exponent for size in sizes)
    shapes = [full.n_shapes for full in fulls]
    exponent = _growth((n_half, sum(half.n_shapes for half in halves)), (n_read, sum(shapes)))
    most_shapes = statistics.mean(shapes) * (max(sizes) / mean_read) ** exponent
    # 2. how far the samples agree
    page_doubt = _doubt([full.n_pages / size for full, size in zip(fulls, n_bytes, strict=True)])
    byte_doubt = _doubt([full.n_bytes / size for full, size in zip(fulls, n_bytes, strict=True)])
    peak_bytes = max(timing.peak_bytes for timing in timings)
    return Plan(
        source_bytes=tuple(round(size) for size in sizes),
        n_sampled_bytes=n_read,
        pages=Estimate.with_doubt(pages, page_doubt),
        index_bytes=Estimate.with_doubt(index_bytes, byte_doubt),
        alone=paces[0],
        together=paces[1],
        read_byte_seconds=sum(sample.read_seconds for sample in samples) / n_read,
        doubt=_doubt([timing.byte_seconds for timing in timings]),
        worker_bytes=peak_bytes + round(most_shapes * (_BYTES_PER_SHAPE + 16 * config.n_bands)),
        n_requests=len(sources) * (1 + len(least.files) + _REQUESTS_PER_SEGMENT),
    )


def _growth(half: tuple[float, float], full: tuple[float, float]) -> float:
    """Return e such that a quantity grows with the e-th power of the input: 1 if nothing repeats, less if much does.

    Parameters
    ----------
    half, full
        The bytes read of the input and the quantity then, in the middle and at the end.

    Examples
    --------
    >>> round(_growth((100, 50), (200, 100)), 3), round(_growth((100, 50), (200, 70.71)), 3)
    (1.0, 0.5)
    """
    if not (0 < half[0] < full[0] and 0 < half[1] < full[1]):
        return 1.0
    return min(1.0, math.log(full[1] / half[1]) / math.log(full[0] / half[0]))


def _doubt(ratios: Sequence[float]) -> float:
    """Return by what share a mean is uncertain, from how much the samples differ: two standard errors."""
    mean = statistics.mean(ratios)
    if len(ratios) < 2 or mean <= 0:
        return _ONE_SAMPLE_DOUBT
    return max(_LEAST_DOUBT, 2 * statistics.stdev(ratios) / mean / math.sqrt(len(ratios)))

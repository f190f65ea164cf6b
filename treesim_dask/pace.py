"""How fast workers are on this machine: timed on samples, as the build runs them.

The samples go through local workers that are started as those of a build are, once through one alone and once through
all at the same time: cores share caches and memory, so that two workers do less than twice the work of one. What
others do on the machine meanwhile is left out as far as that can be told (`treesim_dask.clock`).
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from treesim_dask.clients import open_client
from treesim_dask.clock import work_clock
from treesim_dask.config import PageFilter
from treesim_dask.dataflow import BuildJob, index_source
from treesim_dask.index.segment import SegmentSummary
from treesim_dask.types import Source

if TYPE_CHECKING:
    from distributed import Client

_N_LEAST = 3


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast workers are while `n_workers` of them work on one machine that is otherwise free. Times are in seconds.

    It takes ``open_seconds`` to start them, to load their code and to end them, and ``first_seconds`` until each has
    indexed a first page; then a source takes ``segment_seconds`` whatever it holds, and ``byte_seconds`` for each byte.
    """

    n_workers: int
    open_seconds: float
    first_seconds: float
    segment_seconds: float
    byte_seconds: float

    def toward(self, other: Pace, n_workers: int) -> Pace:
        """Return the pace of a number of workers between this and another pace; beyond them, that of the nearer one.

        Examples
        --------
        >>> Pace(1, 1.0, 1.0, 0.0, 2.0).toward(Pace(5, 3.0, 1.0, 0.0, 4.0), 3)
        Pace(n_workers=3, open_seconds=2.0, first_seconds=1.0, segment_seconds=0.0, byte_seconds=3.0)
        """
        distance = max(other.n_workers - self.n_workers, 1)
        share = min(max(n_workers - self.n_workers, 0) / distance, 1.0)

        def between(name: str) -> float:
            return float((1 - share) * getattr(self, name) + share * getattr(other, name))

        names = ("open_seconds", "first_seconds", "segment_seconds", "byte_seconds")
        return Pace(n_workers, *(between(name) for name in names))


@dataclass(frozen=True, slots=True)
class Timing:
    """One source indexed on a worker: its segment, the seconds it took, and the peak memory of the worker then."""

    source: Source
    segment: SegmentSummary
    seconds: float
    peak_bytes: int

    @property
    def byte_seconds(self) -> float:
        """Seconds for each byte of the source, all included."""
        return self.seconds / max(self.source.size or 0, 1)


def try_samples(n_workers: int, samples: Sequence[Source], job: BuildJob) -> tuple[Pace, list[Timing]]:
    """Let each of `n_workers` local workers index all samples, all workers at the same time.

    The timings of the first worker, which takes the samples in order, come first. It is done in a new process, since a
    build is one too: the second cluster of a process starts faster than the first.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_try_here, n_workers, samples, job).result()


def _try_here(n_workers: int, samples: Sequence[Source], job: BuildJob) -> tuple[Pace, list[Timing]]:
    started = time.perf_counter()
    with open_client(workers=n_workers) as client, tempfile.TemporaryDirectory() as folder:
        page = write_page(Path(folder), job.page_filter)
        first = _run_on_each(client, [[page]] * n_workers, job)
        ready = time.perf_counter()
        # each begins elsewhere, lest all parse and then all write in the same moment
        turns = [[*samples[n % len(samples) :], *samples[: n % len(samples)]] for n in range(n_workers)]
        timings = _run_on_each(client, turns, job)
        least = _run_on_each(client, [[page] * _N_LEAST] * n_workers, job)
        done = time.perf_counter()
    first_seconds = max(timing.seconds for timing in first)
    open_seconds = max(0.0, ready - started - first_seconds) + time.perf_counter() - done
    segment_seconds = statistics.median(timing.seconds for timing in least)
    work_seconds = sum(max(0.0, timing.seconds - segment_seconds) for timing in timings)
    byte_seconds = work_seconds / max(sum(timing.source.size or 0 for timing in timings), 1)
    return Pace(n_workers, open_seconds, first_seconds, segment_seconds, byte_seconds), timings


def write_page(folder: Path, page_filter: PageFilter) -> Source:
    """Write a small page, the least there is to index: it takes all of the code and gives all files of a segment."""
    page = b"<!doctype html><title>a</title><main><p>b<p>c</main>" + b" " * page_filter.min_bytes
    path = folder / "page.html"
    path.write_bytes(page)
    return Source(f"{path}#html-0-of-1", "html", (str(path),), len(page))


def _run_on_each(client: Client, turns: Sequence[Sequence[Source]], job: BuildJob) -> list[Timing]:
    """Give each worker its sources, and an index of its own to write to."""
    futures = [
        client.submit(_time_sources, turn, replace(job, index_url=f"{job.index_url}-{n}"), workers=[worker], pure=False)
        for n, (turn, worker) in enumerate(zip(turns, client.nthreads(), strict=True))
    ]
    return [timing for timings in client.gather(futures) for timing in timings]


def _time_sources(sources: Sequence[Source], job: BuildJob) -> list[Timing]:
    return [_time_source(source, job) for source in sources]


def _time_source(source: Source, job: BuildJob) -> Timing:
    started = work_clock()
    segment = index_source(source, job)
    seconds = work_clock() - started
    return Timing(source, segment, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)

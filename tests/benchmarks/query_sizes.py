"""What a query costs at 10 thousand, 100 thousand and a million pages, before and after compaction.

Stressed: random pages of the whole index are asked for, so that a warm index keeps meeting parts it has not read yet.
Warm is an index that has answered 2,000 others before (40 before compaction, where they take long); also told is what
a query took after 250. Cold is a new process (`python -m treesim_dask query`), bytes are those asked of the file system
by such a query. Memory is the growth of the process while a warm index, bounded at 64 MiB, answers all queries.

    PYTHONPATH=tests python -m benchmarks.query_sizes FOLDER [N_PAGES ...]
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from benchmarks.synthetic import write_index
from treesim_dask import compact, open_index
from treesim_dask.api import Index
from treesim_dask.index.cache import DEFAULT_MEMORY
from treesim_dask.query.page import QueryPage, queries_from_rows

N_WARM_UP, N_FIRST, N_TIMED = 2_000, 250, 250
MEMORY = 64 * 2**20
_FRESH_QUERIES = 60  # before compaction a query of a million pages takes long


class CountingFileSystem(AbstractFileSystem):
    """Local files, every byte read counted."""

    protocol = "counted"
    n_bytes = n_reads = 0
    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._local = LocalFileSystem()

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        return self._local.ls(path, detail=detail)

    def info(self, path: str, **options: Any) -> Any:
        return self._local.info(path)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        return _CountedFile(path)


class _CountedFile:
    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115
        self.size = Path(path).stat().st_size

    def read(self, n_bytes: int = -1) -> bytes:
        data = self._file.read(n_bytes)
        CountingFileSystem.n_bytes += len(data)
        CountingFileSystem.n_reads += 1
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _CountedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def choose_queries(url: str, n: int = N_WARM_UP + N_TIMED) -> list[QueryPage]:
    """Return random pages of an index as queries."""
    index, rng = open_index(url, memory=0), np.random.default_rng(3)
    per_segment = -(-n // len(index.segments))
    queries = [
        query
        for segment in index.segments
        for query in queries_from_rows(segment, rng.integers(segment.summary.n_pages, size=per_segment), index.config)
    ]
    return [queries[i] for i in rng.permutation(len(queries))[:n]]


def measure_warm(url: str, queries: list[QueryPage], memory: int) -> dict[str, float]:
    """Time single queries on an index that has answered all but those before, then all as a batch."""
    index = open_index(url, memory=memory)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n_timed = min(N_TIMED, len(queries) // 3)
    warm_up, timed = queries[:-n_timed], queries[-n_timed:]
    _median_and_tail(index, warm_up[:N_FIRST])
    first, _ = _median_and_tail(index, warm_up[N_FIRST : 2 * N_FIRST])
    for _ in index.search_many(warm_up[2 * N_FIRST :]):
        pass
    p50, p99 = _median_and_tail(index, timed)
    started = time.perf_counter()
    n_answers = sum(len(answer.scores) > 0 for _, answer in index.search_many(queries))
    batch = n_answers / (time.perf_counter() - started)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    cached = index.cache.n_bytes / 2**20
    figures = {"p50 ms": p50, "p99 ms": p99, "batch q/s": batch, "cache MiB": cached, "RSS +MiB": grown}
    return {**figures, "p50 after 250": first}


def _median_and_tail(index: Index, queries: list[QueryPage]) -> tuple[float, float]:
    """Return p50 and p99 of single queries in milliseconds."""
    seconds = []
    for query in queries:
        started = time.perf_counter()
        index.search(query)
        seconds.append(time.perf_counter() - started)
    p50, p99 = np.percentile(seconds or [np.nan], [50, 99]) * 1000
    return float(p50), float(p99)


def measure_bytes(url: str, queries: list[QueryPage]) -> dict[str, float]:
    """Count what a query on a newly opened index reads."""
    fsspec.register_implementation("counted", CountingFileSystem, clobber=True)
    CountingFileSystem.n_bytes = CountingFileSystem.n_reads = 0
    for query in queries[:20]:
        open_index(f"counted://{Path(url).absolute()}").search(query)
    return {"cold MB": CountingFileSystem.n_bytes / 20 / 1e6, "cold reads": CountingFileSystem.n_reads / 20}


def measure_cold(url: str, queries: list[QueryPage]) -> dict[str, float]:
    """Time the command line, from start to exit."""
    seconds = []
    for query in queries[:5]:
        started = time.perf_counter()
        command = [sys.executable, "-m", "treesim_dask", "query", query.name, "--index", url]
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    return {"cold CLI s": float(np.median(seconds))}


def report(name: str, url: str, queries: list[QueryPage]) -> None:
    """Print one line of the table."""
    bounded = measure_warm(url, queries, MEMORY)  # first: the peak of the process never falls again
    default = measure_warm(url, queries, DEFAULT_MEMORY)
    figures = {
        **{key: default[key] for key in ("p50 ms", "p99 ms", "batch q/s", "p50 after 250")},
        **measure_bytes(url, queries),
        **measure_cold(url, queries),
        **{f"{key} (64)": bounded[key] for key in ("p50 ms", "cache MiB", "RSS +MiB")},
    }
    print(f"{name:<16}" + "  ".join(f"{key} {value:,.2f}" for key, value in figures.items()), flush=True)


def main(folder: str, sizes: list[int]) -> None:
    """Write, measure, compact, measure."""
    for n_pages in sizes:
        fresh, compacted = f"{folder}/{n_pages}", f"{folder}/{n_pages}-compacted"
        if not Path(fresh).exists():
            write_index(fresh, n_pages)
        queries = choose_queries(fresh)
        report(f"{n_pages:,}", fresh, queries[:_FRESH_QUERIES])
        if not Path(compacted).exists():
            shutil.copytree(fresh, compacted)
            started = time.perf_counter()
            compact(compacted)
            print(f"compacted in {time.perf_counter() - started:.0f} s", flush=True)
        report(f"{n_pages:,} comp.", compacted, queries)


if __name__ == "__main__":
    main(sys.argv[1], [int(n) for n in sys.argv[2:]] or [10_000, 100_000, 1_000_000])

"""Asks an index many queries, single ones and a batch, and prints what the process grew by: run by a test.

python query_memory.py INDEX N_QUERIES MEMORY
"""

import sys
from pathlib import Path

import numpy as np

from treesim_dask.api import open_index
from treesim_dask.query.page import queries_from_rows


def peak_bytes() -> int:
    """Return the most memory the process has held; not by getrusage, which tells that of a larger parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def main(url: str, n_queries: int, memory: int) -> None:
    """Ask."""
    index = open_index(url, memory=memory)
    segment = index.segments[0]
    rows = np.random.default_rng(1).integers(segment.summary.n_pages, size=n_queries)
    started = peak_bytes()
    queries = queries_from_rows(segment, rows, index.config)
    for query in queries[:50]:
        index.search(query)
    n_matches = sum(len(answer.matches) for _, answer in index.search_many(queries))
    print(n_matches, index.cache.n_bytes, peak_bytes() - started)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

"""A template with 200,000 identical pages among 100,000 others: what a query for it costs, beside ordinary ones.

Stressed: work per page instead of per shape, long lists of pages behind a shape, and ties.

    PYTHONPATH=tests python -m benchmarks.hot_template FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.query_sizes import choose_queries
from benchmarks.synthetic import base_shapes, write_index

from treesim_dask import compact, open_index
from treesim_dask.api import Index
from treesim_dask.query.page import QueryPage, make_query


def median_ms(index: Index, queries: list[QueryPage]) -> float:
    """Return the median time of a query, after each was asked once."""
    seconds = []
    for query in queries * 2:
        started = time.perf_counter()
        index.search(query)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds[len(queries) :])) * 1000


def main(url: str) -> None:
    """Write, measure, compact, measure."""
    if not Path(url).exists():
        write_index(url, 100_000, n_hot=200_000)
    ordinary = choose_queries(url, 100)
    for state in ("fresh", "compacted"):
        index = open_index(url)
        hot = make_query("hot", base_shapes(1), index.config)
        times = median_ms(index, [hot] * 50), median_ms(index, ordinary)
        print(
            f"{state:<10} hot {times[0]:.2f} ms, ordinary {times[1]:.2f} ms, {times[0] / times[1]:.2f} times",
            flush=True,
        )
        compact(url)


if __name__ == "__main__":
    main(sys.argv[1])

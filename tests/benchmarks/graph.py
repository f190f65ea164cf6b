"""What Dask costs before the first page: a graph of very many files, planned and started.

::

    python -m tests.benchmarks.graph --files 100000 --out graph.json

The files do not exist, so that a task takes little more than its own overhead; their outcomes say so. Client and
scheduler share this process: its memory is that of both. The run stops after some hundreds of outcomes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from treesim_dask.clients import open_client
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.dataflow import BuildJob, SourceFailure, build_segments
from treesim_dask.types import Source

_N_OUTCOMES = 500


def main(arguments: Sequence[str] | None = None) -> None:
    """Plan and start a graph, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="benchmark-") as folder, open_client(workers=2) as client:
        urls = [f"{folder}/crawl-data/segment/warc/{number:06d}.warc.gz" for number in range(options.files)]
        sources = [Source(url, "archive", (url,)) for url in urls]
        job = BuildJob(f"{folder}/index", IndexConfig(), PageFilter(), False, {}, {})
        before = psutil.Process().memory_info().rss
        start = time.perf_counter()
        outcomes = build_segments(client, sources, job)
        first = next(outcomes)
        started = time.perf_counter() - start
        others = list(islice(outcomes, _N_OUTCOMES))
        each = (time.perf_counter() - start - started) / _N_OUTCOMES
        after = psutil.Process().memory_info().rss
        outcomes.close()
    assert all(isinstance(outcome, SourceFailure) for outcome, _ in (first, *others))
    figures = {
        "n_files": options.files,
        "seconds_to_first_outcome": round(started, 2),
        "milliseconds_per_outcome": round(each * 1e3, 2),
        "megabytes_client_and_scheduler": round(after / 2**20),
        "megabytes_before": round(before / 2**20),
    }
    print(json.dumps(figures, indent=2))
    if options.out:
        options.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()

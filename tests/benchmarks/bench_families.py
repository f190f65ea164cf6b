"""Every family over every feature, through the real commands: build, eval, tune, build and eval again.

What is stressed: the whole way from archives to answers with other hashes and other vectors. Precision is against the
labels, recall against the exact top k under the default metric, both as ``eval`` measures them. Then ``tune`` chooses
bands and rows on the index, another index is built with them, and what ``tune`` foretold is put beside what ``eval``
measures. The rate of builds is by processor time, since other programs may share the machine.

Run with ``python tests/benchmarks/bench_families.py LABELS.csv WARC...``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from treesim_dask.cli import main

FAMILIES = ("minhash", "weighted-minhash", "hyperplanes", "bits", "projections")
FEATURES = ("branches", "shingles", "paths", "pqgrams", "styles", "branches+styles")
HEADER = (
    "| family | feature | precision at 10 | recall at 10 | candidates | build pages/s | bytes/page "
    "| tuned | foretold recall, candidates | measured | off by |\n" + "|---" * 11 + "|"
)


def command(*argv: object) -> Any:
    """Run a command with ``--json`` and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([str(part) for part in (*argv, "--json")])
    if code:
        sys.exit(f"{argv[0]} ended with code {code}")
    return json.loads(out.getvalue())


def build_rate(folder: Path, warcs: list[str], *options: object, n_builds: int = 3) -> float:
    """Return the pages built per second of processor time in one process: the best of some builds."""
    rates = []
    for number in range(n_builds):
        start = time.process_time()
        built = command("build", *warcs, "--index", folder / f"build-{number}", *options)
        rates.append(built["n_pages"] / (time.process_time() - start))
    return max(rates)


def measure(folder: Path, warcs: list[str], labels: str, family: str, feature: str, recall: float) -> str:
    """Return the row of one family over one feature."""
    chosen = ("--family", family, "--feature", feature)
    quiet = ("--shard", "1/1", "--quiet")
    index, tuned = folder / "index", folder / "tuned"
    rate = build_rate(folder, warcs, *chosen, *quiet)
    built = command("build", *warcs, "--index", index, *chosen, *quiet)
    before = command("eval", index, "--labels", labels, "--quiet")
    aims = ("--threshold", 0.7, "--recall", recall, "--hashes", 256)
    tuning = command("tune", "--index", index, *aims, "--labels", labels)
    bands, rows = tuning["parameters"]["n_bands"], tuning["parameters"]["n_rows"]
    command("build", *warcs, "--index", tuned, *chosen, "--bands", bands, "--rows", rows, *quiet)
    after, foretold = command("eval", tuned, "--labels", labels, "--quiet"), tuning["counted"]
    n_bytes = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    off = [abs(foretold[name] / after[name] - 1) for name in ("recall", "n_candidates")]
    return (
        f"| {family} | {feature} | {before['precision']:.3f} | {before['recall']:.3f} | {before['n_candidates']:.0f} "
        f"| {rate:,.0f} | {n_bytes / built['n_pages']:.0f} | {bands} x {rows} "
        f"| {foretold['recall']:.3f}, {foretold['n_candidates']:.0f} "
        f"| {after['recall']:.3f}, {after['n_candidates']:.0f} | {off[0]:.1%}, {off[1]:.1%} |"
    )


def print_table(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels")
    parser.add_argument("warcs", nargs="+")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--features", default=",".join(FEATURES))
    parser.add_argument("--recall", type=float, default=0.98)
    args = parser.parse_args(argv)
    print(HEADER)
    for feature, family in product(args.features.split(","), args.families.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            print(measure(Path(folder), args.warcs, args.labels, family, feature, args.recall), flush=True)


if __name__ == "__main__":
    print_table()

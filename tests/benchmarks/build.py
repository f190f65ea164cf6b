"""A build beside its floor and its peers, on the same archives, in one run.

::

    python -m tests.benchmarks.build crawl/*.warc.gz --out build.json
    python -m tests.benchmarks.build --demo 4000 --only floor build build-plain

The contenders take turns, each in a process of its own on one core; those with a 2 in their name, and Spark, use two.
Every figure is the median of the repeats. Processor time is what other work on the machine disturbs least; on a quiet
machine the clock says the same, and more of the contenders on two cores.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.measure import Measurement, run_contender
from treesim_dask.demo.crawl import write_demo_warc

LABELS = {
    "floor": "floor: FastWARC + lexbor, nothing else",
    "build": "this build, index written",
    "floor-plain": "warcio + lexbor, nothing else",
    "build-plain": "this build, plain install",
    "report": "the report: warcio, lxml, datasketch",
    "floor-2": "the floor, 2 processes",
    "dask-1": "this build, 1 Dask worker",
    "dask-2": "this build, 2 Dask workers",
    "spark": "the report on pyspark local[2]",
}
_PAIRS = {
    "build / floor": ("build", "floor"),
    "plain build / plain floor": ("build-plain", "floor-plain"),
    "report / build": ("report", "build"),
    "spark / build on 2 workers": ("spark", "dask-2"),
    "1 worker / 2 workers": ("dask-1", "dask-2"),
    "floor / floor in 2 processes": ("floor", "floor-2"),
}
_DEMO_FILES = 4

Results = dict[str, list[Measurement]]


def compare(files: Sequence[str], names: Sequence[str], n_repeats: int) -> Results:
    """Run every contender `n_repeats` times, taking turns."""
    results: Results = {name: [] for name in names}
    for repeat in range(n_repeats):
        for name in names:
            results[name].append(run_contender(name, files))
            times = [f"{us_per_page(results[name][-1:], clock):.0f}" for clock in ("cpu_seconds", "seconds")]
            print(f"  {repeat + 1}/{n_repeats} {name}: {' / '.join(times)} us a page, processor / clock", flush=True)
    return results


def us_per_page(runs: Sequence[Measurement], clock: str) -> float:
    """Return the median time of some runs; `clock` is the name of a field of `Measurement`."""
    return median(getattr(run, clock) / run.n_pages for run in runs) * 1e6


def table(results: Results) -> str:
    """Write the results as a Markdown table."""
    floor = us_per_page(results["floor"], "cpu_seconds") if "floor" in results else None
    lines = [
        "| contender | us/page, processor | us/page, clock | times the floor | peak MB | index bytes/page |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, label in LABELS.items():
        if runs := results.get(name):
            cpu = us_per_page(runs, "cpu_seconds")
            ratio = f"{cpu / floor:.2f}" if floor else ""
            peak = median(run.peak_bytes for run in runs) / 2**20
            n_bytes = sum(runs[0].details.get("index_bytes", {}).values())
            size = f"{n_bytes / runs[0].n_pages:.0f}" if n_bytes else ""
            lines.append(
                f"| {label} | {cpu:.0f} | {us_per_page(runs, 'seconds'):.0f} | {ratio} | {peak:.0f} | {size} |"
            )
    return "\n".join(lines)


def ratios(results: Results) -> dict[str, dict[str, float]]:
    """Return the ratios that are promised, by processor time and by the clock."""
    return {
        label: {
            clock: round(us_per_page(results[slow], clock) / us_per_page(results[fast], clock), 2)
            for clock in ("cpu_seconds", "seconds")
        }
        for label, (slow, fast) in _PAIRS.items()
        if results.get(slow) and results.get(fast)
    }


def breakdown(runs: Sequence[Measurement]) -> dict[str, float]:
    """Return microseconds a page for each stage of a build."""
    return {
        stage: round(median(run.details["stage_seconds"][stage] / run.n_pages for run in runs) * 1e6, 1)
        for stage in runs[0].details["stage_seconds"]
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="WARC files")
    parser.add_argument("--demo", type=int, default=2000, help="pages of a synthetic crawl, if no files are given")
    parser.add_argument("--copies", type=int, default=1, help="each file so many times, for workers to share out")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=[*LABELS, "stages"], default=[*LABELS, "stages"])
    parser.add_argument("--out", type=Path, help="JSON file for everything measured")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="benchmark-") as folder:
        files = _link_copies(Path(folder), options.files or _write_demo(Path(folder), options.demo), options.copies)
        results = compare(files, options.only, options.repeats)
    summary: dict[str, Any] = {"ratios": ratios(results)}
    if "stages" in results:
        summary["us_per_page"] = breakdown(results["stages"])
    if "build" in results:
        run = results["build"][0]
        summary["index_bytes_per_page"] = {
            part: round(size / run.n_pages, 1) for part, size in run.details["index_bytes"].items()
        }
    print(table(results))
    print(json.dumps(summary, indent=2))
    if options.out:
        runs = {name: [asdict(run) for run in measurements] for name, measurements in results.items()}
        machine = {"machine": platform.machine(), "python": platform.python_version()}
        options.out.write_text(json.dumps({**machine, **summary, "runs": runs}, indent=2) + "\n")


def _write_demo(folder: Path, n_pages: int) -> list[str]:
    share = n_pages // _DEMO_FILES
    return [write_demo_warc(folder / f"{i}.warc.gz", i * share, share) for i in range(_DEMO_FILES)]


def _link_copies(folder: Path, files: Sequence[str], n_copies: int) -> list[str]:
    """Return the files as often as asked for; the copies are links, so that each is a source of its own."""
    links = [
        folder / f"{copy}-{number}-{Path(file).name}"
        for copy in range(1, n_copies)
        for number, file in enumerate(files)
    ]
    for link, file in zip(links, list(files) * (n_copies - 1), strict=True):
        link.symlink_to(Path(file).resolve())
    return [*files, *map(str, links)]


if __name__ == "__main__":
    main()

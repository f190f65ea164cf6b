"""Time and memory of a build against the number of pages.

::

    python -m tests.benchmarks.growth --pages 1000 10000 100000 --archives demo --out growth.json --plot growth.png

One worker indexes ever longer parts of one synthetic crawl, and at the end one single archive with all pages in it.
Time should be linear and memory flat. Making the archives takes some minutes; in ``--archives`` they are kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import run_contender
from treesim_dask.demo.crawl import write_demo_warc

PAGES_PER_FILE = 5000


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the growth, print it and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, nargs="+", default=[1000, 3000, 10_000, 30_000, 100_000])
    parser.add_argument("--archives", type=Path, default=Path("growth-archives"))
    parser.add_argument("--out", type=Path, help="JSON file")
    parser.add_argument("--plot", type=Path, help="PNG file")
    options = parser.parse_args(arguments)
    rows = [_measure(f"{n} pages", _demo_archives(options.archives, n)) for n in sorted(options.pages)]
    files = _demo_archives(options.archives, max(options.pages))
    rows.append(_measure("one archive", [_join(files, options.archives / "all.warc.gz")]))
    if options.out:
        options.out.write_text(json.dumps(rows, indent=2) + "\n")
    if options.plot:
        draw(rows, options.plot)


def _measure(label: str, files: Sequence[str]) -> dict[str, Any]:
    run = run_contender("build", files)
    us_per_page = run.cpu_seconds / run.n_pages * 1e6
    print(f"{label}: {run.cpu_seconds:.1f} s, {us_per_page:.0f} us a page, {run.peak_bytes / 2**20:.0f} MB")
    return {"label": label, "n_files": len(files), **asdict(run)}


def _demo_archives(folder: Path, n_pages: int) -> list[str]:
    """Return archives with the first pages of the crawl; make those that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for first in range(0, n_pages, PAGES_PER_FILE):
        n_here = min(PAGES_PER_FILE, n_pages - first)
        path = folder / f"demo-{first}-{n_here}.warc.gz"
        paths.append(str(path) if path.exists() else write_demo_warc(path, first, n_here))
    return paths


def _join(files: Sequence[str], target: Path) -> str:
    with target.open("wb") as joined:
        for file in files:
            with Path(file).open("rb") as part:
                shutil.copyfileobj(part, joined)
    return str(target)


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw seconds and megabytes against pages."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    many, single = rows[:-1], rows[-1]
    pages = [row["n_pages"] for row in many]
    left.loglog(pages, [row["cpu_seconds"] for row in many], "o-", label="archives of 5,000 pages")
    left.loglog(single["n_pages"], single["cpu_seconds"], "x", label="one archive")
    left.set(xlabel="pages", ylabel="processor seconds, one core", title="time")
    right.semilogx(pages, [row["peak_bytes"] / 2**20 for row in many], "o-")
    right.semilogx(single["n_pages"], single["peak_bytes"] / 2**20, "x")
    right.set(xlabel="pages", ylabel="MB", title="peak memory of the worker", ylim=(0, 600))
    left.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()

"""How the search for repeated records grows with the page, and how it compares with the report's 0.2 s a page.

What is stressed: lists of records with optional children, a list of varying length inside each, and sections around
them, so that every level of the tree has siblings to compare. Times are the best of some calls after a first one
that compiles. Run with ``python tests/benchmarks/bench_records.py``; with WARC files as arguments it measures instead
what ``collapse_repeats`` adds to the processor time of a build of these.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from treesim_dask import build
from treesim_dask.dom.collapse import collapse_repeats
from treesim_dask.dom.records import find_regions
from treesim_dask.dom.repeats import find_sequences, first_occurrences
from treesim_dask.dom.tree import parse_trees
from treesim_dask.records import find_records
from treesim_dask.types import TreeBatch

REPORT_SECONDS = 0.2
SIZES = (1_000, 5_000, 20_000, 50_000, 100_000, 200_000)


def listing_page(n_nodes: int, seed: int = 1) -> bytes:
    """Make a listing page of about so many elements."""
    random = np.random.default_rng(seed)
    parts: list[str] = ["<nav><ul>" + "<li><a href=/x>menu</a>" * 30 + "</ul></nav>"]
    n = 65
    while n < n_nodes:
        n_items = int(random.integers(5, 40))
        items = [_item(*random.integers(0, 6, 2).tolist()) for _ in range(n_items)]
        parts.append(f"<section><h2>part</h2>{''.join(items)}</section>")
        n += 2 + sum(item.count("<") - item.count("</") for item in items)
    return "".join(parts).encode()


def _item(n_tags: int, extra: int) -> str:
    tags = "".join(f"<a href=/tag/{i}>tag</a>" for i in range(n_tags))
    offer = "<span class=offer>less</span>" if extra == 0 else ""
    return f"<div class=item><img src=x><h3><a href=/y>name</a></h3><p>text</p>{offer}<div>{tags}</div></div>"


def best_seconds(call: Callable[[], object], n_calls: int = 5) -> float:
    """Return the shortest of some calls, after one that is not counted."""
    call()
    seconds = []
    for _ in range(n_calls):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def report_method(tree: TreeBatch) -> object:
    """Do what the report does after parsing: suffix tree, cut, containment, simplified sequence."""
    return first_occurrences(find_sequences(tree.tags, tree.depths), len(tree.tags))


def measure(html: bytes) -> dict[str, float]:
    """Time each way on one page, in milliseconds."""
    tree = parse_trees([html])
    return {
        "nodes": len(tree.tags),
        "suffix tree": 1e3 * best_seconds(lambda: report_method(tree)),
        "equal": 1e3 * best_seconds(lambda: find_regions(tree.tags, tree.depths)),
        "similar": 1e3 * best_seconds(lambda: find_regions(tree.tags, tree.depths, similarity=0.6)),
        "collapse": 1e3 * best_seconds(lambda: collapse_repeats(tree)),
        "parse": 1e3 * best_seconds(lambda: parse_trees([html]), 2),
    }


def print_growth() -> None:
    """Print milliseconds by size, and nanoseconds a node."""
    names = ("suffix tree", "equal", "similar", "collapse", "parse")
    print("milliseconds (nanoseconds a node)")
    print(f"{'nodes':>8}" + "".join(f"{name:>20}" for name in names))
    for size in SIZES:
        row = measure(listing_page(size))
        cells = "".join(f"{row[name]:>11.2f} ({1e6 * row[name] / row['nodes']:>6.0f})" for name in names)
        print(f"{row['nodes']:>8.0f}{cells}")


def print_against_report() -> None:
    """Print how many times faster than 0.2 s a page of the report's time is, HTML in, records out."""
    html = listing_page(1_000)
    tree = parse_trees([html])
    calls: dict[str, Callable[[], object]] = {
        "parse, suffix tree, simplified sequence": lambda: report_method(parse_trees([html])),
        "parse, regions of similar records": lambda: _parse_and_find(html),
        "parse, collapsed tree": lambda: collapse_repeats(parse_trees([html])),
        "records with selectors and values": lambda: find_records(html),
    }
    print(f"\na page of {len(tree.tags)} nodes and {len(html) / 1e3:.0f} KB against the report's {REPORT_SECONDS} s")
    for name, call in calls.items():
        seconds = best_seconds(call)
        print(f"{name:<42}{1e3 * seconds:>8.2f} ms {REPORT_SECONDS / seconds:>8.0f} times faster")


def print_largest() -> None:
    """Print how long a very large page takes with everything: parsing, regions, selectors and values."""
    html = listing_page(SIZES[-1])
    start = time.perf_counter()
    regions = find_records(html, min_coverage=0.0001)
    seconds = time.perf_counter() - start
    print(f"\n{SIZES[-1]} nodes: {len(regions)} regions with selectors and values in {seconds:.1f} s")


def print_build_cost(warcs: list[str]) -> None:
    """Print the processor time of a build with and without collapsing: the best of eight, taken in turn."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for is_collapsed in (False, True) * 8:
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            report = build(warcs, f"{folder}/index", config={"collapse_repeats": is_collapsed}, shard=(1, 1))
            seconds[is_collapsed].append(time.process_time() - start)
        size = f"{report.n_pages:,} pages of {report.n_shapes:,} shapes"
        print(f"collapsed: {is_collapsed!s:<5} {size} in {seconds[is_collapsed][-1]:.2f} s")
    print(f"collapsing adds {min(seconds[True]) / min(seconds[False]) - 1:.1%} to the processor time of a build")


def _parse_and_find(html: bytes) -> object:
    tree = parse_trees([html])
    return find_regions(tree.tags, tree.depths, similarity=0.6)


if __name__ == "__main__":
    if sys.argv[1:]:
        print_build_cost(sys.argv[1:])
    else:
        print_growth()
        print_against_report()
        print_largest()

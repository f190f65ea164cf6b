"""Indexes of any size without a crawl: the shapes of some thousand demo pages, varied, through the usual writer.

What it is: each template takes the shape of a demo page and renames three of five of its branches by a hash of the
template, so that templates differ; 50 pages of a template have 35 shapes, which differ in a few branches and counts;
the pages of a template are spread over all segments, as in Common Crawl. What it is not: HTML. Nothing is parsed, so
build times say nothing; sizes, candidates and query times are those of an index of as many pages and templates.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.demo import demo_page
from treesim_dask.dom.branches import count_branches
from treesim_dask.dom.tree import parse_trees
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import make_family
from treesim_dask.index.manifest import write_manifest
from treesim_dask.index.segment import segment_id_of
from treesim_dask.index.store import Store
from treesim_dask.index.writer import SegmentWriter
from treesim_dask.types import PageBatch, ShapeBatch, Source, offsets_of

PAGES_PER_TEMPLATE, SHAPES_PER_TEMPLATE = 50, 35
PAGES_PER_SEGMENT = 25_000
_N_BASES = 2_000
_BATCH = 2_048


def write_index(folder: str, n_pages: int, n_hot: int = 0, n_bases: int = _N_BASES) -> str:
    """Write an index of `n_pages` varied pages, and as a last segment `n_hot` pages of one and the same shape."""
    config, store = IndexConfig(), Store(folder)
    bases = base_shapes(n_bases)
    write_manifest(store, config)
    order = np.random.default_rng(7).permutation(n_pages)
    for first in range(0, n_pages, PAGES_PER_SEGMENT):
        numbers = order[first : first + PAGES_PER_SEGMENT]
        batches = [numbers[i : i + _BATCH] for i in range(0, len(numbers), _BATCH)]
        _write_segment(store, config, f"synthetic:{first:09}", [(some, vary(bases, some)) for some in batches])
    if n_hot:
        hot = bases.take(np.zeros(_BATCH, np.int64))
        batches = [np.arange(i, min(i + _BATCH, n_hot)) for i in range(0, n_hot, _BATCH)]
        shapes = [(n_pages + some, hot.take(np.arange(len(some)))) for some in batches]
        _write_segment(store, config, "synthetic:hot", shapes)
    return folder


def base_shapes(n: int = _N_BASES) -> ShapeBatch:
    """Return the shapes of demo pages."""
    pages = [demo_page(1, number).html for number in range(n)]
    return count_branches(parse_trees(pages, IndexConfig().spliced_tags))


def vary(bases: ShapeBatch, numbers: np.ndarray) -> ShapeBatch:
    """Return the shapes of pages given by their numbers. Shape and template follow from the number alone."""
    templates = numbers // PAGES_PER_TEMPLATE
    variants = _mix(numbers.astype(np.uint64)) % np.uint64(SHAPES_PER_TEMPLATE)
    shapes = bases.take(templates % len(bases))
    lengths = np.diff(shapes.indptr)
    of_template = np.repeat(_mix(templates.astype(np.uint64) + np.uint64(10**9)), lengths)
    of_page = np.repeat(_mix(templates.astype(np.uint64) * np.uint64(64) + variants), lengths)
    branches = shapes.branches.astype(np.uint64)
    renamed = _mix(branches ^ of_template)
    branches = np.where(renamed % np.uint64(5) < 3, (renamed >> np.uint64(8)) & np.uint64(2**30 - 1), branches)
    draw = _mix(branches ^ of_page)
    factors = np.where(draw % np.uint64(5) == 0, 1 + (draw >> np.uint64(8)) % np.uint64(3), 1)
    counts = (shapes.counts * factors).astype(np.uint32)
    keep = (draw >> np.uint64(16)) % np.uint64(100) >= 3
    row = np.repeat(np.arange(len(numbers)), lengths)
    keep &= branches > 0
    row, branches, counts = row[keep], branches[keep].astype(np.uint32), counts[keep]
    order = np.lexsort((branches, row))
    row, branches, counts = row[order], branches[order], counts[order]
    first = np.append(True, (row[1:] != row[:-1]) | (branches[1:] != branches[:-1]))
    lengths = np.bincount(row[first], minlength=len(numbers))
    return ShapeBatch(offsets_of(lengths), branches[first], counts[first])


def _mix(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _write_segment(store: Store, config: IndexConfig, url: str, batches: list[tuple[np.ndarray, ShapeBatch]]) -> None:
    if store.exists(f"segments/{segment_id_of(url)}/segment.json"):
        return
    family = make_family(config)
    with SegmentWriter(store, Source(url, "archive", (url,)), config, PageFilter()) as segment:
        offset = 0
        for numbers, shapes in batches:
            n = len(numbers)
            pages = PageBatch(
                html=[b""] * n,
                url=[f"https://www.site{i // PAGES_PER_TEMPLATE}.example/pages/{i}.html" for i in numbers.tolist()],
                date=[1_767_571_200_000 + 1000 * i for i in numbers.tolist()],
                status=[200] * n,
                warc=[f"https://data.example/{url[10:]}.warc.gz"] * n,
                offset=list(range(offset, offset + 20_000 * n, 20_000)),
                length=[19_000] * n,
                digest=[f"sha1:{i:032}" for i in numbers.tolist()],
            )
            offset += 20_000 * n
            fresh = segment.add_pages(pages, shapes)
            signatures = family.sign(fresh)
            segment.add_shapes(fresh, signatures, band_keys(signatures, config.n_bands))
        segment.publish()


if __name__ == "__main__":
    target, n_wanted = sys.argv[1], int(sys.argv[2])
    started = time.monotonic()
    Path(target).mkdir(parents=True, exist_ok=True)
    write_index(target, n_wanted, int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    print(f"{n_wanted:,} pages written to {target} in {time.monotonic() - started:.0f} s")

"""First half of a compaction: shapes and pages of each segment, ordered so that equal shapes meet.

Shapes are ordered by their first hashes, one after the other, and then by their digest. Equal shapes of different
segments therefore fall together, and similar ones come to lie near each other: the candidates of a query are then in
few chunks.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from treesim_dask.index.manifest import parse_json, to_json
from treesim_dask.index.segment import Segment
from treesim_dask.index.store import STAGING, Store, storage_errors
from treesim_dask.index.writer import digest_shapes
from treesim_dask.types import Int64Array, ShapeBatch, UInt32Array, UInt64Array

SCRATCH = "-scratch"

MakeKeys = Callable[[UInt32Array], UInt64Array]

# Bits of the order taken from the first hashes; the other 16 are those of the digest, so that a part can be cut
# anywhere. The first hash tells most templates apart, and those that it does not the next ones do.
_HASH_BITS = (24, 12, 12)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MOST_GROUP_ROWS, _LEAST_GROUP_ROWS = 512, 16
_GROUPS_PER_PART = 4  # row groups a unit has for each part: what is read twice at the edge of a part stays small
_PAGE_GROUP_ROWS = 2048


@dataclass(frozen=True, slots=True)
class Unit:
    """Some consecutive shapes of a segment: a fresh segment, or a part of a compacted one."""

    segment: Segment
    part: int
    first_shape: int
    n_shapes: int

    @property
    def name(self) -> str:
        """A name for the files of this unit."""
        return f"{self.segment.segment_id}-{self.part:05}"


@dataclass(frozen=True, slots=True)
class Work:
    """Where a compaction keeps what is not finished: it travels with each task.

    Parameters
    ----------
    store
        Where the index lies.
    compacted_id
        The segment to be.
    staging_id
        The folder of what is not finished. Its name tells the parameters of the compaction: what was made with others
        is never taken up.
    origins
        The names of the segments its pages were first written to, sorted.
    n_hashes, n_bands, n_ranges
        Length of a signature, number of bands, and in how many ranges of buckets a band is ordered.
    n_parts
        About how many parts the new segment will have.
    with_vectors
        Whether the segments have vectors.
    """

    store: Store
    compacted_id: str
    staging_id: str
    origins: tuple[str, ...]
    n_hashes: int
    n_bands: int
    n_ranges: int
    n_parts: int
    with_vectors: bool

    def staged(self, name: str) -> str:
        """Return the name of an intermediate file, relative to the index."""
        return f"{STAGING}/{self.staging_id}/{name}"

    def finished(self, step: str) -> dict[str, Any] | None:
        """Return what a step gave if it was carried out already, by this run or an interrupted one."""
        name = self.staged(f"{step}.json")
        return parse_json(self.store.read_bytes(name), name) if self.store.exists(name) else None

    def finish(self, step: str, result: dict[str, Any]) -> dict[str, Any]:
        """Note that a step is carried out, and what it gave."""
        self.store.write_bytes(self.staged(f"{step}.json"), to_json(result))
        return result

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a local folder for the duration of the block."""
        folder = self.store.make_staging(f"{self.staging_id}{SCRATCH}")
        try:
            with storage_errors(self.store.url):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def split_unit(unit: Unit, work: Work) -> dict[str, Any]:
    """Write the shapes of a unit in their new order, with their pages, and return what each row group holds.

    Deleted pages, and shapes of which no page is left, are dropped here.
    """
    step = f"split-{unit.name}"
    if (done := work.finished(step)) is not None:
        return done
    segment = unit.segment
    shapes = np.arange(unit.first_shape, unit.first_shape + unit.n_shapes, dtype=np.int64)
    # 1. the pages that are left, by shape
    rows, shape_of, origins = _live_pages(segment, shapes, work)
    n_pages = np.bincount(shape_of, minlength=len(shapes))
    # 2. the new order
    signatures = segment.read_signatures(shapes)
    if segment.has_vectors:
        vectors = segment.read_shapes(shapes)
        digests = digest_shapes(vectors)
    else:
        vectors = ShapeBatch(np.zeros(len(shapes) + 1, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))
        digests = segment.read_digests(shapes)
    keys = order_keys(signatures, digests)
    order = np.lexsort((digests[:, 1], digests[:, 0], keys))
    order = order[n_pages[order] > 0]
    # 3. both tables
    n_rows = min(_MOST_GROUP_ROWS, max(_LEAST_GROUP_ROWS, unit.n_shapes // (_GROUPS_PER_PART * work.n_parts)))
    rank = np.zeros(len(shapes), np.int64)
    rank[order] = np.arange(len(order))
    page_order = np.lexsort((origins, rank[shape_of]))
    table = segment.read_pages(rows[page_order]).append_column("origin", pa.array(origins[page_order], pa.uint64()))
    with work.scratch() as folder:
        pq.write_table(table, folder / "pages", row_group_size=_PAGE_GROUP_ROWS, compression="zstd")
        shape_table = _shape_table(keys, digests, signatures, vectors, n_pages, order)
        pq.write_table(shape_table, folder / "shapes", row_group_size=n_rows, compression="zstd")
        for name in ("pages", "shapes"):
            work.store.put_file(folder / name, work.staged(f"{name}-{unit.name}.parquet"))
    starts = np.arange(0, len(order), n_rows)
    result = {
        "first_keys": keys[order][starts].tolist(),
        "n_shapes": np.diff(np.append(starts, len(order))).tolist(),
        "n_pages": [int(n_pages[order[start : start + n_rows]].sum()) for start in starts],
    }
    return work.finish(step, result)


def _live_pages(segment: Segment, shapes: Int64Array, work: Work) -> tuple[Int64Array, Int64Array, UInt64Array]:
    """Return row, shape (counted from the first of the unit) and new origin of each page that is not deleted."""
    lengths = segment.count_pages(shapes)
    rows = segment.first_pages(shapes, lengths)
    origins = segment.page_origins(rows)
    keep = segment.deletions.keep(origins) if segment.deletions else np.ones(len(rows), bool)
    renumbered = np.searchsorted(np.array(work.origins), np.array(segment.origins)).astype(np.uint64)
    number = renumbered[(origins >> np.uint64(32)).astype(np.int64)]
    moved = number << np.uint64(32) | origins & np.uint64(2**32 - 1)
    return rows[keep], np.repeat(np.arange(len(shapes)), lengths)[keep], moved[keep]


def order_keys(signatures: UInt32Array, digests: UInt64Array) -> UInt64Array:
    """Return what shapes are ordered by: some bits of their first hashes, then of their digest.

    Shapes that agree in the first hash lie together, among these the ones that agree in the second, and so on: of two
    similar shapes the first differing hash comes late. In the order of whole buckets they would lie anywhere as soon as
    one row of the first band differs.

    Parameters
    ----------
    signatures
        Shape (n_shapes, n_hashes), dtype uint32.
    digests
        Shape (n_shapes, 2), dtype uint64.
    """
    keys = digests[:, 0] >> np.uint64(sum(_HASH_BITS))
    n_left = 64
    for hashes, n_bits in zip(signatures.T, _HASH_BITS, strict=False):
        n_left -= n_bits
        keys |= (hashes * _GOLDEN >> np.uint64(64 - n_bits)) << np.uint64(n_left)
    return keys


def choose_cuts(splits: Sequence[dict[str, Any]], shapes_per_part: int, pages_per_part: int) -> list[int]:
    """Choose the first key of each part, so that no part has many more shapes or pages than wanted.

    Examples
    --------
    >>> choose_cuts([{"n_shapes": [512, 512], "first_keys": [5, 9], "n_pages": [512, 512]}], 512, 10**6)
    [0, 9]
    """
    columns = ("first_keys", "n_shapes", "n_pages")
    groups = sorted(group for split in splits for group in zip(*(split[name] for name in columns), strict=True))
    cuts, n_shapes, n_pages = [0], 0, 0
    for key, more_shapes, more_pages in groups:
        is_full = n_shapes + more_shapes > shapes_per_part or n_pages + more_pages > pages_per_part
        if n_shapes and is_full and key > cuts[-1]:
            cuts.append(key)
            n_shapes = n_pages = 0
        n_shapes += more_shapes
        n_pages += more_pages
    return cuts


def _shape_table(
    keys: UInt64Array,
    digests: UInt64Array,
    signatures: UInt32Array,
    vectors: ShapeBatch,
    n_pages: Int64Array,
    order: Int64Array,
) -> pa.Table:
    chosen = vectors.take(order)
    offsets = pa.array(chosen.indptr, pa.int64())
    return pa.table(
        {
            "key": keys[order],
            "low": digests[order, 0],
            "high": digests[order, 1],
            "n_pages": n_pages[order].astype(np.int64),
            "signature": pa.FixedSizeListArray.from_arrays(signatures[order].ravel(), signatures.shape[1]),
            "branches": pa.LargeListArray.from_arrays(offsets, pa.array(chosen.branches)),
            "counts": pa.LargeListArray.from_arrays(offsets, pa.array(chosen.counts)),
        }
    )


def read_split(unit: Unit, work: Work, low: int, high: int, columns: Sequence[str]) -> tuple[pa.Table, int]:
    """Return the shapes of a unit with keys from `low` up to `high`, and the number of pages before theirs."""
    split = work.finished(f"split-{unit.name}") or {}
    first = np.array(split["first_keys"], np.uint64)
    start = max(int(np.searchsorted(first, np.uint64(low), "left")) - 1, 0)
    stop = int(np.searchsorted(first, np.uint64(high), "left")) if high < 2**64 else len(first)
    with work.store.open_binary(work.staged(f"shapes-{unit.name}.parquet")) as file:
        table = pq.ParquetFile(file).read_row_groups(list(range(start, stop)), columns=[*columns, "key", "n_pages"])
    keys, n_pages = table.column("key").to_numpy(), table.column("n_pages").to_numpy()
    inside = np.flatnonzero((keys >= np.uint64(low)) & (keys <= np.uint64(high - 1)))
    first_row = int(inside[0]) if len(inside) else 0
    n_before = sum(split["n_pages"][:start]) + int(n_pages[:first_row].sum())
    return table.slice(first_row, len(inside)), n_before


def read_split_pages(unit: Unit, work: Work, first: int, n_pages: int) -> pa.Table:
    """Return some consecutive pages of a unit in their new order."""
    with work.store.open_binary(work.staged(f"pages-{unit.name}.parquet")) as file:
        table = pq.ParquetFile(file)
        groups = range(first // _PAGE_GROUP_ROWS, -(-(first + n_pages) // _PAGE_GROUP_ROWS))
        rows = table.read_row_groups(list(groups)) if n_pages else table.schema_arrow.empty_table()
    return rows.slice(first - groups.start * _PAGE_GROUP_ROWS if n_pages else 0, n_pages)

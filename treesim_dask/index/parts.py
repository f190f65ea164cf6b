"""Shapes to vectors and pages: what a segment, or each part of a compacted one, holds beside its band table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.cache import Cache
from treesim_dask.index.chunks import ChunkedArray
from treesim_dask.index.store import Store
from treesim_dask.index.tables import PAGES, arrow_integers, column_values, damage_errors, open_table
from treesim_dask.types import Int64Array, ShapeBatch, UInt64Array, offsets_of

SIGNATURES = "signatures"
INDPTR, BRANCHES, COUNTS = "branches/indptr", "branches/branch", "branches/count"
DIGESTS = "digests"  # in the place of the vectors, where they are not stored
PAGE_INDPTR, ORIGINS = "shape_pages/indptr", "shape_pages/origin"

_FOOTER_FACTOR = 14  # what a parsed footer takes in memory for each byte of the file, as measured
_TABLE_BYTES = 12 * 2**10  # what a table takes beside its columns, as measured


class Vectors:
    """The sparse vectors of a folder's shapes."""

    def __init__(self, store: Store, folder: str, cache: Cache) -> None:
        self._folder = f"{store.url}/{folder}"
        names = (INDPTR, BRANCHES, COUNTS)
        self._indptr, self._branches, self._counts = (ChunkedArray(store, f"{folder}/{name}", cache) for name in names)

    def read(self, shapes: Int64Array | None = None) -> ShapeBatch:
        """Return the vectors of some shapes in the given order, or of all."""
        if shapes is None:
            return self._read_all()
        starts, stops = _row_bounds(self._indptr, shapes, self._branches)
        branches, counts = (array.read_ranges(starts, stops) for array in (self._branches, self._counts))
        return ShapeBatch(offsets_of(stops - starts), branches, counts)

    def _read_all(self) -> ShapeBatch:
        batch = ShapeBatch(self._indptr.read(), self._branches.read(), self._counts.read())
        is_ordered = bool((np.diff(batch.indptr) >= 0).all()) and batch.indptr[:1].tolist() == [0]
        if not is_ordered or not batch.indptr[-1] == len(batch.branches) == len(batch.counts):
            raise IndexFormatError(f"{self._folder} is damaged: its vectors do not fit together; run check")
        return batch


class PageTable:
    """A page table, read by row group.

    Parameters
    ----------
    store
        Where the index lies.
    name
        The Parquet file, relative to the index.
    cache
        Keeps its footer and decoded row groups.
    """

    def __init__(self, store: Store, name: str, cache: Cache) -> None:
        self._store, self._name, self._cache = store, name, cache

    def _open(self) -> tuple[pq.ParquetFile, Int64Array]:
        """Return the file and the row at which each group ends."""
        key = (self._store.url, self._name, "file")
        return self._cache.get(key, self._load, lambda opened: _FOOTER_FACTOR * opened[0].metadata.serialized_size)

    def _load(self) -> tuple[pq.ParquetFile, Int64Array]:
        table = open_table(self._store, self._name)
        sizes = [table.metadata.row_group(group).num_rows for group in range(table.metadata.num_row_groups)]
        return table, np.cumsum(sizes, dtype=np.int64)

    def read(self, rows: Int64Array | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the table, or some of its rows in the given order, decoding only the row groups they lie in."""
        table, ends = self._open()
        names = list(columns) if columns is not None else table.schema_arrow.names
        if rows is None:
            with damage_errors(self._store, self._name):
                return table.read(columns=names, use_threads=False)
        if not len(rows):
            return table.schema_arrow.empty_table().select(names)
        if rows.min() < 0 or rows.max() >= ends[-1:].sum():
            where = f"{self._store.url}/{self._name}"
            raise IndexFormatError(f"{where} has {ends[-1:].sum()} rows, others are asked for: run check to see why")
        group_of = np.searchsorted(ends, rows, side="right")
        groups, place = np.unique(group_of, return_inverse=True)
        with damage_errors(self._store, self._name):
            pieces = [self._group(table, int(group), tuple(names)) for group in groups]
        starts = offsets_of(np.array([piece.num_rows for piece in pieces]))
        within = starts[place] + rows - (ends[group_of] - np.diff(ends, prepend=0)[group_of])
        return pa.concat_tables(pieces).take(arrow_integers(within))

    def _group(self, table: pq.ParquetFile, group: int, names: tuple[str, ...]) -> pa.Table:
        return self._cache.get(
            (self._store.url, self._name, group, names),
            lambda: table.read_row_group(group, columns=list(names), use_threads=False),
            lambda piece: int(piece.nbytes) + _TABLE_BYTES,
        )


class Part(Protocol):
    """Shapes numbered from 0, with their vectors and pages."""

    vectors: Vectors
    digests: ChunkedArray
    pages: PageTable

    def count_pages(self, shapes: Int64Array) -> Int64Array:
        """Return the number of pages of each shape."""

    def first_pages(self, shapes: Int64Array, lengths: Int64Array) -> Int64Array:
        """Return the rows of the first pages of each shape, as many as said, in the order of their ids."""

    def page_origins(self, rows: Int64Array) -> UInt64Array:
        """Return where pages were first written: the number of the origin in the upper 32 bits, the row below."""

    def page_shapes(self) -> Int64Array:
        """Return the shape of each page."""


class FreshPart:
    """What a build wrote: pages in the order of their source, pointing at shapes."""

    def __init__(self, store: Store, folder: str, cache: Cache) -> None:
        self.vectors = Vectors(store, folder, cache)
        self.digests = ChunkedArray(store, f"{folder}/{DIGESTS}", cache)
        self.pages = PageTable(store, f"{folder}/{PAGES}", cache)
        self._cache, self._key = cache, (store.url, folder, "shape_pages")
        self._where = f"{store.url}/{folder}/{PAGES}"

    def page_shapes(self) -> Int64Array:
        """Return the shape of each page. Shape (n_pages,), dtype int64."""
        return column_values(self.pages.read(columns=["shape"]), "shape").astype(np.int64)

    def _shape_pages(self) -> tuple[Int64Array, Int64Array]:
        return self._cache.get(self._key, self._invert, lambda lists: lists[0].nbytes + lists[1].nbytes)

    def _invert(self) -> tuple[Int64Array, Int64Array]:
        shapes = self.page_shapes()
        if len(shapes) and shapes.max() >= len(shapes):  # each shape has a page at least
            raise IndexFormatError(f"{self._where} is damaged: a page has a shape that is not there; run check")
        return offsets_of(np.bincount(shapes)), np.argsort(shapes, kind="stable")

    def count_pages(self, shapes: Int64Array) -> Int64Array:
        """Return the number of pages of each shape."""
        indptr, _ = self._shape_pages()
        if len(shapes) and shapes.max() >= len(indptr) - 1:
            raise IndexFormatError(f"{self._where} has no page of a shape that is asked for: run check to see why")
        return indptr[shapes + 1] - indptr[shapes]

    def first_pages(self, shapes: Int64Array, lengths: Int64Array) -> Int64Array:
        """Return the rows of the first pages of each shape, as many as said, in the order of their ids."""
        indptr, rows = self._shape_pages()
        return rows[_spread(indptr[shapes], lengths)]

    def page_origins(self, rows: Int64Array) -> UInt64Array:
        """Return where pages were first written: here, in this row."""
        return rows.astype(np.uint64)


class CompactedPart:
    """A part of a compacted segment: pages in the order of their shapes, and of their ids inside a shape."""

    def __init__(self, store: Store, folder: str, cache: Cache) -> None:
        self.vectors = Vectors(store, folder, cache)
        self.digests = ChunkedArray(store, f"{folder}/{DIGESTS}", cache)
        self.pages = PageTable(store, f"{folder}/{PAGES}", cache)
        self._indptr = ChunkedArray(store, f"{folder}/{PAGE_INDPTR}", cache)
        self._origins = ChunkedArray(store, f"{folder}/{ORIGINS}", cache)

    def page_shapes(self) -> Int64Array:
        """Return the shape of each page. Shape (n_pages,), dtype int64."""
        lengths = np.diff(self._indptr.read())
        return np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)

    def count_pages(self, shapes: Int64Array) -> Int64Array:
        """Return the number of pages of each shape."""
        starts, stops = _row_bounds(self._indptr, shapes, self._origins)
        return stops - starts

    def first_pages(self, shapes: Int64Array, lengths: Int64Array) -> Int64Array:
        """Return the rows of the first pages of each shape, as many as said, in the order of their ids."""
        return _spread(self._indptr.take(shapes), lengths)

    def page_origins(self, rows: Int64Array | None = None) -> UInt64Array:
        """Return where pages were first written: the number of the origin in the upper 32 bits, the row below."""
        return self._origins.read() if rows is None else self._origins.take(rows)


def _row_bounds(indptr: ChunkedArray, rows: Int64Array, entries: ChunkedArray) -> tuple[Int64Array, Int64Array]:
    """Return where some rows of a CSR array start and stop among its entries."""
    starts, stops = indptr.read_ranges(rows, rows + 2).reshape(-1, 2).T
    entries.check_ranges(starts, stops)
    return np.asarray(starts), np.asarray(stops)


def _spread(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """Return `lengths[i]` consecutive numbers from `starts[i]` on, for all i."""
    shifts = np.repeat(starts - offsets_of(lengths)[:-1], lengths)
    return np.arange(len(shifts), dtype=np.int64) + shifts


def join_vectors(batches: Sequence[ShapeBatch]) -> ShapeBatch:
    """Join batches, one after the other."""
    if len(batches) == 1:
        return batches[0]
    return ShapeBatch(
        offsets_of(_row_lengths(batches)),
        np.concatenate([np.empty(0, np.uint32), *(batch.branches for batch in batches)]),
        np.concatenate([np.empty(0, np.uint32), *(batch.counts for batch in batches)]),
    )


def _row_lengths(batches: Sequence[ShapeBatch]) -> Int64Array:
    """Return the lengths of all rows; with as few calls for a thousand batches of one row as for one of a thousand."""
    if not batches:
        return np.empty(0, np.int64)
    ends = np.cumsum([len(batch) + 1 for batch in batches])
    lengths = np.diff(np.concatenate([batch.indptr for batch in batches]))
    return np.delete(lengths, ends[:-1] - 1)  # from the end of one batch to the start of the next

"""Buckets to shapes: a band table, read by row group with the help of a small lookup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from treesim_dask.index.cache import Cache
from treesim_dask.index.store import Store
from treesim_dask.index.tables import column_values, damage_errors, open_table
from treesim_dask.kernels import kernel
from treesim_dask.types import Int64Array, UInt32Array, UInt64Array, offsets_of

_LOOKUP_KINDS: dict[str, Any] = {
    "band": np.int64,
    "first": np.uint64,
    "last": np.uint64,
    "file": np.int64,
    "group": np.int64,
    "n_rows": np.int64,
}
_FOOTER_FACTOR = 4  # a parsed footer takes about four times its size on disk


@dataclass(frozen=True, slots=True)
class Hits:
    """Where queries met shapes: query i and shape ``shapes[i]`` share their bucket of band ``bands[i]``.

    Parameters
    ----------
    queries, bands, shapes
        Shape (n_hits,), dtype int64.
    n_capped
        Shape (n_queries,), dtype int64: how many entries of overfull buckets were passed over.
    """

    queries: Int64Array
    bands: Int64Array
    shapes: Int64Array
    n_capped: Int64Array


@dataclass(frozen=True, slots=True)
class Lookup:
    """The row groups of a band table, in the order of (band, bucket). Arrays of shape (n_groups,).

    ``first`` and ``last`` (uint64) are the least and the greatest bucket of a group; ``file`` and ``group`` say where
    it is, ``n_rows`` how long.
    """

    band: Int64Array
    first: UInt64Array
    last: UInt64Array
    file: Int64Array
    group: Int64Array
    n_rows: Int64Array

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return sum(getattr(self, name).nbytes for name in Lookup.__slots__)


class BandTable:
    """The band table of a segment, in one or more Parquet files.

    Parameters
    ----------
    store
        Where the index lies.
    names
        The files, relative to the index.
    cache
        Keeps the lookup, the footers and decoded row groups.
    lookup_name
        A Parquet file with the lookup; without it the lookup is made from the footers.
    """

    def __init__(self, store: Store, names: Sequence[str], cache: Cache, lookup_name: str | None = None) -> None:
        self._store, self._names, self._cache, self._lookup_name = store, names, cache, lookup_name

    @property
    def lookup(self) -> Lookup:
        """Where each row group is, and which buckets it holds."""
        key = (self._store.url, self._names[0], "lookup")
        return self._cache.get(key, self._load_lookup, lambda lookup: lookup.n_bytes)

    def _load_lookup(self) -> Lookup:
        if self._lookup_name is None:
            return lookup_of([self._open(file) for file in range(len(self._names))])
        columns = open_table(self._store, self._lookup_name).read(use_threads=False)
        return Lookup(*(column_values(columns, name).astype(kind) for name, kind in _LOOKUP_KINDS.items()))

    def find(self, keys: UInt64Array, cap: int | None = None) -> Hits:
        """Return the shapes that share a bucket with each query.

        Every row group is looked at once, however many queries want it.

        Parameters
        ----------
        keys
            Shape (n_queries, n_bands), dtype uint64: the bucket of each query in each band.
        cap
            Take at most this many shapes of a bucket.
        """
        lookup = self.lookup
        queries, bands, groups = _wanted_groups(keys, lookup)
        order = np.argsort(groups, kind="stable")
        queries, bands, groups = queries[order], bands[order], groups[order]
        distinct, starts = np.unique(groups, return_index=True)
        stops = np.append(starts, len(groups))[1:]
        wanted = keys[queries, bands]
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        ranges = zip(starts.tolist(), stops.tolist(), strict=True)
        for (buckets, members), (start, stop) in zip(self._groups(lookup, distinct), ranges, strict=True):
            found.append(_find_members(buckets, members, wanted, start, stop))
        position, shapes = (np.concatenate(column) for column in zip(*found, strict=True))
        hits = Hits(queries[position], bands[position], shapes, np.zeros(len(keys), np.int64))
        return hits if cap is None else _cap_buckets(hits, cap, keys.shape[1])

    def read_all(self) -> Iterator[tuple[int, UInt64Array, UInt32Array]]:
        """Yield (band, buckets, shapes) of each row group in order."""
        lookup = self.lookup
        for i, (buckets, shapes) in enumerate(self._groups(lookup, np.arange(len(lookup.band)))):
            yield int(lookup.band[i]), buckets, shapes

    def _groups(self, lookup: Lookup, positions: Int64Array) -> Iterator[tuple[UInt64Array, UInt32Array]]:
        """Yield the buckets and shapes of some row groups, reading several at once from a file."""
        for block in np.array_split(positions, max(1, len(positions) // 64)):
            kept: dict[int, Any] = {i: self._cache.find(self._group_key(i)) for i in block.tolist()}
            missing = np.array([i for i, group in kept.items() if group is None], np.int64)
            for file in np.unique(lookup.file[missing]).tolist():
                kept.update(self._read_groups(lookup, file, missing[lookup.file[missing] == file]))
            yield from (kept[int(i)] for i in block)

    def _read_groups(
        self, lookup: Lookup, file: int, positions: Int64Array
    ) -> Iterator[tuple[int, tuple[UInt64Array, UInt32Array]]]:
        numbers = lookup.group[positions].tolist()
        with damage_errors(self._store, self._names[file]):
            rows = self._open(file).read_row_groups(numbers, columns=["bucket", "shape"], use_threads=False)
        ends = np.cumsum(lookup.n_rows[positions])[:-1]
        buckets = np.split(column_values(rows, "bucket"), ends)
        shapes = np.split(column_values(rows, "shape"), ends)
        for i, *group in zip(positions.tolist(), buckets, shapes, strict=True):
            piece = (group[0].copy(), group[1].copy())  # a view would keep its neighbours in memory
            self._cache.keep(self._group_key(i), piece, piece[0].nbytes + piece[1].nbytes)
            yield i, piece

    def _group_key(self, position: int) -> tuple[str, str, str, int]:
        return self._store.url, self._names[0], "group", position

    def _open(self, file: int) -> pq.ParquetFile:
        key = (self._store.url, self._names[file], "file")
        return self._cache.get(
            key,
            lambda: open_table(self._store, self._names[file]),
            lambda table: _FOOTER_FACTOR * table.metadata.serialized_size,
        )


@kernel
def _find_members(
    buckets: UInt64Array, members: UInt32Array, wanted: UInt64Array, start: int, stop: int
) -> tuple[Int64Array, Int64Array]:
    """Return the shapes of the buckets ``wanted[start:stop]``, each with the position of its bucket in `wanted`."""
    first = np.searchsorted(buckets, wanted[start:stop])
    lengths = np.zeros(stop - start, np.int64)
    for i in range(stop - start):
        while first[i] + lengths[i] < len(buckets) and buckets[first[i] + lengths[i]] == wanted[start + i]:
            lengths[i] += 1
    positions, shapes = np.empty(lengths.sum(), np.int64), np.empty(lengths.sum(), np.int64)
    n = 0
    for i in range(stop - start):
        for entry in range(first[i], first[i] + lengths[i]):
            positions[n], shapes[n] = start + i, members[entry]
            n += 1
    return positions, shapes


def lookup_of(tables: Sequence[pq.ParquetFile]) -> Lookup:
    """Make the lookup of a band table from the footers of its files."""
    rows = []
    for file, table in enumerate(tables):
        for group in range(table.metadata.num_row_groups):
            metadata = table.metadata.row_group(group)
            if not metadata.num_rows:
                continue
            band, bucket = metadata.column(0).statistics, metadata.column(1).statistics
            rows.append((band.min, bucket.min, bucket.max, file, group, metadata.num_rows))
    columns: list[tuple[int, ...]] = list(zip(*rows, strict=True)) or [()] * len(_LOOKUP_KINDS)
    arrays: list[Any] = [np.array(c, kind) for c, kind in zip(columns, _LOOKUP_KINDS.values(), strict=True)]
    return Lookup(*arrays)


def _wanted_groups(keys: UInt64Array, lookup: Lookup) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return (query, band, row group) wherever a row group may hold the bucket of a query."""
    n_queries, n_bands = keys.shape
    edges = np.searchsorted(lookup.band, np.arange(n_bands + 1))
    low, high = np.empty((n_bands, n_queries), np.int64), np.empty((n_bands, n_queries), np.int64)
    for band in range(n_bands):
        groups = slice(edges[band], edges[band + 1])
        low[band] = edges[band] + np.searchsorted(lookup.last[groups], keys[:, band], "left")
        high[band] = edges[band] + np.searchsorted(lookup.first[groups], keys[:, band], "right")
    lengths = np.maximum(high - low, 0).ravel()
    cell = np.repeat(np.arange(n_bands * n_queries), lengths)
    groups_ = low.ravel()[cell] + np.arange(len(cell)) - offsets_of(lengths)[:-1][cell]
    return cell % n_queries, cell // n_queries, groups_


def _cap_buckets(hits: Hits, cap: int, n_bands: int) -> Hits:
    """Keep the first `cap` shapes of each query and band."""
    cell = hits.queries * n_bands + hits.bands
    order = np.lexsort((hits.shapes, cell))
    starts = np.flatnonzero(np.append(True, np.diff(cell[order]) != 0)) if len(order) else order
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    kept = np.sort(order[rank < cap])
    n_capped = np.bincount(hits.queries[order[rank >= cap]], minlength=len(hits.n_capped))
    return Hits(hits.queries[kept], hits.bands[kept], hits.shapes[kept], n_capped)

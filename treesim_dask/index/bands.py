"""Buckets to shapes: a band table, read by row group with the help of a small lookup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.cache import Cache
from treesim_dask.index.columns import decode_integers
from treesim_dask.index.store import Store
from treesim_dask.index.tables import column_values, damage_errors, open_table
from treesim_dask.kernels import address_of, kernel, load_half_word, load_word
from treesim_dask.types import Int64Array, UInt32Array, UInt64Array

_LOOKUP_KINDS: dict[str, Any] = {
    "band": np.int64,
    "first": np.uint64,
    "last": np.uint64,
    "file": np.int64,
    "offset": np.int64,
    "n_bucket_bytes": np.int64,
    "n_shape_bytes": np.int64,
    "n_rows": np.int64,
}
_ROWS_AT_ONCE = 2**19  # of decoded row groups, 12 bytes each
_SMALL_BYTES = 2**18  # from a distant store a file of this size takes no longer than its footer
_MOST_BYTES = 2**40  # of a file
_HITS_PER_QUERY = 2**10  # for which there is room at first


@dataclass(frozen=True, slots=True)
class Hits:
    """Where queries met shapes: query i and shape ``shapes[i]`` share their bucket of band ``bands[i]``.

    Parameters
    ----------
    queries, bands, shapes
        Shape (n_hits,), dtype uint32; the bands of a query and a shape are in ascending order.
    n_capped
        Shape (n_queries,), dtype int64: how many entries of overfull buckets were passed over.
    """

    queries: UInt32Array
    bands: UInt32Array
    shapes: UInt32Array
    n_capped: Int64Array


@dataclass(frozen=True, slots=True)
class Lookup:
    """The row groups of a band table, in the order of (band, bucket). Arrays of shape (n_groups,).

    ``first`` and ``last`` (uint64) are the least and the greatest bucket of a group; ``file`` and ``offset`` say where
    its buckets are, ``n_bucket_bytes`` and, right behind them, ``n_shape_bytes`` how many bytes they and the shapes
    take there, ``n_rows`` how many there are.
    """

    band: Int64Array
    first: UInt64Array
    last: UInt64Array
    file: Int64Array
    offset: Int64Array
    n_bucket_bytes: Int64Array
    n_shape_bytes: Int64Array
    n_rows: Int64Array

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        return sum(getattr(self, name).nbytes for name in Lookup.__slots__)

    def may_be_of(self, n_files: int) -> bool:
        """Tell whether all row groups lie in one of so many files."""
        places = (self.offset, self.n_bucket_bytes, self.n_shape_bytes)
        is_within = all(bool(((column >= 0) & (column <= _MOST_BYTES)).all()) for column in places)
        return is_within and bool(((self.file >= 0) & (self.file < n_files) & (self.n_rows > 0)).all())


class Group(NamedTuple):
    """A decoded row group; where its columns begin in memory (NumPy is slow to say it), its length."""

    buckets: UInt64Array
    shapes: UInt32Array
    addresses: tuple[int, int, int]


class BandTable:
    """The band table of a segment, in one or more Parquet files.

    Parameters
    ----------
    store
        Where the index lies.
    names
        The files, relative to the index.
    cache
        Keeps the lookup and decoded row groups.
    lookup_name
        A Parquet file with the lookup; without it the lookup is made from the footers.
    n_bytes
        Size of the table, where that is known.
    """

    def __init__(
        self,
        store: Store,
        names: Sequence[str],
        cache: Cache,
        lookup_name: str | None = None,
        n_bytes: int | None = None,
    ) -> None:
        self._store, self._names, self._cache, self._lookup_name = store, names, cache, lookup_name
        self._is_read_whole = not store.is_local and n_bytes is not None and n_bytes <= _SMALL_BYTES

    @property
    def lookup(self) -> Lookup:
        """Where each row group is, and which buckets it holds."""
        key = (self._store.url, self._names[0], "lookup")
        return self._cache.get(key, self._load_checked, lambda lookup: lookup.n_bytes)

    def _load_checked(self) -> Lookup:
        lookup = self._load_lookup()
        if not lookup.may_be_of(len(self._names)):
            where = f"{self._store.url}/{self._lookup_name or self._names[0]}"
            raise IndexFormatError(f"{where} is damaged: it says where no row group can be; run check")
        return lookup

    def _load_lookup(self) -> Lookup:
        if self._is_read_whole:
            return self._load_whole()
        if self._lookup_name is not None:
            columns = open_table(self._store, self._lookup_name).read(use_threads=False)
            if set(_LOOKUP_KINDS) <= set(columns.column_names):  # else it is from before offsets were noted
                return Lookup(*(column_values(columns, name).astype(kind) for name, kind in _LOOKUP_KINDS.items()))
        tables = [open_table(self._store, name) for name in self._names]
        with damage_errors(self._store, self._names[0]):
            return lookup_of(tables)

    def find(self, keys: UInt64Array, cap: int | None = None, most: int | None = None) -> Hits | None:
        """Return the shapes that share a bucket with each query, or None if there are more than `most`.

        Every row group is looked at once, however many queries want it.

        Parameters
        ----------
        keys
            Shape (n_queries, n_bands), dtype uint64: the bucket of each query in each band.
        cap
            Take at most this many shapes of a bucket.
        most
            How many hits there is memory for.
        """
        lookup = self.lookup
        queries, bands, groups = _wanted_groups(keys, lookup.band, lookup.first, lookup.last)
        # small integers are sorted in a tenth of the time
        order = np.argsort(groups.astype(np.min_scalar_type(len(lookup.band))), kind="stable")
        queries, bands, groups = queries[order], bands[order], groups[order]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        edges = np.append(starts, len(groups))
        wanted = keys[queries, bands]
        found, n_found = np.empty((3, _HITS_PER_QUERY * len(keys)), np.uint32), 0
        room, n_capped = np.full(keys.shape, cap or 0, np.int64), np.zeros(len(keys), np.int64)
        for first_group, read in self._groups(lookup, groups[starts]):
            edge = edges[first_group : first_group + len(read) + 1]
            columns = np.array([group.addresses for group in read], np.uint64)
            first, lengths, n_more = _find_buckets(columns, edge, wanted)
            if cap is not None:
                n_more = _cap_buckets(lengths, queries, bands, edge[0], room, n_capped)
            if most is not None and n_found + n_more > most:
                return None
            if n_found + n_more > found.shape[1]:
                found = np.concatenate([found, np.empty((3, found.shape[1] + n_more), np.uint32)], axis=1)
            _take_members(columns, edge, first, lengths, queries, bands, found, n_found)
            n_found += n_more
        return Hits(found[0, :n_found], found[1, :n_found], found[2, :n_found], n_capped)

    def read_all(self) -> Iterator[tuple[int, UInt64Array, UInt32Array]]:
        """Yield (band, buckets, shapes) of each row group in order."""
        lookup = self.lookup
        for first, read in self._groups(lookup, np.arange(len(lookup.band))):
            for i, group in enumerate(read, first):
                yield int(lookup.band[i]), group.buckets, group.shapes

    def _groups(self, lookup: Lookup, positions: Int64Array) -> Iterator[tuple[int, list[Group]]]:
        """Yield the buckets and shapes of some row groups, many at once, with how many there were before."""
        blocks = np.cumsum(lookup.n_rows[positions]) // _ROWS_AT_ONCE
        cuts = [*np.flatnonzero(np.diff(blocks, prepend=-1)).tolist(), len(positions)]
        for first, last in pairwise(cuts):
            block = positions[first:last].tolist()
            kept: dict[int, Any] = {i: self._cache.find(self._group_key(i)) for i in block}
            missing = [i for i, group in kept.items() if group is None]
            if missing:
                kept.update(self._read_groups(lookup, missing))
            yield first, list(kept.values())

    def _load_whole(self) -> Lookup:
        """Read the only file of a small table with one request, and keep its row groups."""
        (name,) = self._names
        with damage_errors(self._store, name):
            data = self._store.read_bytes(name)
            lookup = lookup_of([pq.ParquetFile(pa.BufferReader(data))])
        positions = range(len(lookup.offset))
        pieces = [data[start:end] for _, start, end in self._ranges(lookup, positions)]
        for _ in self._decode_groups(lookup, positions, pieces):
            pass
        return lookup

    def _read_groups(self, lookup: Lookup, positions: Sequence[int]) -> Iterator[tuple[int, Group]]:
        with damage_errors(self._store, self._names[0]):
            read = self._store.read_ranges(self._ranges(lookup, positions))
        return self._decode_groups(lookup, positions, read)

    def _ranges(self, lookup: Lookup, positions: Sequence[int]) -> list[tuple[str, int, int]]:
        """Return the file of each row group and the bytes in it, from the first of the buckets to the last shape."""
        some = np.array(positions, np.int64)
        ends = lookup.offset[some] + lookup.n_bucket_bytes[some] + lookup.n_shape_bytes[some]
        columns = (lookup.file[some].tolist(), lookup.offset[some].tolist(), ends.tolist())
        return [(self._names[file], start, end) for file, start, end in zip(*columns, strict=True)]

    def _decode_groups(
        self, lookup: Lookup, positions: Sequence[int], read: Sequence[bytes]
    ) -> Iterator[tuple[int, Group]]:
        for i, data in zip(positions, read, strict=True):
            n_bytes, n_rows = int(lookup.n_bucket_bytes[i]), int(lookup.n_rows[i])
            with damage_errors(self._store, self._names[lookup.file[i]]):
                buckets = decode_integers(data[:n_bytes], n_rows, np.uint64)
                shapes = decode_integers(data[n_bytes:], n_rows, np.uint32)
            group = Group(buckets, shapes, (address_of(buckets), address_of(shapes), n_rows))
            self._cache.keep(self._group_key(i), group, buckets.nbytes + shapes.nbytes)
            yield i, group

    def _group_key(self, position: int) -> tuple[str, str, str, int]:
        return self._store.url, self._names[0], "group", position


@kernel
def _find_buckets(columns: UInt64Array, edges: Int64Array, wanted: UInt64Array) -> tuple[Int64Array, Int64Array, int]:
    """Return where each of the buckets ``wanted[edges[0]:edges[-1]]`` begins, how long it is, and how long all are.

    Parameters
    ----------
    columns
        Shape (n_groups, 3), dtype uint64: of some row groups the addresses of the buckets and of the shapes, and how
        many there are.
    edges
        Shape (n_groups + 1,), dtype int64: group i is to hold the buckets ``wanted[edges[i]:edges[i + 1]]``.
    """
    start, n_wanted = edges[0], edges[-1] - edges[0]
    first, lengths, n_all = np.empty(n_wanted, np.int64), np.empty(n_wanted, np.int64), 0
    for group in range(len(columns)):
        buckets, end = columns[group, 0], int(np.int64(columns[group, 2]))
        for i in range(edges[group], edges[group + 1]):
            low, high = 0, end
            while low < high:
                middle = (low + high) // 2
                if load_word(buckets + np.uint64(8 * middle)) < wanted[i]:
                    low = middle + 1
                else:
                    high = middle
            while high < end and load_word(buckets + np.uint64(8 * high)) == wanted[i]:
                high += 1
            first[i - start], lengths[i - start] = low, high - low
            n_all += high - low
    return first, lengths, n_all


@kernel
def _cap_buckets(
    lengths: Int64Array, queries: Int64Array, bands: Int64Array, start: int, room: Int64Array, n_capped: Int64Array
) -> int:
    """Shorten buckets to what there is room for in their query and band; return how long all are together then.

    The shapes of a bucket are in ascending order, also over several row groups: the first ones stay.
    """
    n_all = 0
    for i in range(len(lengths)):
        query, band = queries[start + i], bands[start + i]
        n_kept = min(lengths[i], room[query, band])
        room[query, band] -= n_kept
        n_capped[query] += lengths[i] - n_kept
        lengths[i] = n_kept
        n_all += n_kept
    return n_all


@kernel
def _take_members(
    columns: UInt64Array,
    edges: Int64Array,
    first: Int64Array,
    lengths: Int64Array,
    queries: Int64Array,
    bands: Int64Array,
    found: UInt32Array,
    n_found: int,
) -> None:
    """Write query, band and shape of each entry of the buckets that `_find_buckets` found behind others."""
    for group in range(len(columns)):
        shapes = columns[group, 1]
        for i in range(edges[group], edges[group + 1]):
            place = i - edges[0]
            for entry in range(first[place], first[place] + lengths[place]):
                found[0, n_found] = queries[i]
                found[1, n_found] = bands[i]
                found[2, n_found] = load_half_word(shapes + np.uint64(4 * entry))
                n_found += 1


def lookup_of(tables: Sequence[pq.ParquetFile], first_file: int = 0) -> Lookup:
    """Make the lookup of a band table from the footers of its files, numbered from `first_file` on."""
    rows = []
    for file, table in enumerate(tables, first_file):
        for group in range(table.metadata.num_row_groups):
            metadata = table.metadata.row_group(group)
            if not metadata.num_rows:
                continue
            band, bucket, shape = (metadata.column(i) for i in range(3))
            if not (band.is_stats_set and bucket.is_stats_set and band.statistics.has_min_max):
                raise OSError("it does not say what is in its row groups")
            place = (bucket.data_page_offset, bucket.total_compressed_size, shape.total_compressed_size)
            edges = (band.statistics.min, bucket.statistics.min, bucket.statistics.max)
            rows.append((*edges, file, *place, metadata.num_rows))
    columns: list[tuple[int, ...]] = list(zip(*rows, strict=True)) or [()] * len(_LOOKUP_KINDS)
    arrays: list[Any] = [np.array(c, kind) for c, kind in zip(columns, _LOOKUP_KINDS.values(), strict=True)]
    return Lookup(*arrays)


@kernel
def _wanted_groups(
    keys: UInt64Array, band: Int64Array, first: UInt64Array, last: UInt64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return (query, band, row group) wherever a row group may hold the bucket of a query, ordered by band."""
    n_queries, n_bands = keys.shape
    edges = np.searchsorted(band, np.arange(n_bands + 1))
    low, high = np.empty((n_bands, n_queries), np.int64), np.empty((n_bands, n_queries), np.int64)
    n = 0
    for i in range(n_bands):
        groups = slice(edges[i], edges[i + 1])
        for query in range(n_queries):
            low[i, query] = edges[i] + np.searchsorted(last[groups], keys[query, i])
            high[i, query] = edges[i] + np.searchsorted(first[groups], keys[query, i], "right")
            n += max(high[i, query] - low[i, query], 0)
    queries, bands, wanted = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n = 0
    for i in range(n_bands):
        for query in range(n_queries):
            for group in range(low[i, query], high[i, query]):
                queries[n], bands[n], wanted[n] = query, i, group
                n += 1
    return queries, bands, wanted

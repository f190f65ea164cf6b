"""Zarr arrays read by chunk: shard files are addressed directly, and decoded chunks are kept.

A query needs a few rows here and there. Through the Zarr library each such read costs about a millisecond of
scheduling, and the library itself half a second of import; the format of a shard is simple enough to read it as it is
(Zarr specification version 3, codec ``sharding_indexed``): encoded chunks, then an index of (offset, length) pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.cache import Cache
from treesim_dask.index.compression import decompress
from treesim_dask.index.manifest import parse_json
from treesim_dask.index.store import Store
from treesim_dask.index.tables import damage_errors
from treesim_dask.kernels import address_of, copy_bytes, kernel
from treesim_dask.types import Int64Array, UInt64Array, offsets_of

_ABSENT = np.uint64(2**64 - 1)
_CHECKSUM_BYTES = 4  # a CRC-32C follows the index of a shard
_BYTES_AT_ONCE = 2**23  # of decoded chunks
_MOST_BYTES = 2**40  # of a shard
_MOST_CHUNK_BYTES = 2**28  # a thousand times what is written: no memory is taken for a number that somebody made up


class ChunkedArray:
    """An array of a published segment, chunked and sharded along its first axis.

    Parameters
    ----------
    store
        Where the index lies.
    name
        The folder of the array, relative to the index.
    cache
        Keeps decoded chunks and shard indexes.
    """

    def __init__(self, store: Store, name: str, cache: Cache) -> None:
        self._store, self._name, self._cache = store, name, cache

    @cached_property
    def _layout(self) -> _Layout:
        name = f"{self._name}/zarr.json"
        with damage_errors(self._store, name):
            content = parse_json(self._store.read_bytes(name), f"{self._store.url}/{name}")
        try:
            return _Layout(content)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise IndexFormatError(f"{self._store.url}/{name} is damaged: {error!r}; run check") from None

    def __len__(self) -> int:
        return self._layout.n_rows

    def read(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return the rows from `start` up to `stop`, to the end without it."""
        return self.read_ranges(np.array([start]), np.array([len(self) if stop is None else stop]))

    def take(self, rows: Int64Array) -> NDArray[Any]:
        """Return some rows, in the given order."""
        return self.read_ranges(rows, rows + 1)

    def read_ranges(self, starts: Int64Array, stops: Int64Array) -> NDArray[Any]:
        """Return the rows of several ranges, one range after the other.

        Parameters
        ----------
        starts, stops
            Shape (n_ranges,), dtype int64.
        """
        layout = self._layout
        self.check_ranges(starts, stops)
        numbers, firsts, lengths = _cut_ranges(starts, stops, layout.n_rows_chunk)
        ends = offsets_of(lengths)
        rows = np.empty((int(ends[-1]), *layout.row_shape), layout.dtype)
        if not _is_ascending(numbers):
            order = np.argsort(numbers, kind="stable")
            numbers, firsts, lengths, ends = numbers[order], firsts[order], lengths[order], ends[order]
        edges = _starts_of_runs(numbers)
        distinct, n_at_once = numbers[edges[:-1]].tolist(), max(1, _BYTES_AT_ONCE // layout.n_bytes_chunk)
        for first in range(0, len(distinct), n_at_once):
            chunks = self._chunks(distinct[first : first + n_at_once])
            addresses = np.array([address_of(chunk) for chunk in chunks], np.uint64)
            _copy_rows(addresses, edges[first:], layout.n_bytes_row, firsts, lengths, ends, np.uint64(address_of(rows)))
        return rows

    def check_ranges(self, starts: Int64Array, stops: Int64Array) -> None:
        """Refuse ranges of rows that are none, or that are not there."""
        if _lead_out(starts, stops, len(self)):
            where = f"{self._store.url}/{self._name}"
            raise IndexFormatError(f"{where} has {len(self)} rows, others are asked for: run check to see why")

    def _chunks(self, numbers: Sequence[int]) -> list[NDArray[Any]]:
        found: dict[int, Any] = {number: self._cache.find((self._store.url, self._name, number)) for number in numbers}
        missing = [number for number, chunk in found.items() if chunk is None]
        if missing:
            for number, chunk in zip(missing, self._read_chunks(missing), strict=True):
                found[number] = chunk
                self._cache.keep((self._store.url, self._name, number), chunk, chunk.nbytes)
        return list(found.values())

    def _read_chunks(self, numbers: Sequence[int]) -> list[NDArray[Any]]:
        layout = self._layout
        places = [self._shard_index(n // layout.n_chunks_shard)[n % layout.n_chunks_shard] for n in numbers]
        names = [self._shard_name(n // layout.n_chunks_shard) for n in numbers]
        for (offset, n_bytes), name in zip(places, names, strict=True):
            if offset == _ABSENT:  # all chunks are written, also those of nothing but zeros
                raise IndexFormatError(f"{self._store.url}/{name} is damaged: a chunk is missing; run check")
            if offset > _MOST_BYTES or n_bytes > _MOST_BYTES:
                raise IndexFormatError(f"{self._store.url}/{name} is damaged: it says where no chunk can be; run check")
        ranges = [(name, int(o), int(o + n)) for name, (o, n) in zip(names, places, strict=True)]
        with damage_errors(self._store, self._name):
            read = self._store.read_ranges(ranges)
        return [layout.decode(data, f"{self._store.url}/{name}") for data, name in zip(read, names, strict=True)]

    def _shard_name(self, shard: int) -> str:
        return f"{self._name}/c/" + "/".join([str(shard)] + ["0"] * len(self._layout.row_shape))

    def _shard_index(self, shard: int) -> UInt64Array:
        """Return (offset, length) of each chunk of a shard. Shape (n_chunks_shard, 2), dtype uint64."""
        key = (self._store.url, self._name, "shard", shard)
        return self._cache.get(key, lambda: self._read_shard_index(shard), lambda index: index.nbytes)

    def _read_shard_index(self, shard: int) -> UInt64Array:
        n_bytes = 16 * self._layout.n_chunks_shard
        name = self._shard_name(shard)
        with damage_errors(self._store, name):
            tail = self._store.read_tail(name, n_bytes + _CHECKSUM_BYTES)
        if len(tail) != n_bytes + _CHECKSUM_BYTES:
            raise IndexFormatError(f"{self._store.url}/{name} is damaged: its end is missing; run check")
        return np.frombuffer(tail[:n_bytes], "<u8").reshape(-1, 2).astype(np.uint64)


class _Layout:
    """How an array is cut into shards and chunks, from its ``zarr.json``."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        (sharding,) = metadata["codecs"]
        configuration = sharding["configuration"]
        codecs = [codec["name"] for codec in configuration["codecs"]]
        order = configuration["codecs"][0].get("configuration", {}).get("endian")
        if sharding["name"] != "sharding_indexed" or codecs != ["bytes", "zstd"] or order != "little":
            raise ValueError(f"expected zstd chunks in shards, found {codecs}")
        self.dtype: np.dtype[Any] = np.dtype(metadata["data_type"]).newbyteorder("<")
        self.n_rows = int(metadata["shape"][0])
        self.row_shape = tuple(metadata["shape"][1:])
        self.n_rows_chunk = int(configuration["chunk_shape"][0])
        n_rows_shard = int(metadata["chunk_grid"]["configuration"]["chunk_shape"][0])
        self.n_chunks_shard = n_rows_shard // self.n_rows_chunk
        self.n_bytes_row = math.prod(self.row_shape) * self.dtype.itemsize
        self.n_bytes_chunk = self.n_rows_chunk * self.n_bytes_row
        # rows are copied by their address: what these say is relied on
        is_sound = (
            self.dtype.kind in "iu" and self.n_rows >= 0 and all(type(n) is int and n > 0 for n in self.row_shape)
        )
        if not is_sound or self.n_rows_chunk < 1 or self.n_chunks_shard < 1 or self.n_bytes_chunk > _MOST_CHUNK_BYTES:
            raise ValueError("expected rows of integers in chunks")

    def decode(self, data: bytes, where: str) -> NDArray[Any]:
        """Return the values of an encoded chunk, row after row."""
        try:
            raw = decompress(data, self.n_bytes_chunk)
        except OSError as error:
            raise IndexFormatError(f"{where} is damaged: {error}; `check` says which files are") from None
        return np.frombuffer(raw, self.dtype)


@kernel
def _lead_out(starts: Int64Array, stops: Int64Array, n_rows: int) -> bool:
    """Tell whether a range of rows is none, or lies outside an array."""
    n_wrong = 0
    for i in range(len(starts)):
        n_wrong += (starts[i] < 0) | (stops[i] < starts[i]) | (stops[i] > n_rows)
    return n_wrong > 0


@kernel
def _cut_ranges(starts: Int64Array, stops: Int64Array, size: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Cut ranges of rows at the borders of chunks; return number of the chunk, first row in it and length of each."""
    n = 0
    for i in range(len(starts)):
        if stops[i] > starts[i]:
            n += (stops[i] - 1) // size - starts[i] // size + 1
    numbers, firsts, lengths = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n = 0
    for i in range(len(starts)):
        row = starts[i]
        while row < stops[i]:
            numbers[n] = row // size
            firsts[n] = row % size
            lengths[n] = min(stops[i] - row, size - firsts[n])
            row += lengths[n]
            n += 1
    return numbers, firsts, lengths


@kernel
def _is_ascending(values: Int64Array) -> bool:
    n_descents = 0
    for i in range(1, len(values)):
        n_descents += values[i] < values[i - 1]
    return n_descents == 0


@kernel
def _starts_of_runs(values: Int64Array) -> Int64Array:
    """Return where each run of equal values starts, and where the last one ends."""
    edges = np.empty(len(values) + 1, np.int64)
    n = 0
    for i in range(len(values)):
        if i == 0 or values[i] != values[i - 1]:
            edges[n] = i
            n += 1
    edges[n] = len(values)
    return edges[: n + 1]


@kernel
def _copy_rows(
    addresses: UInt64Array,
    edges: Int64Array,
    width: int,
    firsts: Int64Array,
    lengths: Int64Array,
    places: Int64Array,
    target: np.uint64,
) -> None:
    """Copy the pieces ``edges[i]:edges[i + 1]`` of each chunk i, given by its address, rows of `width` bytes each."""
    for chunk in range(len(addresses)):
        for piece in range(edges[chunk], edges[chunk + 1]):
            place, source = np.uint64(places[piece] * width), np.uint64(firsts[piece] * width)
            copy_bytes(target + place, addresses[chunk] + source, lengths[piece] * width)

"""Zarr arrays as segments use them: appended by one writer, in whole shards, so that a segment is few files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import DTypeLike, NDArray
from zarr.codecs import ZstdCodec
from zarr.storage import FsspecStore, LocalStore

from treesim_dask.index.store import Store

# Signatures and vectors of one template repeat almost to the byte: zstd without a shuffle filter finds that, and
# took a third of the space of byte-shuffled data on 2,000 real pages.
_COMPRESSOR = ZstdCodec(level=3, checksum=True)  # a byte that changed on its way is an error, not an answer
DEFAULT_CHUNK_BYTES = 2**18
_SHARD_BYTES = 2**23


class ArrayWriter:
    """Appends rows to a new Zarr array, holding at most one shard in memory.

    Parameters
    ----------
    path
        A local folder that does not exist yet.
    row_shape
        Shape of one row: ``()`` for a plain sequence, ``(n_hashes,)`` for signatures.
    dtype
        An integer type.
    chunk_bytes
        Decoded size of a chunk, the least that is read at once.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> writer = ArrayWriter(folder / "a", (), np.uint32)
    >>> writer.append(np.array([1, 2], np.uint32))
    >>> writer.append(np.array([3], np.uint32))
    >>> writer.close()
    >>> zarr.open_array(folder / "a")[:].tolist()
    [1, 2, 3]
    """

    def __init__(
        self, path: Path, row_shape: tuple[int, ...], dtype: DTypeLike, chunk_bytes: int = DEFAULT_CHUNK_BYTES
    ) -> None:
        row_bytes = int(np.prod(row_shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        self._path = path
        self._n_rows_chunk = max(1, chunk_bytes // row_bytes)
        self._n_rows_shard = self._n_rows_chunk * max(1, _SHARD_BYTES // chunk_bytes)
        self._array: Any = None  # made with its first shard: most arrays then never change their size
        self._pending: list[NDArray[Any]] = [np.empty((0, *row_shape), dtype)]
        self._n_pending = 0
        self._n_written = 0

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        self._pending.append(rows)
        self._n_pending += len(rows)
        while self._n_pending >= self._n_rows_shard:
            self._write(self._n_rows_shard)

    def close(self) -> None:
        """Write what is still held."""
        if self._n_pending or self._array is None:
            self._write(self._n_pending)

    def _write(self, n_rows: int) -> None:
        rows = np.concatenate(self._pending, dtype=self._pending[0].dtype)  # int64 and uint64 would be float64
        end = self._n_written + n_rows
        if self._array is None:
            self._array = self._create(rows[:n_rows])
        else:
            self._array.resize((end, *rows.shape[1:]))
        if n_rows:
            self._array[self._n_written : end] = rows[:n_rows]
        self._n_written = end
        self._pending = [rows[n_rows:]]
        self._n_pending -= n_rows

    def _create(self, rows: NDArray[Any]) -> Any:
        """Make the array with the size of its first rows."""
        return zarr.create_array(
            LocalStore(self._path),
            shape=rows.shape,
            dtype=rows.dtype,
            chunks=(self._n_rows_chunk, *rows.shape[1:]),
            shards=(self._n_rows_shard, *rows.shape[1:]),
            compressors=[_COMPRESSOR],
            config={"write_empty_chunks": True},  # a shard that is missing is then lost, never just empty
        )


def open_array(store: Store, name: str) -> Any:
    """Open an array of a published segment for reading."""
    if store.is_local:
        return zarr.open_array(LocalStore(store.path(name), read_only=True), mode="r", zarr_format=3)
    remote = FsspecStore.from_url(f"{store.url}/{name}", storage_options=store.filesystem_options, read_only=True)
    return zarr.open_array(remote, mode="r", zarr_format=3)  # not named, it would be guessed: four requests more

"""A little of an archive, from all over it: crawls are often written site by site, so that a beginning is no sample."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from treesim_dask.crawl.sniffing import GZIP_MAGIC, MAX_START_LINE, begins_record
from treesim_dask.crawl.streams import read_range
from treesim_dask.errors import SourceError

_MOST_PIECES = 8
_LEAST_PIECE_BYTES = 2**18  # some pages, whatever they are
_USED_SHARE = 0.75  # of a piece: WARC records that begin in it; the rest is there to hold the end of the last


def read_excerpt(
    url: str, n_bytes: int, size: int | None = None, storage_options: Mapping[str, Any] | None = None
) -> tuple[list[bytes], int]:
    """Return pieces of an archive, `n_bytes` together, and the size of the archive.

    Archives that are compressed by WARC record give pieces of whole WARC records, evenly spread; of others, and where
    `n_bytes` is little, there is one piece from the beginning. An archive that is not longer is returned whole.

    Parameters
    ----------
    url
        The archive.
    n_bytes
        How much of it to read.
    size
        Of the archive, where it is known.
    storage_options
        For fsspec.
    """
    n_pieces = min(_MOST_PIECES, max(1, n_bytes // _LEAST_PIECE_BYTES))
    if size is not None and size <= n_bytes:
        n_pieces = 1
    n_piece = n_bytes // n_pieces
    first, told = read_range(url, 0, n_piece, storage_options)
    size = told if size is None else size
    if size is None:
        raise SourceError(f"the server does not tell the size of {url}: plan with a copy of the file")

    def read(start: int, n_wanted: int) -> bytes:
        return read_range(url, start, n_wanted, storage_options)[0]

    if n_pieces > 1 and n_bytes < size and (begun := _whole_records(first)):
        starts = [number * (size - n_piece) // (n_pieces - 1) for number in range(1, n_pieces)]
        pieces = [begun, *(_whole_records(read(start, n_piece)) for start in starts)]
        if all(pieces):
            return pieces, size
    return [first + (read(len(first), n_bytes - len(first)) if len(first) < min(n_bytes, size) else b"")], size


def _whole_records(data: bytes) -> bytes:
    """Return the WARC records that begin in the first part of a piece, up to where the next one begins.

    To end at the last one that is whole would favour short ones.
    """
    starts = list(_record_starts(data))
    if not starts:
        return b""
    behind = [start for start in starts if start >= len(data) * _USED_SHARE]
    return data[starts[0] : behind[0] if behind else starts[-1]]


def _record_starts(data: bytes) -> Iterator[int]:
    """Yield where WARC records that are compressed each by itself begin."""
    position = data.find(GZIP_MAGIC)
    while position >= 0:
        if begins_record(_unpack_head(data[position : position + MAX_START_LINE])):
            yield position
        position = data.find(GZIP_MAGIC, position + 1)


def _unpack_head(data: bytes) -> bytes:
    try:
        return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(data, MAX_START_LINE)
    except zlib.error:
        return b""

"""Lists of files or pages as text: read whole, perhaps gzipped, and never silently shortened."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from treesim_dask.crawl.sniffing import GZIP_MAGIC
from treesim_dask.crawl.streams import read_range
from treesim_dask.errors import SourceError

_PIECE_BYTES = 2**14  # zlib copies what lies behind a member's end: little with little input


def read_list(url: str, max_bytes: int, storage_options: Mapping[str, Any] | None = None) -> str:
    """Return the text of a list.

    Parameters
    ----------
    url
        The file, as it is or gzipped.
    max_bytes
        A longer list, as stored or unpacked, is refused.
    storage_options
        For fsspec.

    Raises
    ------
    SourceError
        The list cannot be read, is too long, damaged, or breaks off.
    """
    data, _ = read_range(url, 0, max_bytes + 1, storage_options)
    if data.startswith(GZIP_MAGIC) and len(data) <= max_bytes:
        data = gunzip(data, max_bytes, url)
    if len(data) > max_bytes:
        raise _too_long(url, max_bytes)
    return data.decode("utf-8", "replace")


def gunzip(data: bytes, max_bytes: int, url: str) -> bytes:
    """Unpack all gzip members of a file; zero bytes may follow them.

    Examples
    --------
    >>> import gzip
    >>> gunzip(gzip.compress(b"a") + gzip.compress(b"b"), 10, "a.gz")
    b'ab'
    """
    unpacked, cursor = bytearray(), 0
    while cursor < len(data) and (data[cursor] or data[cursor:].strip(b"\0")):
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not member.eof:
            piece = data[cursor : cursor + _PIECE_BYTES]
            if not piece:
                raise SourceError(f"{url} breaks off inside a gzip member; fetch it again")
            try:
                unpacked += member.decompress(piece, max_bytes + 1 - len(unpacked))
            except zlib.error as error:
                raise SourceError(f"{url} is damaged: {error}; fetch it again") from None
            if len(unpacked) > max_bytes:
                raise _too_long(url, max_bytes)
            cursor += len(piece) - len(member.unused_data if member.eof else member.unconsumed_tail)
    return bytes(unpacked)


def _too_long(url: str, max_bytes: int) -> SourceError:
    return SourceError(f"{url} holds more than {max_bytes} bytes of text: split it")

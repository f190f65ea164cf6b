"""Decompression of small pieces: what a query reads most of."""

from __future__ import annotations

from threading import local

import zstandard

_OF_THREAD = local()


def decompress(data: bytes | memoryview, n_bytes: int) -> bytes:
    """Return what was compressed with zstd; OSError if that is damaged or not as long as said.

    A thread keeps its decompressor: to make one takes longer than a small piece.

    Examples
    --------
    >>> decompress(zstandard.compress(b"shape"), 5)
    b'shape'
    """
    if not hasattr(_OF_THREAD, "zstd"):
        _OF_THREAD.zstd = zstandard.ZstdDecompressor()
    try:
        n_found = zstandard.frame_content_size(data)
        if n_found not in (n_bytes, -1):  # a damaged size may be anything: no memory is taken for it
            raise OSError(f"expected {n_bytes} bytes, found {n_found}")
        found: bytes = _OF_THREAD.zstd.decompress(data, max_output_size=n_bytes)
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from None
    if len(found) != n_bytes:
        raise OSError(f"expected {n_bytes} bytes, found {len(found)}")
    return found

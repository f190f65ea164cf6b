"""Transfer and content encodings undone, within a size limit.

Archived headers are not to be trusted: crawlers store decoded bodies under the header of the encoded ones, servers
claim encodings they do not use. A body that does not decode at all is taken as it is.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

import brotli
import zstandard

_CHUNK_LINE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")


class BodyTooLong(Exception):
    """A body that decodes to more bytes than allowed."""


def decode_body(body: bytes, transfer_encoding: str, content_encoding: str, max_bytes: int) -> bytes:
    """Undo what HTTP did to a body.

    Parameters
    ----------
    body
        As archived.
    transfer_encoding, content_encoding
        The header fields, as written; several encodings are undone last first.
    max_bytes
        A longer result raises `BodyTooLong`, before it takes much memory.

    Returns
    -------
    bytes
        The body; of a body that breaks off, what could be decoded.

    Examples
    --------
    >>> decode_body(b"4\\r\\nWiki\\r\\n0\\r\\n\\r\\n", "chunked", "", 100)
    b'Wiki'
    >>> decode_body(b"<p>not gzip</p>", "", "gzip", 100)
    b'<p>not gzip</p>'
    """
    if not transfer_encoding and not content_encoding and len(body) <= max_bytes:
        return body
    for name in reversed(_names(transfer_encoding)):
        body = join_chunks(body) if name == "chunked" else _undo(name, body, max_bytes)
    for name in reversed(_names(content_encoding)):
        body = _undo(name, body, max_bytes)
    if len(body) > max_bytes:
        raise BodyTooLong
    return body


def join_chunks(body: bytes) -> bytes:
    """Join the chunks of a chunked body; a body without a chunk header is returned as it is.

    Examples
    --------
    >>> join_chunks(b"3\\r\\nabc\\r\\n2;x=y\\r\\nde\\r\\n0\\r\\n\\r\\n"), join_chunks(b"<html>")
    (b'abcde', b'<html>')
    """
    pieces: list[bytes] = []
    cursor = 0
    while match := _CHUNK_LINE.match(body, cursor):
        start, n_bytes = match.end(), int(match[1], 16)
        if n_bytes == 0:
            return b"".join(pieces)
        pieces.append(body[start : start + n_bytes])
        cursor = start + n_bytes
        cursor += 2 if body.startswith(b"\r\n", cursor) else body.startswith(b"\n", cursor)
    # no chunk header where one belongs: the rest is kept, since the page most likely goes on there
    return b"".join([*pieces, body[cursor:]])


def _names(field: str) -> list[str]:
    return [name for part in field.lower().split(",") if (name := part.strip())]


def _undo(name: str, body: bytes, max_bytes: int) -> bytes:
    undo = _DECODERS.get(name)
    if undo is None or not body:
        return body
    decoded = undo(body, max_bytes + 1)
    if len(decoded) > max_bytes:
        raise BodyTooLong
    return decoded or body


def _undo_gzip(body: bytes, limit: int) -> bytes:
    return _feed(_zlib_step(16 + zlib.MAX_WBITS, limit), body, limit)


def _undo_deflate(body: bytes, limit: int) -> bytes:
    """Deflate should have a zlib header and often has none."""
    return _feed(_zlib_step(zlib.MAX_WBITS, limit), body, limit) or _feed(
        _zlib_step(-zlib.MAX_WBITS, limit), body, limit
    )


def _undo_brotli(body: bytes, limit: int) -> bytes:
    decoder = brotli.Decompressor()
    return _feed(lambda data: decoder.process(data, output_buffer_limit=limit), body, limit)


def _undo_zstd(body: bytes, limit: int) -> bytes:
    # zstd has no output limit: little input at a time bounds what one step can give
    return _feed(zstandard.ZstdDecompressor().decompressobj().decompress, body, limit, n_step=2**11)


def _zlib_step(wbits: int, limit: int) -> Callable[[bytes], bytes]:
    decoder = zlib.decompressobj(wbits)
    return lambda data: decoder.decompress(data, limit)


def _feed(step: Callable[[bytes], bytes], body: bytes, limit: int, n_step: int = 2**14) -> bytes:
    """Decode piece by piece, so that a body that breaks off or is damaged gives what precedes the damage."""
    pieces: list[bytes] = []
    n_decoded = 0
    try:
        for start in range(0, len(body), n_step):
            pieces.append(step(body[start : start + n_step]))
            n_decoded += len(pieces[-1])
            if n_decoded >= limit:
                break
    except (zlib.error, brotli.error, zstandard.ZstdError):
        return b"".join(pieces)
    return b"".join(pieces)


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _undo_gzip,
    "x-gzip": _undo_gzip,
    "deflate": _undo_deflate,
    "br": _undo_brotli,
    "zstd": _undo_zstd,
}

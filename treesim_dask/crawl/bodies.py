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

from treesim_dask.crawl.sniffing import GZIP_MAGIC

_CHUNK_LINE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")

_PIECE_BYTES = 2**14
_MAX_ENCODINGS = 8  # of one body: each takes as long as the body is


class BodyTooLong(Exception):
    """A body that decodes to more bytes than allowed."""


def undo_transfer_encoding(body: bytes, field: str, max_bytes: int) -> bytes:
    """Undo what the transport did to a body: chunks, rarely compression.

    Parameters
    ----------
    body
        As archived.
    field
        The header field, as written; several encodings are undone last first, of very many the last ones.
    max_bytes
        A longer result of a decompression raises `BodyTooLong`, before it takes much memory.

    Examples
    --------
    >>> undo_transfer_encoding(b"4\\r\\nWiki\\r\\n0\\r\\n\\r\\n", "chunked", 100)
    b'Wiki'
    """
    for name in reversed(_names(field)):
        body = join_chunks(body, max_bytes) if name == "chunked" else _undo(name, body, max_bytes)
    return body


def undo_content_encoding(body: bytes, field: str, max_bytes: int) -> bytes:
    """Undo the compression of a body.

    Returns
    -------
    bytes
        The decoded body; of a body that breaks off, what could be decoded; `body` itself, if nothing could.

    Examples
    --------
    >>> undo_content_encoding(zlib.compress(b"<p>"), "deflate", 100)
    b'<p>'
    >>> undo_content_encoding(b"<p>not gzip</p>", "gzip", 100)
    b'<p>not gzip</p>'
    """
    for name in reversed(_names(field)):
        body = _undo(name, body, max_bytes)
    if len(body) > max_bytes:
        raise BodyTooLong
    return body


def join_chunks(body: bytes, max_bytes: int) -> bytes:
    """Join the chunks of a chunked body; a body without a chunk header is returned as it is.

    More than `max_bytes` bytes in chunks raise `BodyTooLong`.

    Examples
    --------
    >>> join_chunks(b"3\\r\\nabc\\r\\n2;x=y\\r\\nde\\r\\n0\\r\\n\\r\\n", 9), join_chunks(b"<html>", 9)
    (b'abcde', b'<html>')
    """
    joined, cursor = bytearray(), 0
    while match := _CHUNK_LINE.match(body, cursor):
        start, n_bytes = match.end(), int(match[1], 16)
        if n_bytes == 0:
            return bytes(joined)
        joined += body[start : start + n_bytes]
        if len(joined) > max_bytes:
            raise BodyTooLong
        cursor = start + n_bytes
        cursor += 2 if body.startswith(b"\r\n", cursor) else body.startswith(b"\n", cursor)
    # no chunk header where one belongs: the rest is kept, since the page most likely goes on there
    return bytes(joined + body[cursor:])


def _names(field: str) -> list[str]:
    names = (name for part in field.lower().split(",") if (name := part.strip()) in _UNDONE) if field else ()
    return list(names)[-_MAX_ENCODINGS:]


def _undo(name: str, body: bytes, max_bytes: int) -> bytes:
    if not body or name not in _DECODERS:  # the chunks of a content encoding are none
        return body
    decoded = _DECODERS[name](body, max_bytes + 1)
    if len(decoded) > max_bytes:
        raise BodyTooLong
    return decoded or body


def _undo_gzip(body: bytes, limit: int) -> bytes:
    """Decode all members of a gzip body; whatever else follows one does not count."""
    decoded, cursor = bytearray(), 0
    while body.startswith(GZIP_MAGIC, cursor) and len(decoded) < limit:
        decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not decoder.eof and cursor < len(body) and len(decoded) < limit:
            piece = body[cursor : cursor + _PIECE_BYTES]
            try:
                decoded += decoder.decompress(piece, limit - len(decoded))
            except zlib.error:
                return bytes(decoded)
            cursor += len(piece) - len(decoder.unused_data if decoder.eof else decoder.unconsumed_tail)
    return bytes(decoded)


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
    # behind the end zlib would copy all it was given so far for each further piece
    return lambda data: b"" if decoder.eof else decoder.decompress(data, limit)


def _feed(step: Callable[[bytes], bytes], body: bytes, limit: int, n_step: int = _PIECE_BYTES) -> bytes:
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
_UNDONE = {"chunked", *_DECODERS}

"""Small archives written byte by byte, so that tests know where everything lies."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field

import brotli
import zstandard

PAGE = b"<!DOCTYPE html><html><head><title>t</title></head><body><div><p>one<p>two</div></body></html>"


@dataclass(frozen=True)
class StoredRecord:
    """A WARC record as it goes into a file, and what a reader has to say about it."""

    data: bytes
    url: str = ""
    html: bytes | None = None  # None: not a page


def http_response(
    body: bytes = PAGE, status: str = "200 OK", content_type: str | None = "text/html", **headers: str
) -> bytes:
    """Write an HTTP response; keyword arguments become header fields."""
    fields = {**({"Content-Type": content_type} if content_type is not None else {})}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def warc_record(
    content: bytes,
    url: str = "http://example.org/",
    *,
    kind: str = "response",
    version: str = "WARC/1.0",
    newline: str = "\r\n",
    length: int | None = None,
    **headers: str,
) -> bytes:
    """Write a WARC record with its two closing line ends."""
    fields = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": "2024-05-06T07:08:09Z",
        "WARC-Record-ID": "<urn:uuid:00000000-0000-4000-8000-000000000000>",
        "Content-Type": "application/http; msgtype=response",
        "Content-Length": str(len(content) if length is None else length),
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [version, *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return newline.join(lines).encode() + content + 2 * newline.encode()


def arc_record(content: bytes, url: str = "http://example.org/", date: str = "20240506070809") -> bytes:
    """Write an ARC record with its closing line end."""
    return f"{url} 127.0.0.1 {date} text/html {len(content)}\n".encode() + content + b"\n"


def arc_filedesc() -> bytes:
    """Write the record that opens an ARC file."""
    rest = b"1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n"
    return b"filedesc://test.arc 0.0.0.0 20240506070809 text/plain %d\n" % len(rest) + rest + b"\n"


def chunked(body: bytes, n_bytes: int = 7) -> bytes:
    """Write a body in chunks."""
    pieces = [body[start : start + n_bytes] for start in range(0, len(body), n_bytes)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


CONTENT_ENCODINGS = {
    "": lambda body: body,
    "gzip": lambda body: gzip.compress(body, mtime=0),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}

FORMATS = ("plain", "gzip", "zstd", "single-gzip")


@dataclass
class Archive:
    """A file made of records, and where each of them lies in it."""

    data: bytes = b""
    extents: list[tuple[int, int]] = field(default_factory=list)  # start and end in the file, padding included
    reported: list[tuple[int, int]] = field(default_factory=list)  # offset and length a reader should report


def build_archive(records: list[bytes], file_format: str) -> Archive:
    """Put records into one file."""
    archive = Archive()
    if file_format == "single-gzip":
        return _build_single(records)
    compress = {
        "plain": lambda record: record,
        "gzip": lambda record: gzip.compress(record, mtime=0),
        "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    }[file_format]
    for record in records:
        stored = compress(record)
        start = len(archive.data)
        archive.data += stored
        archive.extents.append((start, len(archive.data)))
        length = len(stored) - len(b"\r\n\r\n") if file_format == "plain" else len(stored)
        archive.reported.append((start, length))
    return archive


def _build_single(records: list[bytes]) -> Archive:
    archive = Archive(gzip.compress(b"".join(records), mtime=0))
    start = 0
    for record in records:
        archive.extents.append((0, len(archive.data)))
        # a member that holds one record only can be read by itself
        archive.reported.append((0, len(archive.data)) if len(records) == 1 else (start, 0))
        start += len(record)
    return archive

"""WARC/1.0 records as Common Crawl writes them, each a gzip member of its own.

Written by hand: the format is a few lines of text, and dates and record ids must come from the seed, never the clock.
"""

from __future__ import annotations

import zlib
from base64 import b32encode
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import blake2b, sha1
from urllib.parse import urlsplit

from treesim_dask.demo.responses import Response

# Level 6 takes half as long again and saves a twentieth of the bytes.
_LEVEL = 3
# Setting up zlib's usual 256 KB takes longer than compressing a request: short WARC records get a window of 1 KB.
_SHORT_BYTES = 1024
_REVISIT_PROFILE = "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest"

Headers = Iterable[tuple[str, str]]


def warcinfo_record(name: str, key: str, date: datetime) -> bytes:
    """Return the WARC record that opens a file called `name`; `key` makes its id."""
    fields = (
        ("isPartOf", "treesim-dask-demo"),
        ("description", "Synthetic websites: no page of this crawl exists on the web"),
        ("format", "WARC file version 1.0"),
        ("software", "treesim_dask demo"),
    )
    headers = (("WARC-Record-ID", record_id(key)), ("WARC-Filename", name))
    return _gzip_record("warcinfo", date, headers, "application/warc-fields", _fields_block(fields))


def exchange_records(response: Response, key: str, file_key: str) -> bytes:
    """Return the WARC records of one fetch: request, response and metadata.

    Parameters
    ----------
    response
        What the server answered.
    key
        Makes the record ids: another for each fetch of a crawl.
    file_key
        The key of the warcinfo record that opened the file.
    """
    request_id, response_id = record_id(f"{key} request"), record_id(f"{key} response")
    shared = (("WARC-Warcinfo-ID", record_id(file_key)), ("WARC-Target-URI", response.url))
    payload_digest = digest(response.body)
    block = response.http_bytes
    request = _gzip_record(
        "request",
        response.date,
        (("WARC-Record-ID", request_id), *shared, ("WARC-IP-Address", response.site.address)),
        "application/http; msgtype=request",
        _request_block(response.url),
    )
    answer = _gzip_record(
        "response",
        response.date,
        (
            ("WARC-Record-ID", response_id),
            *shared,
            ("WARC-Concurrent-To", request_id),
            ("WARC-IP-Address", response.site.address),
            ("WARC-Payload-Digest", payload_digest),
            ("WARC-Block-Digest", digest(block)),
            ("WARC-Identified-Payload-Type", response.payload_type),
        ),
        "application/http; msgtype=response",
        block,
    )
    metadata = _gzip_record(
        "metadata",
        response.date,
        (("WARC-Record-ID", record_id(f"{key} metadata")), *shared, ("WARC-Concurrent-To", response_id)),
        "application/warc-fields",
        _fields_block((("fetchTimeMs", str(40 + len(block) % 400)), ("charset-detected", response.site.charset_label))),
    )
    return request + answer + metadata


def revisit_record(response: Response, key: str, file_key: str) -> bytes:
    """Return the WARC record of a second fetch, a day later, that found the same payload."""
    headers = (
        ("WARC-Record-ID", record_id(f"{key} revisit")),
        ("WARC-Warcinfo-ID", record_id(file_key)),
        ("WARC-Target-URI", response.url),
        ("WARC-Payload-Digest", digest(response.body)),
        ("WARC-Profile", _REVISIT_PROFILE),
        ("WARC-Refers-To-Target-URI", response.url),
        ("WARC-Refers-To-Date", f"{response.date:%Y-%m-%dT%H:%M:%SZ}"),
    )
    block = b"HTTP/1.1 304 Not Modified\r\nServer: " + response.site.server.encode("ascii") + b"\r\n\r\n"
    return _gzip_record(
        "revisit", response.date + timedelta(days=1), headers, "application/http; msgtype=response", block
    )


def record_id(key: str) -> str:
    """Return the id of a WARC record, made from a key.

    Examples
    --------
    >>> record_id("seed 1 page 7")
    '<urn:uuid:...-...-4...-...-...>'
    """
    hexes = blake2b(key.encode(), digest_size=16).hexdigest()
    return f"<urn:uuid:{hexes[:8]}-{hexes[8:12]}-4{hexes[13:16]}-8{hexes[17:20]}-{hexes[20:]}>"


def digest(content: bytes) -> str:
    """Return the SHA-1 of some bytes as WARC headers give it.

    Examples
    --------
    >>> digest(b"")
    'sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ'
    """
    return "sha1:" + b32encode(sha1(content).digest()).decode("ascii")


def _request_block(url: str) -> bytes:
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return (
        f"GET {target} HTTP/1.1\r\nUser-Agent: treesim-dask-demo/1.0\r\n"
        f"Accept: text/html,*/*;q=0.8\r\nHost: {parts.netloc}\r\nConnection: Keep-Alive\r\n\r\n"
    ).encode("ascii")


def _fields_block(fields: Headers) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in fields).encode("ascii")


def _gzip_record(kind: str, date: datetime, headers: Headers, content_type: str, block: bytes) -> bytes:
    lines = [f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Date: {date:%Y-%m-%dT%H:%M:%SZ}"]
    lines += (f"{name}: {value}" for name, value in headers)
    lines.append(f"Content-Length: {len(block)}\r\nContent-Type: {content_type}\r\n\r\n")
    return _gzip_member("\r\n".join(lines).encode("ascii") + block + b"\r\n\r\n")


def _gzip_member(content: bytes) -> bytes:
    """Compress to one gzip member, whose time stamp zlib leaves at 0."""
    window_bits, memory_level = (10, 4) if len(content) <= _SHORT_BYTES else (15, 8)
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + window_bits, memory_level)
    return compressor.compress(content) + compressor.flush()

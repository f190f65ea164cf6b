"""WARC records as crawlers write them, read in one go.

Nearly every WARC record of a crawl is the only one in its gzip member, has plain ASCII header lines and a length that
is right. One pass over the decoded member reads those. Whatever departs from that by one byte is None here and goes
to the reader that can deal with it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FIELDS = rb"(?:[!-9;-~]++: [!-~][ -~]*+\r\n)*+\r\n"
_RECORD_HEADER = re.compile(rb"WARC/1\.[01]\r\n" + _FIELDS)
_HTTP_HEADER = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})(?: [ -~]*+)?\r\n" + _FIELDS)
_ODD_URL = re.compile(rb"\nwarc-target-uri: (?:<|[^\r ]* )")  # warcio mends those
_HTTP_FIELDS = (b"\ncontent-type: ", b"\ncontent-encoding: ", b"\ntransfer-encoding: ")
RECORD_END = b"\r\n\r\n"
MAX_HTTP_HEADER = 2**20  # servers and clients stop far earlier


class UsualRecord(NamedTuple):
    """One WARC record: its header, as written and in lower case, and the length of its content.

    ``is_response`` says that it may be one: only then are its fields worth reading.
    """

    header: bytes
    lower: bytes
    n_content: int
    is_response: bool

    def field(self, name: bytes) -> str:
        """Return a header field, of repeated ones the first, by its name in lower case, as ``\\nwarc-date: ``."""
        return _find_field(self.header, self.lower, name)


class HttpResponse(NamedTuple):
    """One HTTP response; status 0 if there is no readable status line, fields empty if missing."""

    status: int
    content_type: str
    content_encoding: str
    transfer_encoding: str
    body: bytes


def read_usual_record(member: bytes) -> UsualRecord | None:
    """Return the WARC record that a decoded gzip member consists of.

    Examples
    --------
    >>> record = read_usual_record(b"WARC/1.0\\r\\nX-Y: z\\r\\nContent-Length: 2\\r\\n\\r\\nhi\\r\\n\\r\\n")
    >>> record.field(b"\\nx-y: "), len(record.header), record.n_content
    ('z', 39, 2)
    >>> read_usual_record(b"WARC/1.0\\r\\nContent-Length: 1\\r\\n\\r\\nhi\\r\\n\\r\\n") is None
    True
    """
    match = _RECORD_HEADER.match(member)
    if match is None or not member.endswith(RECORD_END):
        return None
    return _read_fields(match[0], len(member) - match.end() - len(RECORD_END))


def read_usual_header(header: bytes, n_content: int) -> UsualRecord | None:
    """Return the WARC record with the given header and so many bytes of content.

    Examples
    --------
    >>> read_usual_header(b"WARC/1.0\\r\\nContent-Length: 2\\r\\n\\r\\n", 2).is_response
    False
    """
    return _read_fields(header, n_content) if _RECORD_HEADER.fullmatch(header) else None


def _read_fields(header: bytes, n_content: int) -> UsualRecord | None:
    lower = header.lower()
    _, _, length = lower.partition(b"\ncontent-length: ")
    if not length.startswith(b"%d\r" % n_content):
        return None
    is_response = b"\nwarc-type: response" in lower
    return None if is_response and _ODD_URL.search(lower) else UsualRecord(header, lower, n_content, is_response)


def read_usual_http(member: bytes, start: int, end: int) -> HttpResponse | None:
    """Return the HTTP response that lies between `start` and `end`.

    Examples
    --------
    >>> read_usual_http(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\n\\r\\n<p>", 0, 47)
    HttpResponse(status=200, content_type='text/html', content_encoding='', transfer_encoding='', body=b'<p>')
    """
    match = _HTTP_HEADER.match(member, start, min(end, start + MAX_HTTP_HEADER))
    if match is None:
        return None
    header = match[0]
    lower = header.lower()
    content_type, content_encoding, transfer_encoding = [_find_field(header, lower, name) for name in _HTTP_FIELDS]
    body = member[match.end() : end]
    return HttpResponse(int(match[1]), content_type, content_encoding, transfer_encoding, body)


def _find_field(header: bytes, lower: bytes, name: bytes) -> str:
    start = lower.find(name)
    if start < 0:
        return ""
    start += len(name)
    return header[start : header.index(b"\r", start)].decode("ascii").rstrip()

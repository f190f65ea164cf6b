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
_RECORD_END = b"\r\n\r\n"
MAX_HTTP_HEADER = 2**20  # servers and clients stop far earlier


class UsualRecord(NamedTuple):
    """One WARC record: its header, and where its content lies in the member."""

    header: bytes
    start: int
    end: int

    @property
    def is_response(self) -> bool:
        """Whether it may be a response: only then are its fields worth reading."""
        return b"\nwarc-type: response" in self.header.lower()

    @property
    def fields(self) -> dict[str, str]:
        """The header fields by lower-case name; of repeated ones the first."""
        return _read_fields(self.header)


class HttpResponse(NamedTuple):
    """One HTTP response, its fields as in `UsualRecord`; status 0 if there is no readable status line."""

    status: int
    fields: dict[str, str]
    body: bytes


def read_usual_record(member: bytes) -> UsualRecord | None:
    """Return the WARC record that a decoded gzip member consists of.

    Examples
    --------
    >>> record = read_usual_record(b"WARC/1.0\\r\\nX: y\\r\\nContent-Length: 2\\r\\n\\r\\nhi\\r\\n\\r\\n")
    >>> record.fields, record.start, record.end
    ({'content-length': '2', 'x': 'y'}, 37, 39)
    >>> read_usual_record(b"WARC/1.0\\r\\nContent-Length: 1\\r\\n\\r\\nhi\\r\\n\\r\\n") is None
    True
    """
    match = _RECORD_HEADER.match(member)
    if match is None or not member.endswith(_RECORD_END):
        return None
    start, end = match.end(), len(member) - len(_RECORD_END)
    header = match[0].lower()
    _, _, length = header.partition(b"\ncontent-length: ")
    is_usual = length.startswith(b"%d\r" % (end - start)) and not _ODD_URL.search(header)
    return UsualRecord(match[0], start, end) if is_usual else None


def read_usual_http(member: bytes, start: int, end: int) -> HttpResponse | None:
    """Return the HTTP response that lies between `start` and `end`.

    Examples
    --------
    >>> read_usual_http(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\n\\r\\n<p>", 0, 47)
    HttpResponse(status=200, fields={'content-type': 'text/html'}, body=b'<p>')
    """
    header = _HTTP_HEADER.match(member, start, min(end, start + MAX_HTTP_HEADER))
    return HttpResponse(int(header[1]), _read_fields(header[0]), member[header.end() : end]) if header else None


def _read_fields(header: bytes) -> dict[str, str]:
    lines = header.decode("ascii").split("\r\n")[-3:0:-1]  # the last first, so that of repeated fields the first stays
    return {name.lower(): value.rstrip() for name, _, value in [line.partition(": ") for line in lines]}

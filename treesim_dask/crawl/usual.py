"""WARC records as crawlers write them, read in one go.

Nearly every WARC record of a crawl is the only one in its gzip member, has plain ASCII header lines and a length that
is right. One pass over the decoded member reads those. Whatever departs from that by one byte is None here and goes
to the reader that can deal with it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FIELDS = re.compile(rb"(?:[!-9;-~]+: [!-~](?:[ -~]*[!-~])?\r\n)*\r\n")
_VERSION_LINES = (b"WARC/1.0\r\n", b"WARC/1.1\r\n")
_STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})(?: [ -~]*)?\r\n")
_RECORD_END = b"\r\n\r\n"


class UsualRecord(NamedTuple):
    """One WARC record. ``fields`` has lower-case names; of a repeated field it has the first.

    ``content`` is that of a response; nothing is made of that of other WARC records.
    """

    fields: dict[str, str]
    content: bytes


class UsualHttp(NamedTuple):
    """One HTTP response, its fields as in `UsualRecord`."""

    status: int
    fields: dict[str, str]
    body: bytes


def read_usual_record(member: bytes, max_content: int) -> UsualRecord | None:
    """Return the WARC record that a decoded gzip member consists of.

    Examples
    --------
    >>> read_usual_record(b"WARC/1.0\\r\\nWARC-Type: response\\r\\nContent-Length: 2\\r\\n\\r\\nhi\\r\\n\\r\\n", 100)
    UsualRecord(fields={'content-length': '2', 'warc-type': 'response'}, content=b'hi')
    >>> read_usual_record(b"WARC/1.0\\r\\nContent-Length: 1\\r\\n\\r\\nhi\\r\\n\\r\\n", 100) is None
    True
    """
    header = _read_fields(member, len(_VERSION_LINES[0])) if member.startswith(_VERSION_LINES) else None
    if header is None:
        return None
    fields, start = header
    length, uri = fields.get("content-length", ""), fields.get("warc-target-uri", "")
    if not length.isdigit() or " " in uri or uri.startswith("<"):
        return None
    end = start + int(length)
    if end + len(_RECORD_END) != len(member) or not member.endswith(_RECORD_END) or end - start > max_content:
        return None
    is_response = fields.get("warc-type", "").lower() == "response"
    return UsualRecord(fields, member[start:end] if is_response else b"")


def read_usual_http(content: bytes) -> UsualHttp | None:
    """Return the HTTP response that is the content of a WARC record.

    Examples
    --------
    >>> read_usual_http(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\n\\r\\n<p>")
    UsualHttp(status=200, fields={'content-type': 'text/html'}, body=b'<p>')
    """
    line = _STATUS_LINE.match(content)
    header = _read_fields(content, line.end()) if line else None
    if line is None or header is None:
        return None
    fields, start = header
    return UsualHttp(int(line[1]), fields, content[start:])


def _read_fields(data: bytes, start: int) -> tuple[dict[str, str], int] | None:
    """Return the header fields that begin at `start`, and where the empty line behind them ends."""
    match = _FIELDS.match(data, start)
    if match is None:
        return None
    lines = match[0].decode("ascii").split("\r\n")[-3::-1]  # the last first, so that the first one stays
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}, match.end()

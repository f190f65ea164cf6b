"""WARC and ARC files as HTTP responses. The only module that knows warcio.

warcio parses the headers; where a WARC record begins and ends, and how to go on after damage, is decided here, since
warcio stops at the first thing it does not understand.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

from warcio.exceptions import ArchiveLoadFailed
from warcio.recordloader import ArcWarcRecordLoader
from warcio.statusandheaders import StatusAndHeaders

from treesim_dask.crawl import gunzip, reasons
from treesim_dask.crawl.members import DamagedMember, MemberStream, open_members
from treesim_dask.crawl.sniffing import MAX_START_LINE, begins_record, name_foreign_format
from treesim_dask.crawl.streams import ByteStream
from treesim_dask.crawl.usual import MAX_HTTP_HEADER, HttpResponse, UsualRecord, read_usual_http, read_usual_record
from treesim_dask.errors import SourceError
from treesim_dask.types import SkippedLog

_MAX_HEADER_BYTES = 2**20
_EMPTY_LINE = re.compile(rb"\n[ \t\r]*+\n")
_LONG_HEAD_BYTES = 2**16  # of a response too long to keep: enough for its HTTP header

# A crawl has thousands of URLs with spaces; warcio would say so for each of them.
logging.getLogger("warcio.recordloader").setLevel(logging.ERROR)


class Response(NamedTuple):
    """One HTTP response as archived.

    Parameters
    ----------
    offset, length
        Where the WARC record lies in the file. ``length`` 0: it shares its gzip member with others and cannot be
        read by itself; ``offset`` then counts decompressed bytes.
    url, date, digest
        Of the WARC header, as written.
    status
        0 if there is no readable status line.
    content_type, content_encoding, transfer_encoding
        Of the HTTP header, as written; empty if missing.
    body
        As archived, encodings still on; None if it is longer than the reader was told to keep.
    """

    offset: int
    length: int
    url: str
    date: str
    digest: str | None
    status: int
    content_type: str
    content_encoding: str
    transfer_encoding: str
    body: bytes | None


class NoArchive(SourceError):
    """Bytes that hold not one WARC record."""


class _BrokenRecord(Exception):
    """What was read is no WARC record."""


class ArchiveReader:
    """Iterates over the HTTP responses of an archive.

    Parameters
    ----------
    raw
        The file.
    skipped
        Damage is noted here.
    max_content
        Longer WARC records are passed over in bounded memory.
    try_usual, try_fast
        Read usual WARC records in one go, and decode them by FastWARC where it is installed. It changes nothing but
        the time.
    """

    def __init__(
        self,
        raw: ByteStream,
        skipped: SkippedLog,
        max_content: int,
        try_usual: bool = True,
        try_fast: bool = gunzip.IS_INSTALLED,
    ) -> None:
        self._members = _open_archive(raw)
        self._raw = raw
        self._skipped = skipped
        self._max_content = max_content
        self._try_usual = try_usual
        self._unpack = gunzip.FastGunzip().unpack if try_fast else None
        self._loader = ArcWarcRecordLoader(verify_http=False, arc2warc=False)
        self._n_records = 0

    def __iter__(self) -> Iterator[Response]:
        while True:
            if self._try_usual:
                yield from self._read_usual()
            try:
                if not self._next_record():
                    break
                response = self._read_record()
            except DamagedMember as damage:
                self._pass_damaged_member(damage)
                continue
            if response is not None:
                yield response
        if not self._n_records:
            is_damaged = not {reasons.DAMAGED_COMPRESSION, reasons.TRUNCATED}.isdisjoint(self._skipped.reason)
            what = "is damaged: not one WARC record can be read" if is_damaged else "is neither WARC nor ARC"
            raise _no_archive(self._raw.url, what)

    def _read_usual(self) -> Iterator[Response]:
        """Read members that are one usual WARC record each, up to the first that is not."""
        members = self._members
        while (member := members.open_whole(self._unpack)) is not None:
            record = read_usual_record(member)
            if record is None or record.n_content > self._max_content:
                members.put_back(member)
                return
            self._n_records += 1
            if record.is_response:
                extent = members.member_offset, members.member_end - members.member_offset
                start = len(record.header)
                yield from self._usual_response(record, extent, member, start, start + record.n_content)

    def _usual_response(
        self, record: UsualRecord, extent: tuple[int, int], data: bytes, start: int, end: int
    ) -> Iterator[Response]:
        """Yield the HTTP response of a WARC record whose content lies between `start` and `end`, if it is one."""
        url = record.field(b"\nwarc-target-uri: ")
        if _is_http(record.field(b"\nwarc-type: "), url):
            http = read_usual_http(data, start, end) or self._read_http(data[start:end])
            digest = record.field(b"\nwarc-payload-digest: ") or None
            offset, length = extent
            yield Response(offset, length, url, record.field(b"\nwarc-date: "), digest, *http)

    def _next_record(self) -> bool:
        """Go to the next WARC record, in this member or the next; False at the end of the file."""
        while True:
            self._members.skip_newlines()
            if not self._members.at_member_end():
                self._members.hold()
                return True
            if not self._members.open_member():
                return False

    def _read_record(self) -> Response | None:
        """Read one WARC record to its end; None unless it is a whole HTTP response."""
        members = self._members
        start = members.position
        begins_member = start == members.member_position
        try:
            record = self._parse_header()
        except _BrokenRecord:
            members.find_record(start + 1)
            self._note(reasons.DAMAGED_HEADER, start, begins_member)
            return None
        self._n_records += 1
        is_response = _is_http_response(record)
        content_start = members.position
        content, n_read = self._read_content(record, is_response)
        end = members.position
        if n_read < record.length:
            found = members.find_record(content_start)
            is_cut = not found and not members.is_compressed
            self._note(reasons.TRUNCATED if is_cut else reasons.WRONG_LENGTH, start, begins_member)
            return None
        if not self._is_followed(start, content_start, end, begins_member) or not is_response:
            return None
        return self._make_response(record, content, *self._extent(start, end, begins_member))

    def _is_followed(self, start: int, content_start: int, end: int, begins_member: bool) -> bool:
        """Go to what follows a WARC record; False if the next one begins inside what was taken for its content."""
        members = self._members
        members.skip_newlines()
        following = members.position
        if members.at_member_end() or begins_record(members.peek(MAX_START_LINE)):
            return True
        found = members.find_record(content_start)
        if found and members.position < end:
            self._note(reasons.WRONG_LENGTH, start, begins_member)
            return False
        if following - end >= 2:  # well separated: the damage lies in what follows
            self._note(reasons.DAMAGED_HEADER, following, begins_member=False)
        else:
            self._note(reasons.WRONG_LENGTH, start, begins_member)
        return True

    def _pass_damaged_member(self, damage: DamagedMember) -> None:
        """Go on at the next member that is whole."""
        offset = self._members.member_offset
        found = self._members.find_member(offset + 1)
        is_cut = damage.at_end_of_file and not found
        self._skipped.add(reasons.TRUNCATED if is_cut else reasons.DAMAGED_COMPRESSION, self._raw.url, offset)

    def _note(self, reason: str, start: int, begins_member: bool) -> None:
        offset = self._members.member_offset if self._members.is_compressed and begins_member else start
        self._skipped.add(reason, self._raw.url, offset)

    def _parse_header(self) -> Any:
        """Parse the header at the position and move behind it."""
        header = self._members.peek_header(_MAX_HEADER_BYTES)
        lines = BytesIO(header)
        try:
            record = self._loader.parse_record_stream(lines, no_record_parse=True)
        except (ArchiveLoadFailed, EOFError, ValueError) as error:
            raise _BrokenRecord from error
        is_cut = record.format == "warc" and not header.endswith((b"\n\n", b"\n\r\n", b"\n\r\r\n"))
        if record.length is None or is_cut:
            raise _BrokenRecord
        self._members.skip(lines.tell())
        return record

    def _read_content(self, record: Any, is_response: bool) -> tuple[bytes, int]:
        """Return the content, of a very long response its beginning, and how long it is in the file.

        What cannot be whole is not read: many wrong lengths would each take the rest of a member.
        """
        if self._members.is_behind_end(self._members.position + record.length):
            return b"", 0
        if not is_response:
            return b"", self._members.skip(record.length)
        is_long = record.length > self._max_content
        content = self._members.read(_LONG_HEAD_BYTES if is_long else record.length)
        return content, len(content) + self._members.skip(record.length - len(content) if is_long else 0)

    def _extent(self, start: int, end: int, begins_member: bool) -> tuple[int, int]:
        """Return where a WARC record lies in the file and how long it is there."""
        members = self._members
        if not members.is_compressed:
            return start, end - start
        if begins_member and members.at_member_end():
            return members.member_offset, members.member_end - members.member_offset
        return start, 0

    def _make_response(self, record: Any, content: bytes, offset: int, length: int) -> Response:
        http = self._read_http(content)
        warc = record.rec_headers
        date = warc.get_header("archive-date" if record.format == "arc" else "WARC-Date", "")
        digest = warc.get_header("WARC-Payload-Digest") or None
        response = Response(offset, length, _url_of(record), date, digest, *http)
        return response if len(content) == record.length else response._replace(body=None)

    def _read_http(self, content: bytes) -> HttpResponse:
        if len(content) > MAX_HTTP_HEADER and not _EMPTY_LINE.search(content, 0, MAX_HTTP_HEADER):
            return HttpResponse(0, "", "", "", b"")
        stream = BytesIO(content)
        try:
            http = self._loader.http_parser.parse(stream)
        except EOFError:  # a response without content
            http = StatusAndHeaders("", [])
        content_type, content_encoding = http.get_header("content-type", ""), http.get_header("content-encoding", "")
        transfer_encoding = http.get_header("transfer-encoding", "")
        return HttpResponse(_status_of(http), content_type, content_encoding, transfer_encoding, stream.read())


def _open_archive(raw: ByteStream) -> MemberStream:
    head = bytes(raw.peek()[:16])
    if not head:
        raise _no_archive(raw.url, "is empty (0 bytes)")
    if foreign := name_foreign_format(head):
        raise _no_archive(raw.url, f"is a {foreign} file: unpack it first")
    members = open_members(raw)
    if members is None:
        raise _no_archive(raw.url, "is neither WARC nor ARC")
    return members


def _no_archive(url: str, what: str) -> NoArchive:
    return NoArchive(f"{url} {what}: give archives of web pages, or HTML files")


def _url_of(record: Any) -> str:
    url: str = record.rec_headers.get_header("uri" if record.format == "arc" else "WARC-Target-URI", "")
    return url.strip()


def _is_http_response(record: Any) -> bool:
    return _is_http(record.rec_type or "", _url_of(record))


def _is_http(record_type: str, url: str) -> bool:
    return record_type.strip().lower() == "response" and url[:6].lower().startswith(("http:", "https:"))


def _status_of(http: Any) -> int:
    code: str = http.get_statuscode()
    return int(code) if len(code) == 3 and code.isascii() and code.isdigit() else 0

"""Sources to batches of pages: what is an HTML page worth indexing, and what is not and why."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from treesim_dask.config import PageFilter
from treesim_dask.crawl import reasons
from treesim_dask.crawl.archives import ArchiveReader, NoArchive, Response
from treesim_dask.crawl.bodies import BodyTooLong, undo_content_encoding, undo_transfer_encoding
from treesim_dask.crawl.charset import Decoder, to_parser_bytes
from treesim_dask.crawl.extracts import places_of
from treesim_dask.crawl.listing import kind_by_name, spell_out
from treesim_dask.crawl.sniffing import (
    ZSTD_DICTIONARY_MAGIC,
    ZSTD_MAGIC,
    begins_archive,
    looks_binary,
    looks_like_html,
)
from treesim_dask.crawl.streams import ByteStream, MissingSource, open_stream, read_range, stream_bytes
from treesim_dask.errors import PageError, SourceError
from treesim_dask.types import PageBatch, SkippedLog, Source

_HTML_TYPES = {"text/html", "application/xhtml+xml", "application/xhtml", "text/xhtml", "application/vnd.wap.xhtml+xml"}
# Types that say nothing: the bytes have to.
_GENERIC_TYPES = {
    "", "*/*", "application/octet-stream", "application/unknown", "application/x-unknown", "unknown/unknown",
    "content/unknown", "unknown", "no-type", "none", "text", "text/unknown", "text/xml", "application/xml",
}  # fmt: skip
_MEDIA_TYPE_END = re.compile(r"[;,\s]")  # "text/html charset=utf-8" does occur
_SNIFF_BYTES = 2048
_HEAD_BYTES = 8192
_EVERYTHING = PageFilter(min_bytes=0, max_bytes=2**40)  # what was indexed once is given back, whatever its length
_USUAL_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_RANGES_AT_ONCE, _RANGES_AHEAD = 8, 64
_DATE = re.compile(  # WARC 1.1 allows dates that stop at any level
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?)?)?"
    r"(?:Z|(?P<sign>[+-])(?P<zone_hours>\d\d):?(?P<zone_minutes>\d\d))?"
)
_ARC_DATE = re.compile(
    r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)\d{0,3}"
)
_DATE_PARTS = (("year", 0), ("month", 1), ("day", 1), ("hour", 0), ("minute", 0), ("second", 0))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_pages(
    source: Source,
    page_filter: PageFilter,
    skipped: SkippedLog,
    *,
    storage_options: Mapping[str, Any] | None = None,
    max_pages: int = 512,
    max_bytes: int = 8 * 2**20,
) -> Iterator[PageBatch]:
    """Read the HTML pages of a source as a stream.

    Parameters
    ----------
    source
        An archive, some WARC records of one, or a group of plain HTML files.
    page_filter
        Which pages to keep.
    skipped
        Gets an entry for every response left out and for all damage; see `reasons`.
    storage_options
        For fsspec.
    max_pages, max_bytes
        A batch is handed out when it has this many pages, or this many bytes of HTML.

    Raises
    ------
    SourceError
        The source cannot be read, is empty, or is no archive.
    """
    pages = {"archive": _read_archive, "html": _read_html_files, "extract": _read_extract}[source.kind]
    batch, n_bytes = PageBatch(), 0
    for html, page in pages(source, page_filter, skipped, storage_options):
        batch.append(html, *page)
        n_bytes += len(html)
        if len(batch) >= max_pages or n_bytes >= max_bytes:
            yield batch
            batch, n_bytes = PageBatch(), 0
    if len(batch):
        yield batch


def read_page_at(
    url: str,
    offset: int,
    length: int | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    decode: Decoder = to_parser_bytes,
) -> PageBatch:
    """Give one page back by a range read.

    Parameters
    ----------
    url
        The archive, or a plain HTML file.
    offset, length
        Of the WARC record, as in `PageBatch`. Without a length the file is read from `offset` on as far as needed; with
        length 0, and where no WARC record begins at `offset`, it is searched from its beginning for the record at
        that place of the decompressed bytes.
    storage_options
        For fsspec.
    decode
        Makes bytes for the parser of the body and its Content-Type.

    Returns
    -------
    PageBatch
        Of one page.

    Raises
    ------
    PageError
        There is no HTML page.
    """
    try:
        body = _html_body(url, length, storage_options) if offset == 0 else None
        if body is not None:
            reason, html = judge_html_file(url, body, _EVERYTHING, decode)
            page = _html_page(url, body)
        else:
            response = _response_at(url, offset, length, storage_options, _max_content(_EVERYTHING))
            if response is None:
                raise PageError(f"no HTTP response at offset {offset} of {url}: give the offset of a WARC record")
            reason, html = judge_response(response, _EVERYTHING, decode)
            page = _page_of(response, url)
    except SourceError as error:
        raise PageError(str(error)) from error
    if reason:
        raise PageError(f"the response at offset {offset} of {url} is no HTML page: {reason}")
    return _batch_of(html, page)


def judge_response(
    response: Response, page_filter: PageFilter, decode: Decoder = to_parser_bytes
) -> tuple[str | None, bytes]:
    """Return why a response is left out, or None and its HTML. The body is decoded only if all else lets it pass."""
    if not 200 <= response.status < 300:
        return reasons.STATUS, b""
    if not _may_be_html(response.content_type):
        return reasons.CONTENT_TYPE, b""
    if page_filter.hosts and not _has_host(response.url, page_filter.hosts):
        return reasons.HOST, b""
    if page_filter.url_pattern and not re.search(page_filter.url_pattern, response.url):
        return reasons.URL_PATTERN, b""
    if response.body is None:
        return reasons.TOO_LONG, b""
    return _judge_body(response, page_filter, decode)


def _judge_body(response: Response, page_filter: PageFilter, decode: Decoder) -> tuple[str | None, bytes]:
    try:
        body = undo_transfer_encoding(response.body or b"", response.transfer_encoding, page_filter.max_bytes)
        decoded = undo_content_encoding(body, response.content_encoding, page_filter.max_bytes)
    except BodyTooLong:
        return reasons.TOO_LONG, b""
    if len(decoded) < page_filter.min_bytes:
        return reasons.TOO_SHORT, b""
    html = decode(decoded, response.content_type)
    head = html[:_SNIFF_BYTES]
    if response.content_encoding and decoded is body and looks_binary(head) and not looks_like_html(head):
        return reasons.DAMAGED_BODY, b""
    if _media_type(response.content_type) in _GENERIC_TYPES and not looks_like_html(head):
        return reasons.CONTENT_TYPE, b""
    return None, html


def parse_date(text: str) -> int | None:
    """Return a WARC or ARC date in milliseconds since 1970 UTC, None if there is no such date.

    Examples
    --------
    >>> parse_date("1970-01-01T00:00:01Z"), parse_date("19700101000001"), parse_date("2008-10-294T05:21:46-0700")
    (1000, 1000, None)
    """
    if _USUAL_DATE.fullmatch(text):
        try:
            return int(datetime.fromisoformat(text).timestamp()) * 1000
        except ValueError:
            return None
    match = _DATE.fullmatch(text.strip()) or _ARC_DATE.fullmatch(text.strip())
    if not match:
        return None
    parts = match.groupdict("")
    offset = timedelta(hours=int(parts.get("zone_hours") or 0), minutes=int(parts.get("zone_minutes") or 0))
    numbers = [int(parts[name] or default) for name, default in _DATE_PARTS]
    try:
        moment = datetime(*numbers, tzinfo=UTC) - (-offset if parts.get("sign") == "-" else offset)  # type: ignore[misc, arg-type]
    except (ValueError, OverflowError):
        return None
    milliseconds = int(parts.get("fraction", "").ljust(3, "0")[:3])
    return (moment - _EPOCH) // timedelta(milliseconds=1) + milliseconds


Page = tuple[str, int | None, int, str, int, int, str | None]  # the columns of a PageBatch after html


def _read_archive(
    source: Source, page_filter: PageFilter, skipped: SkippedLog, storage_options: Mapping[str, Any] | None
) -> Iterator[tuple[bytes, Page]]:
    with open_stream(source.members[0], storage_options) as stream:
        for response in ArchiveReader(stream, skipped, _max_content(page_filter)):
            reason, html = judge_response(response, page_filter)
            if reason:
                skipped.add(reason, stream.url, response.offset)
            else:
                yield html, _page_of(response, stream.url)


def _read_extract(
    source: Source, page_filter: PageFilter, skipped: SkippedLog, storage_options: Mapping[str, Any] | None
) -> Iterator[tuple[bytes, Page]]:
    """Read single WARC records by range, some at a time, in the order of the file.

    A place without a response is left out. A server in trouble is an error: its pages are to be asked for again.
    """
    warc, places = source.members[0], places_of(source)

    def fetch(place: tuple[int, int]) -> Response | None:
        try:
            return _response_at(warc, *place, storage_options, _max_content(page_filter))
        except (MissingSource, NoArchive):
            return None

    with ThreadPoolExecutor(_RANGES_AT_ONCE) as pool:
        for first in range(0, len(places), _RANGES_AHEAD):
            some = places[first : first + _RANGES_AHEAD]
            for (offset, _), response in zip(some, pool.map(fetch, some), strict=True):
                reason, html = (reasons.UNREADABLE, b"") if response is None else judge_response(response, page_filter)
                if reason or response is None:
                    skipped.add(reason or reasons.UNREADABLE, warc, offset)
                else:
                    yield html, _page_of(response, warc)


def _read_html_files(
    source: Source, page_filter: PageFilter, skipped: SkippedLog, storage_options: Mapping[str, Any] | None
) -> Iterator[tuple[bytes, Page]]:
    for url in source.members:
        name = spell_out(url)
        if name != url:  # what is stored is UTF-8, and could not lead back to the file
            skipped.add(reasons.UNREADABLE, name, 0)
            continue
        try:
            body, _ = read_range(url, 0, page_filter.max_bytes + 1, storage_options)
        except MissingSource:
            skipped.add(reasons.UNREADABLE, url, 0)
            continue
        reason, html = judge_html_file(url, body, page_filter)
        if reason:
            skipped.add(reason, url, 0)
        else:
            yield html, _html_page(url, body)


def judge_html_file(
    url: str, body: bytes, page_filter: PageFilter, decode: Decoder = to_parser_bytes
) -> tuple[str | None, bytes]:
    """Return why a plain HTML file is left out, or None and its HTML."""
    if page_filter.hosts and not _has_host(url, page_filter.hosts):
        return reasons.HOST, b""
    if page_filter.url_pattern and not re.search(page_filter.url_pattern, url):
        return reasons.URL_PATTERN, b""
    if len(body) > page_filter.max_bytes:
        return reasons.TOO_LONG, b""
    if len(body) < page_filter.min_bytes:
        return reasons.TOO_SHORT, b""
    html = decode(body, "")
    return (reasons.CONTENT_TYPE, b"") if looks_binary(html[:_SNIFF_BYTES]) else (None, html)


def _html_body(url: str, length: int | None, storage_options: Mapping[str, Any] | None) -> bytes | None:
    """Return the bytes of a plain HTML file, None for everything else; the bytes decide as they do for inputs."""
    with open_stream(url, storage_options, end=length or None) as stream:
        head = bytes(stream.peek()[:_HEAD_BYTES])
        is_html = not begins_archive(head) and (kind_by_name(url) == "html" or looks_like_html(head))
        pieces = iter(lambda: _take_chunk(stream), b"")
        return b"".join(pieces) if is_html else None


def _take_chunk(stream: ByteStream) -> bytes:
    chunk = bytes(stream.peek())
    stream.advance(len(chunk))
    return chunk


def _response_at(
    url: str, offset: int, length: int | None, storage_options: Mapping[str, Any] | None, max_content: int
) -> Response | None:
    if length:
        record, _ = read_range(url, offset, length, storage_options)
        dictionary = _dictionary_frame(url, storage_options) if offset and record.startswith(ZSTD_MAGIC) else b""
        response = _first_response(stream_bytes(url, dictionary + record), len(dictionary), max_content)
        return response and response._replace(offset=offset, length=length)
    if length is None:
        with open_stream(url, storage_options) as stream:
            stream.seek(offset)
            if (response := _first_response(stream, offset, max_content)) is not None:
                return response
    return _find_shared(url, offset, storage_options, max_content)


def _dictionary_frame(url: str, storage_options: Mapping[str, Any] | None) -> bytes:
    """Return the frame with which a .warc.zst file opens if it has a dictionary: its other frames need it."""
    head, _ = read_range(url, 0, 8, storage_options)
    if not head.startswith(ZSTD_DICTIONARY_MAGIC):
        return b""
    return read_range(url, 0, 8 + int.from_bytes(head[4:], "little"), storage_options)[0]


def _first_response(stream: ByteStream, offset: int, max_content: int) -> Response | None:
    """Return the response at the position of `stream`, if one begins there."""
    try:
        response = next(iter(ArchiveReader(stream, SkippedLog(), max_content)), None)
    except NoArchive:
        return None
    return response if response is not None and response.offset == offset else None


def _find_shared(url: str, offset: int, storage_options: Mapping[str, Any] | None, max_content: int) -> Response | None:
    """Search a file for the response at a place of its decompressed bytes."""
    with open_stream(url, storage_options) as stream:
        for response in ArchiveReader(stream, SkippedLog(), max_content):
            if response.offset == offset and not response.length:
                return response
    return None


def _page_of(response: Response, warc: str) -> Page:
    date = parse_date(response.date)
    return response.url, date, response.status, warc, response.offset, response.length, response.digest


def _html_page(url: str, body: bytes) -> Page:
    digest = "sha1:" + base64.b32encode(hashlib.sha1(body).digest()).decode()
    return url, None, 200, url, 0, len(body), digest


def _batch_of(html: bytes, page: Page) -> PageBatch:
    batch = PageBatch()
    batch.append(html, *page)
    return batch


def _max_content(page_filter: PageFilter) -> int:
    """Return how long a WARC record may be to hold a page that passes: chunk headers and HTTP headers come on top."""
    return 2 * page_filter.max_bytes + 2**20


def _media_type(content_type: str) -> str:
    return _MEDIA_TYPE_END.split(content_type.strip(), maxsplit=1)[0].lower()


def _may_be_html(content_type: str) -> bool:
    media_type = _media_type(content_type)
    return media_type in _HTML_TYPES or media_type in _GENERIC_TYPES


def _has_host(url: str, hosts: tuple[str, ...]) -> bool:
    try:
        host = (urlsplit(url).hostname or "").strip(".")
    except ValueError:  # such as an unclosed bracket
        return False
    return any(host == wanted or host.endswith("." + wanted) for wanted in hosts)

"""Archives of every format and quirk come back as the pages that went in."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from tests.crawl_archives import (
    CONTENT_ENCODINGS,
    FORMATS,
    PAGE,
    Archive,
    StoredRecord,
    arc_filedesc,
    arc_record,
    build_archive,
    chunked,
    http_response,
    warc_record,
)
from treesim_dask.config import PageFilter
from treesim_dask.crawl import reasons
from treesim_dask.crawl.archives import ArchiveReader
from treesim_dask.crawl.inputs import find_sources
from treesim_dask.crawl.members import open_members
from treesim_dask.crawl.pages import parse_date, read_page_at, read_pages
from treesim_dask.crawl.streams import ByteStream, Connection, open_stream
from treesim_dask.errors import PageError, SourceError
from treesim_dask.types import PageBatch, SkippedLog, Source

EVERYTHING = PageFilter(min_bytes=0)


def read(path: Path, page_filter: PageFilter = EVERYTHING, **limits: int) -> tuple[PageBatch, SkippedLog]:
    """Read a file into one batch."""
    whole, skipped = PageBatch(), SkippedLog()
    for batch in read_pages(Source(str(path), "archive", (str(path),)), page_filter, skipped, **limits):
        for column in PageBatch.__slots__:
            getattr(whole, column).extend(getattr(batch, column))
    return whole, skipped


def read_bytes(folder: Path, data: bytes, page_filter: PageFilter = EVERYTHING) -> tuple[PageBatch, SkippedLog]:
    path = folder / "test.warc"
    path.write_bytes(data)
    return read(path, page_filter)


@st.composite
def stored_records(draw: st.DrawFn) -> list[StoredRecord]:
    """Some pages between WARC records of other types."""
    records = [StoredRecord(warc_record(b"software: test\r\n", kind="warcinfo"))]
    for number in range(draw(st.integers(1, 6))):
        url = f"http://example.org/{number}"
        html = b"<html><body>" + draw(st.binary(max_size=400)) + f"<p>{number}".encode()
        encoding = draw(st.sampled_from(sorted(CONTENT_ENCODINGS)))
        body = CONTENT_ENCODINGS[encoding](html)
        headers = {"Content_Encoding": encoding} if encoding else {}
        if draw(st.booleans()):
            body = chunked(body, draw(st.integers(1, 64)))
            headers["Transfer_Encoding"] = "chunked"
        version = draw(st.sampled_from(["WARC/0.17", "WARC/0.18", "WARC/1.0", "WARC/1.1"]))
        if draw(st.booleans()):
            records.append(StoredRecord(warc_record(b"GET / HTTP/1.1\r\n\r\n", url, kind="request")))
        records.append(StoredRecord(warc_record(http_response(body, **headers), url, version=version), url, html))
        if draw(st.booleans()):
            records.append(StoredRecord(warc_record(b"fetchTimeMs: 1\r\n", url, kind="metadata")))
    return records


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archives")


class TestRoundTrip:
    @given(records=stored_records(), file_format=st.sampled_from(FORMATS))
    @settings(max_examples=150, deadline=None)
    def test_pages_come_back_with_exact_offsets(
        self, folder: Path, records: list[StoredRecord], file_format: str
    ) -> None:
        archive = build_archive([record.data for record in records], file_format)
        path = folder / "round-trip.warc"
        path.write_bytes(archive.data)
        pages, skipped = read(path)
        expected = [
            (record.url, record.html, *extent)
            for record, extent in zip(records, archive.reported, strict=True)
            if record.html is not None
        ]
        assert list(zip(pages.url, pages.html, pages.offset, pages.length, strict=True)) == expected
        assert len(skipped) == 0
        for url, html, offset, length in expected:
            for known_length in (length, None):
                one = read_page_at(str(path), offset, known_length)
                assert (one.url, one.html, one.offset, one.length) == ([url], [html], [offset], [length])

    def test_a_peer_writes_what_we_read(self, tmp_path: Path) -> None:
        path = tmp_path / "peer.warc.gz"
        with path.open("wb") as file:
            writer = WARCWriter(file, gzip=True)
            headers = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.0")
            for number in range(3):
                record = writer.create_warc_record(
                    f"http://example.org/{number}", "response", io.BytesIO(PAGE), http_headers=headers
                )
                writer.write_record(record)
                digest = record.rec_headers.get_header("WARC-Payload-Digest")
                record.raw_stream.close()
        pages, _ = read(path)
        assert pages.html == [PAGE] * 3
        assert pages.digest == [digest] * 3

    def test_arc(self, tmp_path: Path) -> None:
        records = [arc_filedesc(), arc_record(http_response()), arc_record(http_response(), "http://example.org/a b")]
        pages, skipped = read_bytes(tmp_path, b"".join(records))
        assert pages.html == [PAGE, PAGE]
        assert pages.offset == [len(records[0]), len(records[0]) + len(records[1])]
        assert pages.date == [1714979289000] * 2
        assert len(skipped) == 0

    @pytest.mark.parametrize(
        "dictionary",
        [
            zstandard.compress(b"x")[:4] + b"\xff" * 40,
            b"\x37\xa4\x30\xec" + bytes(50),
            zstandard.compress(bytes(2**25)),
        ],
        ids=["damaged frame", "damaged dictionary", "too long"],
    )
    def test_a_dictionary_of_no_use_does_not_keep_out_what_needs_none(self, tmp_path: Path, dictionary: bytes) -> None:
        frame = b"\x5d\x2a\x4d\x18" + len(dictionary).to_bytes(4, "little") + dictionary
        path = tmp_path / "a.warc.zst"
        path.write_bytes(frame + zstandard.compress(warc_record(http_response())))
        [batch] = read_pages(Source(str(path), "archive", (str(path),)), EVERYTHING, SkippedLog())
        assert batch.html == [PAGE]

    def test_zstd_with_a_dictionary(self, tmp_path: Path) -> None:
        dictionary = zstandard.ZstdCompressionDict(b"WARC/1.0\r\nWARC-Type: response" * 20)
        frame = b"\x5d\x2a\x4d\x18" + len(dictionary.as_bytes()).to_bytes(4, "little") + dictionary.as_bytes()
        stored = zstandard.ZstdCompressor(dict_data=dictionary).compress(warc_record(http_response()))
        pages, _ = read_bytes(tmp_path, frame + stored)
        assert pages.html == [PAGE]
        assert pages.offset == [len(frame)]

    def test_batches_are_bounded_by_pages_and_by_bytes(self, tmp_path: Path) -> None:
        path = tmp_path / "many.warc"
        path.write_bytes(warc_record(http_response()) * 10)
        source = Source(str(path), "archive", (str(path),))
        by_pages = read_pages(source, EVERYTHING, SkippedLog(), max_pages=4)
        assert [len(batch) for batch in by_pages] == [4, 4, 2]
        by_bytes = read_pages(source, EVERYTHING, SkippedLog(), max_bytes=2 * len(PAGE))
        assert [len(batch) for batch in by_bytes] == [2] * 5


GZIP_BODY = gzip.compress(PAGE, mtime=0)
BROKEN_GZIP = b"\x1f\x8b\x08\x00\x00broken"
QUIRKS = {
    "headers claim gzip, body is plain": http_response(Content_Encoding="gzip"),
    "headers claim brotli, body is plain": http_response(Content_Encoding="br"),
    "headers claim chunked, body is not": http_response(Transfer_Encoding="chunked"),
    "encoding of an unknown name": http_response(Content_Encoding="utf-8"),
    "raw deflate": http_response(CONTENT_ENCODINGS["deflate"](PAGE)[2:-4], Content_Encoding="deflate"),
    "two encodings": http_response(CONTENT_ENCODINGS["br"](GZIP_BODY), Content_Encoding="gzip, br"),
    "chunk extensions and lower-case names": http_response(
        b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(PAGE), PAGE), **{"transfer-encoding": "Chunked"}
    ),
    "no content type": http_response(content_type=None),
    "generic content type": http_response(content_type="application/octet-stream"),
    "no semicolon in content type": http_response(content_type="text/html charset=utf-8"),
    "XHTML in capitals": http_response(content_type="Application/XHTML+XML; charset=utf-8"),
    "no reason phrase": http_response(status="200"),
    "status 203": http_response(status="203 Non-Authoritative Information"),
    "line feeds only in the HTTP header": http_response().replace(b"\r\n", b"\n"),
}


class TestQuirks:
    @pytest.mark.parametrize("name", QUIRKS)
    @pytest.mark.parametrize("file_format", FORMATS)
    def test_body_quirks(self, tmp_path: Path, name: str, file_format: str) -> None:
        archive = build_archive([warc_record(QUIRKS[name]), warc_record(http_response())], file_format)
        pages, skipped = read_bytes(tmp_path, archive.data)
        assert (pages.html, len(skipped)) == ([PAGE, PAGE], 0)

    def test_a_gzip_body_that_breaks_off_gives_what_is_there(self, tmp_path: Path) -> None:
        long_page = PAGE + b"".join(b"<p>%d" % number for number in range(20000))
        body = gzip.compress(long_page)
        pages, _ = read_bytes(tmp_path, warc_record(http_response(body[: len(body) // 2], Content_Encoding="gzip")))
        assert len(pages.html[0]) > len(PAGE)
        assert long_page.startswith(pages.html[0])

    @pytest.mark.parametrize(
        "options",
        [
            {"newline": "\n"},
            {"newline": "\r\r\n"},
            {"url": "<http://example.org/>"},
            {"WARC_Truncated": "length"},
            {"version": "WARC/1.1", "WARC_Date": "2024-05-06T07:08:09.123456Z"},
        ],
        ids=["line feeds", "two carriage returns", "wget brackets", "truncated by the crawler", "fractional seconds"],
    )
    def test_header_quirks(self, tmp_path: Path, options: dict[str, str]) -> None:
        pages, skipped = read_bytes(tmp_path, 2 * warc_record(http_response(), **options))  # type: ignore[arg-type]
        assert (pages.html, pages.url, len(skipped)) == ([PAGE] * 2, ["http://example.org/"] * 2, 0)

    def test_a_very_long_url(self, tmp_path: Path) -> None:
        url = "http://example.org/" + "x" * 200_000
        pages, _ = read_bytes(tmp_path, warc_record(http_response(), url))
        assert pages.url == [url]

    def test_impossible_dates_are_none(self, tmp_path: Path) -> None:
        pages, _ = read_bytes(tmp_path, warc_record(http_response(), WARC_Date="2008-10-294T05:21:46-0700"))
        assert pages.date == [None]

    def test_several_records_in_each_of_several_members(self, tmp_path: Path) -> None:
        record = warc_record(http_response())
        member = gzip.compress(record * 2, mtime=0)
        path = tmp_path / "shared.warc.gz"
        path.write_bytes(member * 2)
        pages, skipped = read(path)
        assert pages.offset == [0, len(record), 2 * len(record), 3 * len(record)]
        assert (pages.length, len(skipped)) == ([0] * 4, 0)
        assert read_page_at(str(path), 3 * len(record), 0).html == [PAGE]

    def test_other_record_types_are_not_pages_and_not_left_out(self, tmp_path: Path) -> None:
        kinds = ("warcinfo", "request", "metadata", "revisit", "resource", "conversion", "something-new")
        data = b"".join(warc_record(http_response(), kind=kind) for kind in kinds)
        data += warc_record(b"20240506070809\nexample.org 1 IN A 127.0.0.1", "dns:example.org")
        pages, skipped = read_bytes(tmp_path, data)
        assert (len(pages), len(skipped)) == (0, 0)


class TestFilter:
    @pytest.mark.parametrize(
        ("content", "page_filter", "reason"),
        [
            (http_response(status="404 Not Found"), EVERYTHING, reasons.STATUS),
            (http_response(status="301 Moved", Location="/x"), EVERYTHING, reasons.STATUS),
            (b"no status line", EVERYTHING, reasons.STATUS),
            (http_response(content_type="image/png"), EVERYTHING, reasons.CONTENT_TYPE),
            (http_response(b'{"a": 1}', content_type=None), EVERYTHING, reasons.CONTENT_TYPE),
            (http_response(b"<p>x"), PageFilter(min_bytes=5), reasons.TOO_SHORT),
            (http_response(), PageFilter(max_bytes=80), reasons.TOO_LONG),
            (
                http_response(gzip.compress(b" " * 10**7), Content_Encoding="gzip"),
                PageFilter(max_bytes=10**6),
                "too-long",
            ),
            (http_response(), PageFilter(hosts=("example.com",)), reasons.HOST),
            (http_response(), PageFilter(url_pattern="/shop/"), reasons.URL_PATTERN),
            (http_response(BROKEN_GZIP, Content_Encoding="gzip"), EVERYTHING, reasons.DAMAGED_BODY),
            (
                http_response(chunked(BROKEN_GZIP), Content_Encoding="gzip", Transfer_Encoding="chunked"),
                EVERYTHING,
                reasons.DAMAGED_BODY,
            ),
        ],
    )
    def test_a_page_left_out_has_a_reason_and_an_offset(
        self, tmp_path: Path, content: bytes, page_filter: PageFilter, reason: str
    ) -> None:
        first = warc_record(b"x", kind="warcinfo")
        pages, skipped = read_bytes(tmp_path, first + warc_record(content), page_filter)
        assert len(pages) == 0
        assert (skipped.reason, skipped.offset) == ([reason], [len(first)])

    @pytest.mark.parametrize("file_format", FORMATS)
    def test_an_endless_http_header_is_no_response(self, tmp_path: Path, file_format: str) -> None:
        endless = http_response(PAGE, **{f"X_{number}": "x" * 1000 for number in range(1100)})
        archive = build_archive([warc_record(endless), warc_record(http_response())], file_format)
        pages, skipped = read_bytes(tmp_path, archive.data)
        assert (pages.html, skipped.reason) == ([PAGE], [reasons.STATUS])

    def test_hosts_include_subdomains(self, tmp_path: Path) -> None:
        urls = ["http://example.org/", "https://www.EXAMPLE.org:8080/", "http://badexample.org/", "http://[broken/"]
        data = b"".join(warc_record(http_response(), url) for url in urls)
        pages, skipped = read_bytes(tmp_path, data, PageFilter(hosts=("example.org",)))
        assert pages.url == urls[:2]
        assert skipped.reason == [reasons.HOST] * 2

    def test_a_huge_response_is_passed_over(self, tmp_path: Path) -> None:
        video = warc_record(http_response(bytes(5 * 2**20), content_type="video/mp4"))
        page_filter = PageFilter(max_bytes=2**20)
        for file_format in FORMATS:
            archive = build_archive([video, warc_record(http_response())], file_format)
            pages, skipped = read_bytes(tmp_path, archive.data, page_filter)
            assert (pages.html, skipped.reason) == ([PAGE], [reasons.CONTENT_TYPE])


class TestDamage:
    @given(
        records=stored_records(),
        file_format=st.sampled_from(["plain", "gzip", "zstd"]),
        where=st.floats(0, 1, exclude_max=True),
        flip=st.integers(1, 255),
    )
    @settings(max_examples=400, deadline=None)
    def test_a_flipped_byte_costs_one_record(
        self, folder: Path, records: list[StoredRecord], file_format: str, where: float, flip: int
    ) -> None:
        archive = build_archive([record.data for record in records], file_format)
        place = int(where * len(archive.data))
        data = bytearray(archive.data)
        data[place] ^= flip
        untouched = _pages_outside(records, archive, lambda start, end: not start <= place < end)
        path = folder / "flipped.warc"
        path.write_bytes(data)
        pages, _ = read(path)
        assert untouched <= set(zip(pages.url, pages.html, pages.offset, strict=True))

    @given(records=stored_records(), file_format=st.sampled_from(FORMATS), where=st.floats(0, 1, exclude_max=True))
    @settings(max_examples=300, deadline=None)
    def test_a_cut_costs_what_it_cuts(
        self, folder: Path, records: list[StoredRecord], file_format: str, where: float
    ) -> None:
        archive = build_archive([record.data for record in records], file_format)
        n_kept = int(where * len(archive.data))
        kept = _pages_outside(records, archive, lambda _, end: end <= n_kept)
        path = folder / "cut.warc"
        path.write_bytes(archive.data[:n_kept])
        try:
            pages, skipped = read(path)
        except SourceError:
            assert n_kept < archive.extents[0][1]  # not one whole record: nothing says that this is an archive
            return
        assert kept <= set(zip(pages.url, pages.html, pages.offset, strict=True))
        assert set(skipped.reason) <= reasons.DAMAGE_REASONS

    @pytest.mark.parametrize("file_format", ["plain", "gzip", "zstd"])
    def test_garbage_between_records_is_reported_where_it_lies(self, tmp_path: Path, file_format: str) -> None:
        archive = build_archive([warc_record(http_response())], file_format)
        pages, skipped = read_bytes(tmp_path, archive.data + b"garbage\r\n\r\n" + archive.data)
        assert pages.html == [PAGE, PAGE]
        assert skipped.offset == [len(archive.data)]
        assert set(skipped.reason) <= reasons.DAMAGE_REASONS

    @pytest.mark.parametrize("wrong_by", [-40, -1, 1, 100_000])
    @pytest.mark.parametrize("file_format", FORMATS)
    def test_a_wrong_length_costs_no_other_page(self, tmp_path: Path, file_format: str, wrong_by: int) -> None:
        content = http_response()
        wrong = warc_record(content, "http://example.org/wrong", length=len(content) + wrong_by)
        archive = build_archive([wrong, warc_record(content), warc_record(content)], file_format)
        pages, skipped = read_bytes(tmp_path, archive.data)
        assert Counter(pages.url)["http://example.org/"] == 2
        if wrong_by not in (1,):  # one byte too many is the line end that follows
            assert (skipped.reason, skipped.offset) == ([reasons.WRONG_LENGTH], [0])

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"", "0 bytes"),
            (GZIP_BODY[:12] + b"xxxx", "damaged"),
            (b"hello" * 100, "neither"),
            (gzip.compress(b"hello", mtime=0), "neither"),
            (b"PK\x03\x04xx", "zip"),
        ],
    )
    def test_what_is_no_archive_is_an_error(self, tmp_path: Path, data: bytes, said: str) -> None:
        with pytest.raises(SourceError, match=said):
            read_bytes(tmp_path, data)


def test_going_back_in_a_plain_file_reads_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(b"WARC/1.0\r\n" + bytes(4 * 2**20))
    asked: list[int] = []

    def connect(position: int) -> Connection:
        asked.append(position)
        return open_stream(str(path))._connect(position)

    with ByteStream(str(path), connect) as stream:
        members = open_members(stream)
        assert members is not None
        members.open_member()
        members.skip(4 * 2**20)
        members.rewind(2**20 + 5)
        assert (members.position, members.peek(2)) == (2**20 + 5, bytes(2))
    assert asked == [0, 2**20 + 4]


class CountingStream(ByteStream):
    """Counts the bytes that are taken from it."""

    n_taken = 0

    def advance(self, n_bytes: int) -> None:
        self.n_taken += n_bytes
        super().advance(n_bytes)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_lengths_that_lead_behind_the_end_do_not_each_take_the_rest_of_the_file(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    header = b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 9999999999\r\n\r\n"
    data = pack(header * 50 + bytes(4 * 2**20))
    (tmp_path / "a.warc").write_bytes(data)
    with open_stream(str(tmp_path / "a.warc")) as stream:
        raw, skipped = CountingStream(stream.url, stream._connect), SkippedLog()
        assert list(ArchiveReader(raw, skipped, 2**20)) == []
        raw.close()
    assert len(skipped) == 50
    assert raw.n_taken < 5 * len(data)


def test_a_member_of_line_ends_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").write_bytes(gzip.compress(b"\r\n" * 2**24 + warc_record(http_response())))
    with open_stream(str(tmp_path / "a.warc.gz")) as stream:
        tracemalloc.start()
        [response] = ArchiveReader(stream, SkippedLog(), 2**20)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (response.offset, response.length) == (2**25, 0)
    assert peak < 2**24


@pytest.mark.parametrize("line_ends", [(b"\r\n", b"\r\n"), (b"\r\n\r\n", b"")])
def test_a_page_with_line_ends_before_it_comes_back(tmp_path: Path, line_ends: tuple[bytes, bytes]) -> None:
    whole = gzip.compress(warc_record(http_response()), mtime=0)
    before, behind = line_ends
    odd = before + warc_record(http_response(), "http://example.org/odd").removesuffix(b"\r\n\r\n") + behind
    pages, _ = read_bytes(tmp_path, whole + gzip.compress(odd) + whole * 2)
    assert pages.html == [PAGE] * 4
    for url, offset, length in zip(pages.url, pages.offset, pages.length, strict=True):
        assert read_page_at(str(tmp_path / "test.warc"), offset, length).url == [url]


@pytest.mark.parametrize("beginning", [b"\x1f\x8b\x08\x08name", b"\x1f\x8b\x08"], ids=["endless names", "magics"])
def test_the_search_for_a_member_takes_no_more_for_each_find_in_a_longer_file(tmp_path: Path, beginning: bytes) -> None:
    def bytes_taken(n_beginnings: int) -> int:
        path = tmp_path / f"{n_beginnings}.warc.gz"
        path.write_bytes(beginning * n_beginnings + gzip.compress(warc_record(http_response())))
        with open_stream(str(path)) as stream:
            raw = CountingStream(stream.url, stream._connect)
            members = open_members(raw)
            assert members is not None
            assert members.find_member(1)
            assert members.member_offset == len(beginning) * n_beginnings
            raw.close()
        return raw.n_taken

    assert bytes_taken(12_000) < 2.5 * bytes_taken(6_000)


def _pages_outside(records: list[StoredRecord], archive: Archive, is_kept) -> set[tuple[str, bytes, int]]:  # type: ignore[no-untyped-def]
    return {
        (record.url, record.html, reported[0])
        for record, extent, reported in zip(records, archive.extents, archive.reported, strict=True)
        if record.html is not None and is_kept(*extent)
    }


class TestReadPageAt:
    def test_a_plain_html_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.html"
        path.write_bytes(PAGE)
        page = read_page_at(str(path), 0)
        assert (page.html, page.url, page.length, page.date) == ([PAGE], [str(path)], [len(PAGE)], [None])
        assert page.digest[0] is not None
        assert page.digest[0].startswith("sha1:")

    @pytest.mark.parametrize("name", ["a.html", "b.htm"])
    @pytest.mark.parametrize("html", [PAGE, b"text first, <p>then a tag", b"<p>" + b"x" * 100])
    def test_html_files_come_back_as_indexed(self, tmp_path: Path, name: str, html: bytes) -> None:
        (tmp_path / name).write_bytes(html)
        [source] = find_sources([str(tmp_path)])
        [batch] = read_pages(source, EVERYTHING, SkippedLog())
        for length in (batch.length[0], None):
            assert read_page_at(batch.warc[0], batch.offset[0], length) == batch

    def test_pages_packed_with_a_dictionary_come_back_as_indexed(self, tmp_path: Path) -> None:
        dictionary = zstandard.ZstdCompressionDict(warc_record(http_response()))
        frame = b"\x5d\x2a\x4d\x18" + len(dictionary.as_bytes()).to_bytes(4, "little") + dictionary.as_bytes()
        stored = zstandard.ZstdCompressor(dict_data=dictionary).compress(warc_record(http_response()))
        path = tmp_path / "a.warc.zst"
        path.write_bytes(frame + stored * 2)
        pages, _ = read(path)
        assert pages.offset == [len(frame), len(frame) + len(stored)]
        for offset, length in zip(pages.offset, pages.length, strict=True):
            for known_length in (length, None):
                one = read_page_at(str(path), offset, known_length)
                assert (one.html, one.offset, one.length) == ([PAGE], [offset], [length])

    @pytest.mark.parametrize("file_format", FORMATS)
    def test_a_page_longer_than_the_default_limit_comes_back(self, tmp_path: Path, file_format: str) -> None:
        html = PAGE + b"<p>" * (PageFilter().max_bytes // 3 + 1)
        body = CONTENT_ENCODINGS["gzip"](html)
        records = [warc_record(http_response(body, Content_Encoding="gzip")), warc_record(http_response(html))]
        path = tmp_path / "long.warc"
        path.write_bytes(build_archive(records, file_format).data)
        pages, _ = read(path, PageFilter(max_bytes=2 * len(html)))
        assert pages.html == [html, html]
        for offset, length in zip(pages.offset, pages.length, strict=True):
            assert read_page_at(str(path), offset, length).html == [html]

    def test_no_page_there(self, tmp_path: Path) -> None:
        path = tmp_path / "a.warc.gz"
        path.write_bytes(gzip.compress(warc_record(http_response(status="404 Not Found"))))
        with pytest.raises(PageError, match="status"):
            read_page_at(str(path), 0)
        with pytest.raises(PageError, match="no HTTP response at offset 7"):
            read_page_at(str(path), 7)
        with pytest.raises(PageError, match="no such file"):
            read_page_at(str(tmp_path / "missing.warc"), 0)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2006", 1136073600000),
        ("2016-01-11T23:24Z", 1452554640000),
        ("2024-05-06T09:08:09+02:00", 1714979289000),
        ("2024-05-06T07:08:09.25Z", 1714979289250),
        ("20240506070809", 1714979289000),
        ("2024-02-30T00:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates(text: str, milliseconds: int | None) -> None:
    assert parse_date(text) == milliseconds

"""Reading WARC records in one go gives what reading them line by line gives, on good archives and on bad ones."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treesim_dask.crawl import gunzip, streams
from treesim_dask.crawl.archives import ArchiveReader
from treesim_dask.crawl.sniffing import GZIP_MAGIC
from treesim_dask.crawl.streams import ByteStream, stream_bytes
from treesim_dask.crawl.usual import read_usual_http, read_usual_record
from treesim_dask.demo.crawl import write_demo_warc
from treesim_dask.errors import SourceError
from treesim_dask.types import SkippedLog

MAX_CONTENT = 50_000

HTTP_HEADERS = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
    b"HTTP/1.0 404 Not Found\r\nContent-Type: text/html\r\ncontent-type: second\r\n\r\n",
    b"HTTP/1.1 200\r\nX-Empty:\r\nContent-Type:text/html\r\n\r\n",
    b"HTTP/2 200 \r\nContent-Encoding: gzip \r\nTransfer-Encoding:  chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Type: text/html\n\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html;\r\n charset=x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; \xc3\xa9\xff\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nno colon here\r\nContent-Type : text/html\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"no status line at all\r\n\r\n",
    b"\r\n",
    b"",
]
FIELDS = [
    b"WARC-Type: response", b"warc-type: Response", b"WARC-Type: request", b"WARC-Type: revisit", b"WARC-Type:response",
    b"WARC-Target-URI: http://a.example/x", b"WARC-Target-URI: https://a.example/x y", b"WARC-Target-URI: dns:a",
    b"WARC-Target-URI: <http://a.example/>", b"Warc-Target-Uri: HTTP://a.example/ ", b"WARC-Date: 2024-01-02T03:04:05Z",
    b"WARC-Payload-Digest: sha1:ABC", b"WARC-Payload-Digest:", b"X-Note: caf\xc3\xa9", b" continued", b"no colon",
    b"WARC-Record-ID : <urn:x>", b"X-Tab:\tx", b"Content-Length: 3", b"content-length: x",
]  # fmt: skip


@st.composite
def warc_records(draw):
    """A WARC record of odd and even parts, most of them right."""
    content = draw(st.sampled_from(HTTP_HEADERS)) + draw(st.binary(max_size=40))
    usual = [b"WARC-Type: response", b"WARC-Target-URI: http://a.example/", b"Content-Length: %d" % len(content)]
    fields = (
        draw(st.lists(st.sampled_from(FIELDS), max_size=3))
        + usual
        + draw(st.lists(st.sampled_from(FIELDS), max_size=2))
    )
    version = draw(st.sampled_from([b"WARC/1.0", b"WARC/1.1", b"WARC/0.18", b"WARC/1.0 "]))
    ending = draw(st.sampled_from([b"\r\n\r\n", b"\r\n\r\n", b"\n\n", b"", b"\r\n\r\n\r\n", b"junk"]))
    line_end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"]))
    leading = draw(st.sampled_from([b"", b"", b"", b"\r\n", b"\r\n\r\n", b"\n"]))
    return leading + line_end.join([version, *fields, b"", b""]) + content + ending


@st.composite
def gzip_members(draw, data):
    """The bytes in one member, in two, or with a member of line ends or of nothing before or behind."""
    blank = gzip.compress(draw(st.sampled_from([b"", b"\r\n", b"\r\n\r\n"])))
    cut = draw(st.integers(0, len(data)))
    level = draw(st.sampled_from([0, 1]))  # stored, so that the file holds what the WARC record says
    whole, halves = gzip.compress(data, level), gzip.compress(data[:cut], level) + gzip.compress(data[cut:], level)
    return draw(st.sampled_from([whole, whole, whole, blank + whole, whole + blank, halves, blank + halves]))


def read_all(data, *, try_usual, try_fast=False):
    skipped = SkippedLog()
    responses = []
    stream = stream_bytes("a.warc.gz", data)
    try:
        responses.extend(ArchiveReader(stream, skipped, MAX_CONTENT, try_usual=try_usual, try_fast=try_fast))
    except SourceError as error:
        responses.append(str(error))
    return responses, skipped


def assert_same(data):
    expected = read_all(data, try_usual=False)
    assert read_all(data, try_usual=True) == expected
    if gunzip.IS_INSTALLED:
        assert read_all(data, try_usual=True, try_fast=True) == expected


@pytest.fixture(scope="module")
def demo_archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "demo.warc.gz"
    write_demo_warc(path, 0, 60)
    return path.read_bytes()


def test_demo_archive(demo_archive):
    responses, skipped = read_all(demo_archive, try_usual=True)
    assert len(responses) >= 60
    assert not skipped.reason
    assert (responses, skipped) == read_all(demo_archive, try_usual=False)


def test_offsets_and_lengths_give_the_records_back(demo_archive):
    for response in read_all(demo_archive, try_usual=True)[0]:
        record = gzip.decompress(demo_archive[response.offset : response.offset + response.length])
        assert record.startswith(b"WARC/1.")
        assert response.url.encode() in record


@pytest.mark.parametrize(
    "repack",
    [
        pytest.param(gzip.decompress, id="uncompressed"),
        pytest.param(lambda data: gzip.compress(gzip.decompress(data), 1), id="one member"),
        pytest.param(lambda data: data[:-7], id="cut in a trailer"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut in half"),
        pytest.param(lambda data: b"junk" + data, id="junk first"),
        pytest.param(lambda data: data + b"junk", id="junk last"),
        pytest.param(lambda data: data[:100] + data, id="doubled beginning"),
        pytest.param(lambda data: data + gzip.compress(b"WARC/1.0\r\n" * 2**19), id="a long member"),
        pytest.param(lambda data: gzip.compress(b"") + data + gzip.compress(b"\r\n"), id="empty members"),
    ],
)
def test_repacked_archive(demo_archive, repack):
    assert_same(repack(demo_archive))


@given(st.data())
def test_damaged_archive(demo_archive, data):
    damaged = bytearray(demo_archive)
    for position in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=3)):
        damaged[position] ^= data.draw(st.integers(1, 255))
    assert_same(bytes(damaged))


@given(st.lists(warc_records(), min_size=1, max_size=4), st.integers(0, 3), st.data())
def test_odd_records(records, n_in_first_member, data):
    first = b"".join(records[:n_in_first_member])
    assert_same(b"".join(data.draw(gzip_members(part)) for part in [first, *records[n_in_first_member:]]))


@pytest.mark.parametrize("n_in_member", [1, 3])
@pytest.mark.parametrize("chunk_bytes", [5, 256, 257, 1_000, 2**20])
def test_beginnings_of_members_inside_a_member_are_none(n_in_member, chunk_bytes, monkeypatch):
    """Stored, not compressed, so that the bytes a gzip member begins with stand all over the file, at any seam."""
    monkeypatch.setattr(streams, "CHUNK_BYTES", chunk_bytes)
    bodies = [GZIP_MAGIC * n + b"x" * (n % 7) for n in (0, 1, 90, 400)] + [gzip.compress(b"<p>" * n) for n in (1, 99)]
    records = [whole_record(HTTP_HEADERS[0] + body) for body in bodies]
    parts = [b"".join(records[i : i + n_in_member]) for i in range(0, len(records), n_in_member)]
    archive = b"".join(gzip.compress(part, 0) for part in parts)
    for try_usual in (True, False):
        responses, skipped = read_all(archive, try_usual=try_usual)
        assert [response.body for response in responses] == bodies
        assert not skipped.reason


def test_a_member_of_many_records_is_looked_through_once(monkeypatch):
    n_seen = 0

    class CountingStream(ByteStream):
        def peek_to(self, pattern, n_least, n_most):
            nonlocal n_seen
            view = super().peek_to(pattern, n_least, n_most)
            n_seen += len(view)
            return view

    monkeypatch.setattr(streams, "ByteStream", CountingStream)
    parts = [gzip.compress(whole_record(HTTP_HEADERS[0]) * 500), *[gzip.compress(bytes(range(256)) * 4, 0)] * 20]
    responses, _ = read_all(b"".join(parts), try_usual=True)
    assert len(responses) == 500
    assert 0 < n_seen < 3 * sum(map(len, parts))


def whole_record(content):
    fields = [b"WARC-Type: response", b"WARC-Target-URI: http://a.example/", b"Content-Length: %d" % len(content)]
    return b"\r\n".join([b"WARC/1.0", *fields, b"", content, b"", b""])


def test_usual_and_unusual_records_are_told_apart():
    record = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 2\r\n\r\nhi\r\n\r\n"
    assert read_usual_record(record) is not None
    for old, new in [
        (b"1.1", b"0.9"),
        (b": 2", b": 3"),
        (b"hi\r\n\r\n", b"hi\r\n"),
        (b": r", b":\xe9"),
        (b"\r\n", b"\n"),
    ]:
        assert read_usual_record(record.replace(old, new, 1)) is None, new
    assert read_usual_http(b"HTTP/1.1 200 OK\r\n\r\nx", 0, 18) is None  # the header goes on behind the content


def forged_record(n_behind):
    """A WARC record that holds its own length, where the trailer of a member of it lay if it began elsewhere."""
    record = whole_record(HTTP_HEADERS[0] + b"<p>" + b"size" + b"y" * (n_behind - 8))
    return record.replace(b"size", len(record).to_bytes(4, "little"))


LINE_END = gzip.compress(b"\r\n", mtime=0)
FORGED = forged_record(len(LINE_END))
WHOLE = gzip.compress(whole_record(HTTP_HEADERS[0] + b"<p>"), mtime=0)
LINE_ENDS = gzip.compress(b"\r\n\r\n", mtime=0)


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(LINE_END + gzip.compress(FORGED, 0) + WHOLE * 3, id="forged length"),
        pytest.param(
            LINE_END + gzip.compress(FORGED[:60], 0) + gzip.compress(FORGED[60:], 0) + WHOLE * 3,
            id="forged length, two members",
        ),
        pytest.param(WHOLE + (LINE_ENDS + WHOLE) * 3, id="line ends between"),
        pytest.param(
            WHOLE + gzip.compress(b"\r\n" + gzip.decompress(WHOLE)[:-2]) + WHOLE * 2, id="line end before, not behind"
        ),
        pytest.param(
            WHOLE + gzip.compress(b"\r\n\r\n" + gzip.decompress(WHOLE)[:-4]) + WHOLE * 2, id="line ends before"
        ),
    ],
)
def test_lengths_that_add_up_to_those_of_a_usual_record(archive):
    assert_same(archive)


def test_two_short_members_are_not_one():
    record = whole_record(HTTP_HEADERS[0])
    halves = [gzip.compress(half, 9) for half in (record[:50], record[50:])]
    assert max(map(len, halves)) < 256
    assert_same(WHOLE + b"".join(halves) + WHOLE * 2)


@pytest.mark.skipif(not gunzip.IS_INSTALLED, reason="needs the extra fast")
class TestFastGunzip:
    """What FastWARC decodes is taken with proof only."""

    def test_whole_members_are_what_zlib_makes_of_them(self, demo_archive):
        fast = gunzip.FastGunzip()
        contents = [bytes(range(256)) * n for n in (1, 2, 4_000)] + [b"x", whole_record(b"y"), demo_archive]
        for content in contents:
            for level in (0, 1, 9):
                assert fast.unpack(memoryview(gzip.compress(content, level))) == content

    @pytest.mark.parametrize(
        "damage",
        [
            *(pytest.param(lambda member, n=n: member[:-n], id=f"cut by {n}") for n in range(1, 12)),
            *(
                pytest.param(
                    lambda member, n=n: member[:-n] + bytes([member[-n] ^ 1]) + member[len(member) - n + 1 :],
                    id=f"flip {n}",
                )
                for n in range(1, 12)
            ),
            pytest.param(lambda member: member + b"x", id="one byte more"),
            pytest.param(lambda member: member + member[-4:], id="its length again"),
            pytest.param(lambda member: member + member[-8:], id="its trailer again"),
            pytest.param(lambda member: member + bytes(4), id="zeros behind"),
            pytest.param(lambda member: b"junk" + member, id="junk before"),
            pytest.param(lambda member: member[:3] + b"\xe0" + member[4:], id="unknown flags"),
        ],
    )
    def test_what_is_not_one_whole_member_is_refused_and_forgotten(self, damage):
        fast = gunzip.FastGunzip()
        for content in (b"<p>" * 50, (8 * 10**6).to_bytes(4, "little") * 40):
            whole = gzip.compress(content, 0, mtime=0)
            for member in (damage(whole), damage(gzip.compress(content, mtime=0))):
                assert fast.unpack(memoryview(member)) is None
                assert fast.unpack(memoryview(whole)) == content

    def test_a_long_member_is_left_to_the_other_decoder(self):
        assert gunzip.FastGunzip().unpack(memoryview(gzip.compress(bytes(2**22 + 1)))) is None

    @pytest.mark.parametrize("n_bytes", [1, 4, 5, 8])
    def test_damage_in_a_trailer_is_never_passed_over(self, demo_archive, n_bytes):
        end = read_all(demo_archive, try_usual=False)[0][5].offset
        damaged = bytearray(demo_archive)
        damaged[end - n_bytes] ^= 1
        assert read_all(bytes(damaged), try_usual=True, try_fast=True)[1].reason
        assert_same(bytes(damaged))

    @pytest.mark.parametrize("chunk_bytes", [100, 1_000, 2**20])
    def test_one_connection_however_often_the_readers_change(self, demo_archive, chunk_bytes, monkeypatch):
        monkeypatch.setattr(streams, "CHUNK_BYTES", chunk_bytes)
        odd = gzip.compress(whole_record(HTTP_HEADERS[4]).replace(b"\r\n", b"\n"))
        whole = gzip.compress(whole_record(HTTP_HEADERS[0]))
        archive = (whole * 3 + odd) * 20 + demo_archive
        opened = []

        def connect(position):
            opened.append(position)
            return stream_bytes("a.warc.gz", archive)._connect(position)

        reader = ArchiveReader(ByteStream("a.warc.gz", connect), SkippedLog(), MAX_CONTENT, try_fast=True)
        assert list(reader) == read_all(archive, try_usual=False)[0]
        assert opened == [0]

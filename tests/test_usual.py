"""Reading WARC records in one go gives what reading them line by line gives, on good archives and on bad ones."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treesim_dask.crawl import streams, verified
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
    return line_end.join([version, *fields, b"", b""]) + content + ending


def read_all(data, *, try_usual, try_verified=False):
    skipped = SkippedLog()
    responses = []
    stream = stream_bytes("a.warc.gz", data)
    try:
        responses.extend(ArchiveReader(stream, skipped, MAX_CONTENT, try_usual=try_usual, try_verified=try_verified))
    except SourceError as error:
        responses.append(str(error))
    return responses, skipped


def assert_same(data):
    expected = read_all(data, try_usual=False)
    assert read_all(data, try_usual=True) == expected
    if verified.IS_INSTALLED:
        assert read_all(data, try_usual=True, try_verified=True) == expected


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


@given(st.lists(warc_records(), min_size=1, max_size=4), st.integers(0, 3))
def test_odd_records(records, n_in_first_member):
    first = b"".join(records[:n_in_first_member])
    assert_same(b"".join(gzip.compress(part, 1) for part in [first, *records[n_in_first_member:]]))


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


@pytest.mark.skipif(not verified.IS_INSTALLED, reason="needs the extra fast")
class TestVerified:
    """What FastWARC reads is taken with proof only, and what it read too far is not asked for again."""

    def test_all_but_the_last_record_are_proven(self, demo_archive):
        stream = stream_bytes("a.warc.gz", demo_archive)
        records = list(verified.read_verified(stream, MAX_CONTENT))
        assert [r.offset + r.length for r in records[:-1]] == [r.offset for r in records[1:]]
        rest = gzip.decompress(bytes(stream.peek()))
        assert sum(r.n_decoded for r in records) + len(rest) == len(gzip.decompress(demo_archive))
        assert rest.count(b"WARC/1.") == 1

    @pytest.mark.parametrize("n_bytes", [1, 4, 5, 8])
    def test_damage_in_a_trailer_is_never_passed_over(self, demo_archive, n_bytes):
        end = list(verified.read_verified(stream_bytes("a.warc.gz", demo_archive), MAX_CONTENT))[5].offset
        damaged = bytearray(demo_archive)
        damaged[end - n_bytes] ^= 1
        stream = stream_bytes("a.warc.gz", bytes(damaged))
        assert len(list(verified.read_verified(stream, MAX_CONTENT))) < 5
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

        reader = ArchiveReader(ByteStream("a.warc.gz", connect), SkippedLog(), MAX_CONTENT, try_verified=True)
        assert list(reader) == read_all(archive, try_usual=False)[0]
        assert opened == [0]

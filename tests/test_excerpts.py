"""Excerpts of archives: whole WARC records from all over them, or their beginning."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treesim_dask.crawl import excerpts
from treesim_dask.crawl.excerpts import read_excerpt
from treesim_dask.demo.crawl import write_demo_warc


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """An archive of 200 pages, and where its WARC records begin, by unpacking it member by member."""
    path = tmp_path_factory.mktemp("archive") / "a.warc.gz"
    write_demo_warc(path, 0, 200)
    return path


def n_records(data):
    return gzip.decompress(data).count(b"WARC/1.") if data else 0


@given(n_bytes=st.integers(1, 700_000), n_pieces=st.integers(2, 12))
@settings(max_examples=60)
def test_pieces_are_whole_records_in_order(archive, n_bytes, n_pieces):
    content = archive.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(excerpts, "_MOST_PIECES", n_pieces)
        patch.setattr(excerpts, "_LEAST_PIECE_BYTES", 20_000)
        pieces, size = read_excerpt(str(archive), n_bytes)
    assert size == len(content)
    assert sum(map(len, pieces)) <= n_bytes
    if len(pieces) == 1:
        assert content.startswith(pieces[0])
        assert len(pieces[0]) == min(n_bytes, size)
        return
    position = 0
    for piece in pieces:
        position = content.index(piece, position)
        assert gzip.decompress(piece).startswith(b"WARC/1.")  # neither the first nor the last of them is cut
        position += 1
    assert 0 < sum(map(n_records, pieces)) < n_records(content)


def test_pieces_come_from_all_over_the_archive(archive, monkeypatch):
    monkeypatch.setattr(excerpts, "_LEAST_PIECE_BYTES", 20_000)
    content = archive.read_bytes()
    pieces, _ = read_excerpt(str(archive), len(content) // 2)
    places = [content.index(piece) / len(content) for piece in pieces]
    assert len(pieces) == 8
    assert places == pytest.approx([number * (1 - 1 / 16) / 7 for number in range(8)], abs=0.05)


@pytest.mark.parametrize("compress", [gzip.compress, bytes], ids=["one member", "not compressed"])
def test_other_archives_give_their_beginning(archive, compress, tmp_path, monkeypatch):
    monkeypatch.setattr(excerpts, "_LEAST_PIECE_BYTES", 20_000)
    other = compress(gzip.decompress(archive.read_bytes()))
    (tmp_path / "b.warc.gz").write_bytes(other)
    n_bytes = len(other) // 2
    assert read_excerpt(str(tmp_path / "b.warc.gz"), n_bytes) == ([other[:n_bytes]], len(other))

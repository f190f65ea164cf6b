import os
from pathlib import Path

import numpy as np
import pytest
from strategies import shape_batch, write_segment

from treesim_dask import open_index
from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError, PageError
from treesim_dask.query.metrics import METRICS
from treesim_dask.query.options import SearchOptions
from treesim_dask.query.page import make_query
from treesim_dask.query.search import search_segments

CONFIG = IndexConfig(n_bands=6, n_rows=1)


def test_every_page_finds_itself_first_or_tied(demo_index):
    index = open_index(demo_index)
    for segment in index.segments:
        for row in range(0, segment.summary.n_pages, 17):
            page = f"id:{segment.segment_id}-{row}"
            best = index.search(page, k=400).matches
            itself = next(match for match in best if match.is_query)
            assert itself.page_id == page[3:]
            assert itself.score == best[0].score == 1.0
            assert itself.bands == tuple(range(index.config.n_bands))
            assert page[3:] not in {match.page_id for match in index.search(page, k=400, with_self=False).matches}


def test_leaving_the_page_out_still_gives_k(demo_index):
    index = open_index(demo_index)
    page = f"id:{index.segments[0].segment_id}-3"
    with_self, without = index.search(page, k=6), index.search(page, k=5, with_self=False)
    assert [m.page_id for m in without.matches] == [m.page_id for m in with_self.matches if not m.is_query][:5]


def test_the_cluster_answers_as_the_process_does(demo_index, client):
    index = open_index(demo_index)
    for segment in index.segments:
        page = f"id:{segment.segment_id}-1"
        for metric in METRICS:
            assert index.search(page, metric=metric, client=client) == index.search(page, metric=metric)


def test_pages_of_a_moved_archive_are_still_themselves(demo_index, demo_archives, tmp_path):
    index = open_index(demo_index)
    moved = tmp_path / "moved.warc.gz"
    moved.write_bytes(Path(demo_archives[0]).read_bytes())
    here, there = (list(index.search_batch(str(path), 400)) for path in (demo_archives[0], moved))
    for (query, answer), (_, same) in zip(here, there, strict=True):
        itself = [match for match in answer.matches if match.is_query]
        assert itself == [match for match in same.matches if match.is_query]
        assert (query.url, query.place) in {(match.url, (match.warc, match.offset)) for match in itself}
    for _, answer in index.search_batch(str(moved), 400, with_self=False):
        assert not any(match.is_query for match in answer.matches)


def test_a_page_is_found_by_its_archive_and_by_its_bytes(demo_index, demo_archives, tmp_path):
    from treesim_dask.crawl.pages import read_page_at

    index = open_index(demo_index)
    row = index.pages.compute().iloc[7]
    for warc in (row.warc, os.path.relpath(row.warc)):
        by_archive = index.query(f"warc:{warc}#{row.offset}")
        assert by_archive[by_archive.is_query].url.tolist() == [row.url]
    html = read_page_at(row.warc, row.offset, row.length).html[0]
    (tmp_path / "page.html").write_bytes(html)
    by_file, by_bytes = index.query(str(tmp_path / "page.html")), index.query(html)
    assert by_file.equals(by_bytes)
    assert by_file.iloc[0].score == 1.0


def test_a_query_answer_is_a_frame_with_provenance(demo_index):
    index = open_index(demo_index)
    frame = index.query(f"id:{index.segments[0].segment_id}-0", k=3)
    assert len(frame) == 3
    assert frame.columns.tolist()[:6] == ["rank", "score", "cosine", "jaccard", "bands", "url"]
    assert frame.score.is_monotonic_decreasing
    assert (frame.offset >= 0).all()


@pytest.mark.parametrize("page", ["id:nonsense", "id:0123456789abcdef-0", "id:0123456789abcdef-99999999999", "warc:x"])
def test_pages_that_are_not_there(demo_index, page):
    with pytest.raises(PageError):
        open_index(demo_index).search(page)


def test_k_must_be_positive(demo_index):
    with pytest.raises(ConfigError, match="k must be at least 1"):
        open_index(demo_index).search(b"<p>", k=0)


def test_an_alien_page_has_no_match(demo_index):
    answer = open_index(demo_index).search("".join(f"<x-{i}>" for i in range(50)).encode())
    assert all(match.score < 0.5 for match in answer.matches)


def test_shared_shapes_are_stored_once(tmp_path):
    segment = write_segment(str(tmp_path), "a", [{1: 1}, {2: 5}, {1: 1}, {1: 2}, {2: 5}], CONFIG)
    assert segment.summary.n_shapes == 3
    assert segment.page_shapes.tolist() == [0, 1, 0, 2, 1]
    assert segment.read_shapes(np.array([2, 0])).counts.tolist() == [2, 1]
    query = make_query("q", shape_batch([{1: 1}]), CONFIG)
    (answer,) = search_segments([segment], [query], SearchOptions(9, metric="cosine"))
    assert [m.page_id.split("-")[1] for m in answer.matches] == ["0", "2", "3"]

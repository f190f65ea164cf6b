import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import assert_refused, run
from indexes import all_pages, brute_force, found, query_of, random_sources, write_index, write_source
from kills import Killed, kill_at

from treesim_dask import dataflow
from treesim_dask.api import open_index
from treesim_dask.builder import _pending_sources
from treesim_dask.compactor import compact
from treesim_dask.config import PageFilter
from treesim_dask.errors import ConfigError, IndexFormatError
from treesim_dask.index import compaction
from treesim_dask.index.deletion import delete_pages, delete_sources
from treesim_dask.index.live import live_sources
from treesim_dask.index.segment import LOOKUP, SEGMENTS, band_file_name, segment_id_of
from treesim_dask.query.options import SearchOptions
from treesim_dask.query.search import search_segment
from treesim_dask.types import Source

SOURCES = random_sources(seed=2, n_sources=4)
PAGES = all_pages(SOURCES)


@pytest.fixture
def store(tmp_path):
    return write_index(tmp_path / "index", SOURCES)


def answers(store, pages=PAGES, k=8):
    index = open_index(store.url)
    return [index.search(query_of(page), k).matches for page in pages[::13]]


def assert_index_is(store, pages):
    """The index answers as brute force over the given pages does, and holds nothing else."""
    index = open_index(store.url)
    for page in PAGES[::13]:
        query = query_of(page)
        assert found(index.search(query, 12)) == brute_force(pages, query, k=12)
    ids = [name for s in index.segments for name in s.page_ids(s.page_origins(s.live_rows()))]
    assert sorted(ids) == sorted(page["page_id"] for page in pages)
    assert [problem for problem in index.check() if not problem.is_orphan] == []


@pytest.mark.parametrize("shapes_per_part", [17, 40, 10**6])
@pytest.mark.parametrize("max_pages", [90, 10**6])
def test_answers_stay_the_same_to_the_bit(store, shapes_per_part, max_pages):
    before = answers(store)
    report = compact(store.url, shapes_per_part=shapes_per_part, max_pages=max_pages)
    assert answers(store) == before
    assert_index_is(store, PAGES)
    assert (report.n_segments_before, report.n_segments) == (4, 2 if max_pages == 90 else 1)
    assert report.n_shapes < report.n_shapes_before
    index = open_index(store.url)
    assert index.check() == []
    parts = [s.summary.compaction["parts"] for s in index.segments]
    assert (max(map(len, parts)) > 1) == (shapes_per_part < 50)


def test_equal_shapes_of_different_segments_are_stored_once(store):
    compact(store.url, shapes_per_part=20)
    distinct = {json.dumps(page["shape"], sort_keys=True) for page in PAGES}
    index = open_index(store.url)
    assert index.info.n_shapes == len(distinct) == sum(len(s.read_all_shapes()) for s in index.segments)


def test_bands_are_in_one_global_order(store):
    compact(store.url, shapes_per_part=20)
    (segment,) = open_index(store.url).segments
    rows = [(band, int(b)) for band, buckets, _ in segment.read_bands() for b in buckets]
    assert rows == sorted(rows)
    assert len(rows) == segment.summary.n_shapes * 6


def test_a_lookup_without_offsets_is_made_anew_from_the_footers(store, monkeypatch):
    """As it was written before offsets were noted."""
    before = answers(store)
    monkeypatch.setattr(compaction, "ROWS_PER_BAND_FILE", 100)
    compact(store.url, shapes_per_part=20)
    (segment,) = open_index(store.url).segments
    path = Path(store.path(f"{SEGMENTS}/{segment.segment_id}/{LOOKUP}"))
    columns = pq.read_table(path)
    assert len(set(columns.column("file").to_pylist())) > 1
    columns = columns.drop_columns(["offset", "n_bucket_bytes", "n_shape_bytes"])
    pq.write_table(columns.append_column("group", pa.nulls(len(columns), pa.uint32())), path)
    assert answers(store) == before


def test_the_band_file_that_is_missing_is_named(store, monkeypatch):
    monkeypatch.setattr(compaction, "ROWS_PER_BAND_FILE", 100)
    compact(store.url, shapes_per_part=20)
    (segment,) = open_index(store.url).segments
    gone = Path(store.path(f"{SEGMENTS}/{segment.segment_id}/{band_file_name(1)}"))
    gone.unlink()
    with pytest.raises(IndexFormatError, match=f"{gone} is missing"):
        answers(store)


def test_matches_carry_the_names_of_their_own_sources_only(store):
    """A compacted segment has as many names as files were indexed, and answers of all of them are merged."""
    compact(store.url)
    (segment,) = open_index(store.url).segments
    table = search_segment(segment, [query_of(PAGES[0])], SearchOptions(k=1))
    assert [*table.names] == [table.matches[0].page_id.rpartition("-")[0]]


def test_a_second_compaction_has_nothing_to_do(store):
    compact(store.url)
    name = open_index(store.url).segments[0].segment_id
    report = compact(store.url)
    assert open_index(store.url).segments[0].segment_id == name
    assert report.n_segments == report.n_segments_before == 1


def test_segments_added_later_are_seen_and_compacted_too(store):
    compact(store.url, shapes_per_part=30)
    more = random_sources(seed=3, n_sources=2)
    for url, pages in more.items():
        write_source(store, url, pages)
    pages = all_pages({**SOURCES, **more})
    assert_index_is(store, pages)
    compact(store.url, shapes_per_part=30)
    assert_index_is(store, pages)
    assert len(open_index(store.url).segments) == 1


def test_compacted_sources_are_remembered(store):
    sources = [Source(url, "archive", (url,), len(pages)) for url, pages in SOURCES.items()]
    compact(store.url)
    indexed = live_sources(store)
    assert _pending_sources(sources, indexed, PageFilter()) == []
    assert _pending_sources(sources, indexed, PageFilter(min_bytes=1)) == sources
    assert {segment_id_of(source.url) for source in sources} == indexed.keys()
    changed = Source(sources[0].url, "archive", sources[0].members, size=10**6)
    assert _pending_sources([changed, *sources[1:]], indexed, PageFilter()) == [changed]


def test_a_source_indexed_anew_takes_the_place_of_its_old_pages(store):
    compact(store.url)
    url = next(iter(SOURCES))
    changed = {**SOURCES, url: SOURCES[url][5:20]}
    write_source(store, url, changed[url])
    assert_index_is(store, all_pages(changed))
    compact(store.url)
    assert_index_is(store, all_pages(changed))


@pytest.mark.parametrize("when", ["before", "after", "both"])
def test_deleted_pages_never_appear_again(store, when):
    left = PAGES
    if when in ("before", "both"):
        assert delete_pages(store, lambda page: ".site1." in page["url"]) > 0
        left = [page for page in left if ".site1." not in page["url"]]
        assert_index_is(store, left)
    compact(store.url, shapes_per_part=25)
    assert_index_is(store, left)
    if when in ("after", "both"):
        gone = left[7]["page_id"]
        assert delete_pages(store, lambda page: ".site2." in page["url"], [gone]) > 0
        left = [page for page in left if ".site2." not in page["url"] and page["page_id"] != gone]
        assert_index_is(store, left)
        compact(store.url)
        assert_index_is(store, left)
    assert store.list_names("deleted") == []


def test_deleting_everything_leaves_an_empty_index(store):
    assert delete_pages(store, lambda page: True) == len(PAGES)
    assert delete_pages(store, lambda page: True) == 0
    compact(store.url)
    assert_index_is(store, [])


@pytest.mark.parametrize("shapes_per_part", [None, 20, 10**6])
def test_deleted_and_superseded_pages_are_neither_counted_nor_listed(store, shapes_per_part):
    index = open_index(store.url)
    if shapes_per_part:
        compact(store.url, shapes_per_part=shapes_per_part)
    assert index.info.n_pages == len(PAGES)
    url = next(iter(SOURCES))
    changed = {**SOURCES, url: SOURCES[url][5:20]}
    write_source(store, url, changed[url])
    assert index.delete(hosts=["site1.example"]) > 0
    assert index.delete(hosts=["nowhere.example"]) == 0
    left = [page for page in all_pages(changed) if ".site1.example" not in page["url"]]
    assert index.info.n_pages == len(left)
    frame = index.pages
    pages = frame.compute()
    assert list(pages.columns) == list(frame.columns)
    ids = [f"{segment}-{page}" for segment, page in zip(pages["segment"], pages["page"], strict=True)]
    assert sorted(zip(ids, pages["url"], strict=True)) == sorted((page["page_id"], page["url"]) for page in left)
    if shapes_per_part is None:
        by_source = {(page["warc"], json.dumps(page["shape"], sort_keys=True)) for page in left}
        assert index.info.n_shapes == len(by_source)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_whole_sources_can_be_deleted(store, is_compacted):
    if is_compacted:
        compact(store.url)
    url = next(iter(SOURCES))
    delete_sources(store, [segment_id_of(url)])
    left = all_pages({name: pages for name, pages in SOURCES.items() if name != url})
    assert_index_is(store, left)
    assert segment_id_of(url) not in live_sources(store)
    compact(store.url)
    assert_index_is(store, left)


@pytest.mark.parametrize("with_deletions", [False, True])
def test_a_killed_compaction_loses_and_doubles_nothing(store, monkeypatch, with_deletions):
    pages = PAGES
    if with_deletions:
        delete_pages(store, lambda page: ".site1." in page["url"])
        pages = [page for page in PAGES if ".site1." not in page["url"]]
    expected = answers(store)
    n = 0
    while True:
        with monkeypatch.context() as patch:
            kill_at(patch, n)
            try:
                compact(store.url, shapes_per_part=40)
                break
            except Killed:
                n += 1  # goes on where it stopped, and is killed a little later
        assert answers(store) == expected
    assert n >= 8
    assert_index_is(store, pages)
    assert open_index(store.url).check() == []
    assert len(open_index(store.url).segments) == 1


def test_a_source_half_deleted_is_an_orphan_and_not_a_broken_segment(store, monkeypatch):
    url = next(iter(SOURCES))
    with monkeypatch.context() as patch:
        kill_at(patch, -1)  # the removal is cut short
        with pytest.raises(Killed):
            delete_sources(store, [segment_id_of(url)])
    left = all_pages({name: pages for name, pages in SOURCES.items() if name != url})
    assert_index_is(store, left)


@pytest.mark.parametrize("n", range(1, 34, 8))
def test_a_compaction_killed_anywhere_is_finished_by_the_next(store, monkeypatch, n):
    expected = answers(store)
    with monkeypatch.context() as patch:
        kill_at(patch, n)
        with pytest.raises(Killed):
            compact(store.url, shapes_per_part=40)
    assert answers(store) == expected
    compact(store.url, shapes_per_part=40)
    assert_index_is(store, PAGES)
    assert open_index(store.url).check() == []


@pytest.mark.parametrize("n", [14, 26])
@pytest.mark.parametrize("constant", [None, "PAGES_PER_PART", "ROWS_PER_CELL", "ROWS_PER_BAND_FILE"])
def test_a_compaction_resumed_with_other_parameters_starts_anew(store, monkeypatch, n, constant):
    with monkeypatch.context() as patch:
        if constant:
            patch.setattr(compaction, constant, 30)
        kill_at(patch, n)
        with pytest.raises(Killed):
            compact(store.url, shapes_per_part=40)
    compact(store.url, shapes_per_part=40 if constant else 17)
    assert_index_is(store, PAGES)
    assert open_index(store.url).check() == []


def test_many_bucket_ranges_page_parts_and_band_files_answer_alike(store, monkeypatch):
    expected = answers(store)
    monkeypatch.setattr(compaction, "ROWS_PER_CELL", 7)
    monkeypatch.setattr(compaction, "PAGES_PER_PART", 60)
    monkeypatch.setattr(compaction, "ROWS_PER_BAND_FILE", 50)
    compact(store.url)
    assert answers(store) == expected
    assert_index_is(store, PAGES)
    (segment,) = open_index(store.url).segments
    assert len(segment.summary.compaction["parts"]) > 1 < segment.summary.compaction["n_band_files"]
    rows = [(band, int(b)) for band, buckets, _ in segment.read_bands() for b in buckets]
    assert rows == sorted(rows)
    assert len(rows) == segment.summary.n_shapes * 6


def test_parts_that_double_pages_are_not_published(store, monkeypatch):
    publish = compaction.publish

    def publish_twice(plan, parts, bands):
        return publish(plan, [*parts, parts[-1]], bands)

    monkeypatch.setattr(dataflow, "publish", publish_twice)
    with pytest.raises(IndexFormatError, match="expected 160 pages"):
        compact(store.url)
    assert_index_is(store, PAGES)


def test_leftovers_of_a_killed_compaction_are_orphans(store, monkeypatch):
    with monkeypatch.context() as patch:
        kill_at(patch, 12)
        with pytest.raises(Killed):
            compact(store.url)
    index = open_index(store.url)
    assert [problem.is_orphan for problem in index.check()] == [True] * len(index.check()) != []
    assert index.check(repair=True) == []
    assert_index_is(store, PAGES)


def test_an_open_index_goes_on_after_compaction(store):
    index = open_index(store.url, memory=0)
    before = [index.search(query_of(page), 8).matches for page in PAGES[::9]]
    compact(store.url)
    assert [index.search(query_of(page), 8).matches for page in PAGES[::9]] == before


@pytest.mark.parametrize(
    "ask",
    [
        lambda index: index.search(f"id:{PAGES[3]['page_id']}", 8).matches,
        lambda index: [a.matches for _, a in index.search_many([f"id:{page['page_id']}" for page in PAGES[:3]])],
        lambda index: sorted(index.pages.compute()["url"]),
        lambda index: index.signatures.compute().shape[1],
        lambda index: index.evaluate({page["url"]: page["warc"] for page in PAGES}, n_queries=3).n_pages,
        lambda index: index.info.n_pages,
    ],
    ids=["search", "search_many", "pages", "signatures", "evaluate", "info"],
)
def test_whatever_is_asked_of_an_open_index_survives_a_compaction(store, ask):
    index, expected = open_index(store.url, memory=0), ask(open_index(store.url))
    compact(store.url)
    assert ask(index) == expected


@pytest.mark.parametrize("options", [{"max_pages": 0}, {"shapes_per_part": 0}])
def test_options_that_make_no_sense_are_refused(store, options):
    with pytest.raises(ConfigError, match="at least 1"):
        compact(store.url, **options)


CLAIM = """
import sys, time
from treesim_dask.index.store import Store
with Store(sys.argv[1]).claim("compaction"):
    print("claimed", flush=True)
    time.sleep(600)
"""


def test_a_second_compaction_is_refused_until_the_first_is_gone(store, capsys):
    first = subprocess.Popen([sys.executable, "-c", CLAIM, store.url], stdout=subprocess.PIPE)
    try:
        assert first.stdout.readline() == b"claimed\n"
        assert_refused(run(capsys, "compact", store.url), "another compaction")
        assert len(open_index(store.url).segments) == len(SOURCES)
    finally:
        first.kill()  # it has no chance to clean up
        first.communicate()
    compact(store.url)
    assert_index_is(store, PAGES)
    assert open_index(store.url).check() == []

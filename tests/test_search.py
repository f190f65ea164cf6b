import gzip
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from indexes import (
    CONFIG,
    all_pages,
    brute_force,
    day,
    found,
    query_of,
    random_sources,
    write_index,
    write_source,
)
from strategies import shape_batch

from treesim_dask.api import open_index
from treesim_dask.cli import main
from treesim_dask.compactor import compact
from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError, IndexFormatError, PageError, TreesimError
from treesim_dask.index.arrays import ArrayWriter
from treesim_dask.index.cache import PIECE_BYTES, Cache
from treesim_dask.index.chunks import ChunkedArray
from treesim_dask.index.store import Store
from treesim_dask.query import search
from treesim_dask.query.matches import merge_tables
from treesim_dask.query.metrics import METRICS, measure_overlap
from treesim_dask.query.options import Conditions, SearchOptions, domain_of, host_of, read_date
from treesim_dask.query.rerank import pair_hits
from treesim_dask.query.search import search_many, search_segments

SOURCES = random_sources(seed=1)
PAGES = all_pages(SOURCES)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return open_index(write_index(tmp_path_factory.mktemp("search") / "index", SOURCES).url)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 7, 200])
def test_answers_are_the_best_candidates(index, metric, k):
    for page in PAGES[::9]:
        query = query_of(page)
        assert found(index.search(query, k, metric=metric)) == brute_force(PAGES, query, metric, k)


def test_the_page_itself_may_be_left_out(index):
    for page in PAGES[::9]:
        others = brute_force(PAGES, query_of(page), k=5, keep=lambda other: other is not page)  # noqa: B023
        assert found(index.search(query_of(page), 5, with_self=False)) == others


CONDITIONS = {
    "host": (Conditions(hosts=("site3.example",)), lambda page, query: ".site3.example/" in page["url"]),
    "pattern": (Conditions(url_pattern=r"/1/\d$"), lambda page, query: "/1/" in page["url"][-4:-1]),
    "since": (Conditions(since=day(30)), lambda page, query: page["date"] >= 30 * 86_400_000),
    "until": (Conditions(until=day(3)), lambda page, query: page["date"] < 3 * 86_400_000),
    "nodes": (Conditions(min_nodes=25), lambda page, query: sum(page["shape"].values()) >= 25),
    "others": (
        Conditions(other_hosts=True),
        lambda page, query: urlsplit(page["url"]).hostname != urlsplit(query["url"]).hostname,
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("k", [2, 30])
def test_conditions_hold_before_the_best_are_taken(index, name, k):
    conditions, keep = CONDITIONS[name]
    for page in PAGES[::11]:
        expected = brute_force(PAGES, query_of(page), k=k, keep=lambda other: keep(other, page))  # noqa: B023
        assert found(index.search(query_of(page), k, conditions=conditions)) == expected


@pytest.mark.parametrize(
    ("one_per", "site"),
    [
        ("host", lambda page: urlsplit(page["url"]).hostname),
        ("domain", lambda page: ".".join(urlsplit(page["url"]).hostname.split(".")[1:])),  # all begin with www
    ],
)
def test_at_most_one_page_of_a_site(index, one_per, site):
    for page in PAGES[::11]:
        expected = brute_force(PAGES, query_of(page), k=6, site=site)
        assert found(index.search(query_of(page), 6, one_per=one_per)) == expected


@given(st.lists(st.integers(0, len(PAGES) - 1), min_size=1, max_size=12), st.integers(1, 20), st.booleans())
def test_a_batch_answers_as_single_queries_do(rows, k, with_self):
    segments, options = BATCH_INDEX.segments, SearchOptions(k, with_self=with_self)
    queries = [query_of(PAGES[row]) for row in rows]
    assert [answer for _, answer in search_many(segments, queries, options)] == [
        search_segments(segments, [query], options)[0] for query in queries
    ]


@pytest.mark.parametrize("options", [{}, {"one_per": "host", "with_self": False}, {"fill": True}, {"bucket_cap": 2}])
@pytest.mark.parametrize("n_hits", [1, 50, 400])
def test_a_batch_too_large_for_memory_is_answered_in_pieces(index, monkeypatch, options, n_hits):
    queries = [query_of(page) for page in PAGES[::5]]
    expected = [answer for _, answer in index.search_many(queries, 30, **options)]
    monkeypatch.setattr(search, "_HITS_AT_ONCE", n_hits)
    monkeypatch.setattr(search, "_MATCHES_AT_ONCE", 3 * n_hits)
    assert [answer for _, answer in index.search_many(queries, 30, **options)] == expected


def test_matches_of_many_segments_are_not_held_all_at_once(index, monkeypatch):
    queries = [query_of(page) for page in PAGES[::5]]
    expected = search_segments(index.segments * 20, queries, SearchOptions(k=30))
    n_merged = []

    def merge(tables, options):
        n_merged.append(sum(len(table.scores) for table in tables))
        return merge_tables(tables, options)

    n_at_once = 30 * len(queries)  # as many matches as a block may have
    monkeypatch.setattr(search, "_MATCHES_AT_ONCE", n_at_once)
    monkeypatch.setattr(search, "merge_tables", merge)
    assert search_segments(index.segments * 20, queries, SearchOptions(k=30)) == expected
    assert len(n_merged) > 1
    assert max(n_merged) <= (search._TABLES_AT_ONCE + 1) * n_at_once


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=200))
def test_hits_are_gathered_by_pair(hits):
    queries, shapes = (np.array(column, np.uint32) for column in zip(*hits, strict=True))
    of_query, of_shape, indptr, entries = pair_hits(queries, shapes, 6)
    pairs = list(zip(of_query.tolist(), of_shape.tolist(), strict=True))
    assert sorted(pairs) == sorted(set(hits))
    assert of_query.tolist() == sorted(of_query.tolist())
    for i, pair in enumerate(pairs):
        expected = [number for number, hit in enumerate(hits) if hit == pair]
        assert entries[indptr[i] : indptr[i + 1]].tolist() == expected


@pytest.fixture(scope="module", autouse=True)
def _batch_index(index):
    global BATCH_INDEX  # Hypothesis gives no fixtures to a test of many examples
    BATCH_INDEX = index


@pytest.mark.parametrize("memory", [0, 5_000, 2**28])
def test_memory_stays_within_its_bound_and_changes_no_answer(index, memory):
    bounded = open_index(index.url, memory=memory)
    for page in PAGES[::7]:
        assert bounded.search(query_of(page)) == index.search(query_of(page))
        assert bounded.cache.n_bytes <= memory


def test_pages_are_found_by_id(index):
    page = PAGES[17]
    answer = index.search(f"id:{page['page_id']}", 3)
    assert found(answer) == brute_force(PAGES, query_of(page), k=3)
    assert [match.is_query for match in answer.matches if match.page_id == page["page_id"]] == [True]
    with pytest.raises(PageError, match="there is no page"):
        index.search(f"id:{page['page_id'].split('-')[0]}-{10**6}")


def test_a_capped_bucket_is_reported(index):
    query = query_of(PAGES[0])
    capped = index.search(query, 100, bucket_cap=1)
    assert capped.n_capped > 0
    assert capped.n_candidates < index.search(query, 100).n_candidates
    assert index.search(query, 100, bucket_cap=10**6) == index.search(query, 100)


@pytest.mark.parametrize(
    "options", [{"k": 0}, {"metric": "nearest"}, {"one_per": "page"}, {"bucket_cap": 0}], ids=lambda o: next(iter(o))
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ConfigError):
        SearchOptions(**options)


def test_hosts_and_domains():
    assert host_of("http://[::1") == ""
    assert domain_of("https://a.b.example.com/") == "example.com"
    assert domain_of("https://a.b.example.co.uk/") == "example.co.uk"
    assert domain_of("http://[::1]:80/") == "::1"
    assert domain_of("http://localhost/") == "localhost"
    with pytest.raises(ConfigError, match="looks like"):
        read_date("yesterday")


@given(st.lists(st.integers(0, 2**32 - 1), max_size=300), st.data())
def test_chunks_are_read_as_zarr_reads_them(tmp_path_factory, values, data):
    folder = tmp_path_factory.mktemp("chunks")
    writer = ArrayWriter(folder / "a", (), np.uint32, chunk_bytes=64)
    writer.append(np.array(values, np.uint32))
    writer.close()
    peer = zarr.open_array(folder / "a")[:]
    array = ChunkedArray(Store(str(folder)), "a", Cache(8 * PIECE_BYTES))  # some chunks are kept, others gone
    assert array.read().tolist() == peer.tolist()
    ranges = data.draw(st.lists(st.tuples(st.integers(0, len(values)), st.integers(0, 40)), max_size=8))
    starts = np.array([start for start, _ in ranges], np.int64)
    stops = np.array([min(start + length, len(values)) for start, length in ranges], np.int64)
    expected = [value for a, b in zip(starts, stops, strict=True) for value in peer[a:b].tolist()]
    assert array.read_ranges(starts, stops).tolist() == expected
    if values:
        rows = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20)), np.int64)
        assert array.take(rows).tolist() == peer[rows].tolist()


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=lambda dtype: dtype.__name__)
def test_arrays_have_the_type_they_were_made_for(tmp_path, dtype):
    writer = ArrayWriter(tmp_path / "a", (), dtype)
    writer.append(np.array([2**31], np.uint32))
    writer.append(np.array([2**31 + 1], np.uint64))
    writer.close()
    array = zarr.open_array(tmp_path / "a")
    assert array.dtype == dtype
    assert array[:].tolist() == [2**31, 2**31 + 1]


def test_a_query_loads_no_more_than_it_needs(index):
    code = f"""
import sys
from treesim_dask.api import open_index
open_index({index.url!r}).search("id:{PAGES[0]["page_id"]}")
print([name for name in ("dask", "distributed", "pandas", "zarr", "aiohttp", "warcio") if name in sys.modules])
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def agree(page, query, n_rows):
    """Whether a page agrees with the query in the first rows of a band, from the signatures."""
    signature = query_of(page).signature.reshape(CONFIG.n_bands, -1)
    return (signature[:, :n_rows] == query.signature.reshape(CONFIG.n_bands, -1)[:, :n_rows]).all(axis=1).any()


def test_too_few_matches_are_filled_with_pages_that_agree_in_fewer_rows(index):
    for page in PAGES[::17]:
        query = query_of(page)
        n_strict = len(index.search(query, len(PAGES)).matches)
        assert index.search(query, n_strict, fill=True).n_agree is None
        filled = index.search(query, n_strict + 1, fill=True)
        relaxed = [other for other in PAGES if agree(other, query, 1)]  # two rows a band: one is the only step
        assert filled.n_agree == 1
        scores = sorted((match.score for match in filled.matches), reverse=True)
        exact = METRICS["log-cosine"].scores(
            measure_overlap(query.shape, shape_batch([other["shape"] for other in relaxed]))
        )
        assert scores == sorted(exact.tolist(), reverse=True)[: n_strict + 1]


def test_matches_carry_the_probability_of_being_found(index):
    for match in index.search(query_of(PAGES[3]), 20).matches:
        expected = 1 - (1 - match.jaccard**CONFIG.n_rows) ** CONFIG.n_bands
        assert match.probability == pytest.approx(expected, abs=1e-8)


def test_a_source_indexed_anew_is_seen_after_a_refresh(tmp_path):
    store = write_index(tmp_path / "index", SOURCES)
    index = open_index(store.url)
    index.search(query_of(PAGES[0]))
    url = next(iter(SOURCES))
    changed = {**SOURCES, url: SOURCES[url][::-1]}
    write_source(store, url, changed[url])
    index.refresh()
    for page in PAGES[::11]:
        assert found(index.search(query_of(page))) == brute_force(all_pages(changed), query_of(page))


@pytest.mark.parametrize("memory", [0, 2**14, 2**16, 2**29])
@pytest.mark.parametrize("n_asked", [0, 1, 20])
def test_an_open_index_never_mixes_a_source_with_what_was_indexed_anew(tmp_path, memory, n_asked):
    store = write_index(tmp_path / "index", SOURCES)
    index = open_index(store.url, memory=memory)
    for page in PAGES[:n_asked]:
        index.search(query_of(page))
    # what a query without candidates leaves behind: the band tables alone are in memory
    for segment in index.segments:
        segment.find_hits(np.stack([query_of(page).keys for page in PAGES]))
    url = next(iter(SOURCES))
    changed = {**SOURCES, url: SOURCES[url][:0:-1]}
    write_source(store, url, changed[url])
    states = [all_pages(SOURCES), all_pages(changed)]
    is_new = False
    for page in PAGES[::7]:
        # from memory as it was opened, or as it is now, and from then on
        expected = [brute_force(pages, query_of(page)) for pages in states]
        answer = found(index.search(query_of(page)))
        assert answer in expected[is_new:]
        is_new |= answer != expected[0]
    assert len(index.pages) == len(states[1])


def test_segments_of_another_index_are_refused_by_name(tmp_path):
    store = write_index(tmp_path / "index", SOURCES)
    other = write_index(tmp_path / "other", random_sources(seed=2), IndexConfig(n_bands=6, n_rows=2, seed=7))
    name = other.list_names("segments")[0]
    Path(other.path(f"segments/{name}")).rename(store.path(f"segments/{name}"))
    for ask in (open_index, compact):
        with pytest.raises(IndexFormatError, match=f"{name} was built with other parameters"):
            ask(store.url)


def test_a_row_beyond_what_an_id_can_name_is_no_page_of_the_next_source(tmp_path):
    store = write_index(tmp_path / "index", SOURCES)
    compact(store.url)
    index = open_index(store.url)
    origins = index.segments[0].origins
    assert index.search(f"id:{origins[1]}-1", 1).matches[0].page_id == f"{origins[1]}-1"
    with pytest.raises(PageError, match="there is no page"):
        index.search(f"id:{origins[0]}-{2**32 + 1}")


def test_index_against_index(index, tmp_path):
    other = random_sources(seed=1, n_sources=1, n_pages=20)
    write_index(tmp_path / "other", other)
    answers = list(index.search_batch(str(tmp_path / "other"), 4))
    assert [query.page_id for query, _ in answers] == [page["page_id"] for page in all_pages(other)]
    for (_, answer), page in zip(answers, all_pages(other), strict=True):
        assert found(answer) == brute_force(PAGES, query_of(page), k=4)
    write_index(tmp_path / "foreign", other, IndexConfig(n_bands=3, n_rows=2))
    with pytest.raises(ConfigError, match="other parameters: n_bands 3 and 6"):
        list(index.search_batch(str(tmp_path / "foreign")))


def test_a_list_of_pages(index, tmp_path):
    html = tmp_path / "page.html"
    html.write_text("<html><body>" + "<div><p>text</p></div>" * 20 + "</body></html>")
    names = tmp_path / "pages.txt"
    names.write_text(f"id:{PAGES[5]['page_id']}\n\n{html}\n")
    first, second = index.search_batch(str(names), 3)
    assert first[1] == index.search(f"id:{PAGES[5]['page_id']}", 3)
    assert second[0].place == (str(html), 0)
    assert second[1].matches == index.search(str(html), 3).matches
    names.write_text("\n")
    with pytest.raises(PageError, match="is empty"):
        list(index.search_batch(str(names)))


def test_a_list_is_read_as_that_of_a_build_and_goes_on_behind_what_cannot_be_read(index, tmp_path, capsys, monkeypatch):
    html = "<html><body>" + "<div><p>text</p></div>" * 20 + "</body></html>"
    for name in ("a", "b"):
        (tmp_path / f"{name}.html").write_text(html)
    page_id = f"id:{PAGES[5]['page_id']}"
    lines = ["# pages", "b.html", page_id, "http://127.0.0.1:1/", "gone.html", "", "a.html", "warc:gone.warc#0"]
    names = tmp_path / "pages.txt.gz"
    names.write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.chdir("/")
    failed = []
    answers = list(index.search_batch(names, 3, on_failure=lambda name, error: failed.append(name)))
    b, a = str(tmp_path / "b.html"), str(tmp_path / "a.html")
    assert [query.place[0] if query.place else query.name for query, _ in answers] == [b, page_id, a]
    assert failed == ["http://127.0.0.1:1/", str(tmp_path / "gone.html"), f"warc:{tmp_path / 'gone.warc'}#0"]
    with pytest.raises(TreesimError, match=r"127\.0\.0\.1"):
        list(index.search_batch(names))
    assert main(["query", "--batch", str(names), "--index", index.url, "--quiet"]) == 1
    out, err = capsys.readouterr()
    written = [json.loads(line) for line in out.splitlines()]
    assert [line["query"] for line in written if "error" in line] == failed
    assert len(written) == 6
    assert err.count("not asked: ") == 3

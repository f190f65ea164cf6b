import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from indexes import found

from treesim_dask.api import open_index
from treesim_dask.choice import InputChoice
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.dataflow import BuildJob, index_source
from treesim_dask.demo import write_demo_crawl
from treesim_dask.errors import SourceError
from treesim_dask.index.manifest import write_manifest
from treesim_dask.index.store import Store

COLUMNS = {"filename": "warc_filename", "offset": "warc_record_offset", "length": "warc_record_length"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An index of whole files, and every page of it as a row."""
    folder = tmp_path_factory.mktemp("whole")
    index = build(folder / "index", write_demo_crawl(folder / "crawl", n_pages=60, n_files=2))
    rows = [row for segment in index.segments for row in segment.read_pages().to_pylist()]
    return index, [{"url": r["url"], "filename": r["warc"], "offset": r["offset"], "length": r["length"]} for r in rows]


def build(folder, inputs, page_filter=None):
    url = str(folder)
    write_manifest(Store(url), IndexConfig())
    for source in InputChoice([str(name) for name in inputs]).find_sources():
        index_source(source, BuildJob(url, IndexConfig(), page_filter or PageFilter(), False, {}, {}))
    return open_index(url)


def write_extract(path, rows):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([{COLUMNS.get(k, k): v for k, v in row.items()} for row in rows]), path)
        return path
    lines = [json.dumps({**row, "offset": str(row["offset"]), "length": str(row["length"])}) for row in rows]
    if ".cdxj" in path.name:
        lines = [f"example,www)/ 20260105000000 {line}" for line in lines]
    text = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(text[:100]) + gzip.compress(text[100:]) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["some.cdxj", "some.cdxj.gz", "some.jsonl", "some.parquet"])
def test_an_extract_indexes_just_its_pages(whole, tmp_path, name):
    index, rows = whole
    chosen = rows[::3]
    extract = build(tmp_path / "index", [write_extract(tmp_path / name, [*chosen, chosen[0]])])
    assert extract.info.n_segments == 2
    columns = ["url", "warc", "offset", "length", "digest", "n_nodes", "date"]
    pages = [row for segment in extract.segments for row in segment.read_pages(columns=columns).to_pylist()]
    every = [row for segment in index.segments for row in segment.read_pages(columns=columns).to_pylist()]
    wanted = {(row["filename"], row["offset"]) for row in chosen}
    key = lambda row: (row["warc"], row["offset"])  # noqa: E731
    assert sorted(pages, key=key) == sorted((row for row in every if key(row) in wanted), key=key)
    asked = open_index(index.url).search(f"warc:{chosen[1]['filename']}#{chosen[1]['offset']}", 1)
    assert (
        found(extract.search(f"warc:{chosen[1]['filename']}#{chosen[1]['offset']}", 1))[0][1] == asked.matches[0].score
    )


def test_places_without_a_page_are_counted(whole, tmp_path):
    _, rows = whole
    bad = {**rows[0], "offset": rows[0]["offset"] + 1}
    extract = build(tmp_path / "index", [write_extract(tmp_path / "some.cdxj", [bad, rows[0]])])
    assert (extract.info.n_pages, extract.info.skipped) == (1, {"unreadable": 1})


def test_an_extract_follows_the_page_filter(whole, tmp_path):
    _, rows = whole
    path = write_extract(tmp_path / "some.cdxj", rows[:5])
    extract = build(tmp_path / "index", [path], PageFilter(url_pattern=f"^{rows[2]['url']}$".replace("?", r"\?")))
    assert (extract.info.n_pages, extract.info.skipped) == (1, {"url-pattern": 4})


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        '{"filename": "a.warc.gz"}',
        "",
        '{"filename": "a.warc.gz", "offset": 1e999, "length": 1}',
        '{"filename": ' + "[" * 100_000,
    ],
    ids=["text", "part", "nothing", "infinite", "deep"],
)
def test_what_is_no_extract_is_refused(tmp_path, text):
    (tmp_path / "some.cdxj").write_text(text)
    with pytest.raises(SourceError, match=r"filename, offset and length|is empty"):
        InputChoice([str(tmp_path / "some.cdxj")]).find_sources()


@pytest.mark.parametrize("place", [(-1, 9), (0, 0), (0, -5), (0, 2**40)])
def test_an_impossible_place_is_refused(tmp_path, place):
    path = write_extract(tmp_path / "some.cdxj", [{"filename": "a.warc.gz", "offset": place[0], "length": place[1]}])
    with pytest.raises(SourceError, match=r"line 1 .*expected an offset of 0 or more"):
        InputChoice([str(path)]).find_sources()


def test_only_a_line_end_ends_a_line(tmp_path):
    path = tmp_path / "some.jsonl"
    path.write_text('{"url": "http://a.example/\u2028\x85", "filename": "/a.warc.gz", "offset": 3, "length": 9}\r\n')
    assert InputChoice([str(path)]).find_sources()[0].members == ("/a.warc.gz", "3+9")


def test_a_cut_extract_is_refused(tmp_path):
    path = write_extract(tmp_path / "some.cdxj.gz", [{"filename": "a.warc.gz", "offset": 0, "length": 9}])
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(SourceError, match="breaks off"):
        InputChoice([str(path)]).find_sources()


def test_a_table_without_places_is_refused(tmp_path):
    pq.write_table(pa.table({"url": ["a"]}), tmp_path / "some.parquet")
    with pytest.raises(SourceError, match="warc_record_offset"):
        InputChoice([str(tmp_path / "some.parquet")]).find_sources()

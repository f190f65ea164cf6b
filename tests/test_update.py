import json
from pathlib import Path

import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from indexes import all_pages, brute_force, found, query_of, random_sources, write_index, write_source

from treesim_dask import build, compact, merge, open_index
from treesim_dask.cli import main
from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.query.options import SearchOptions

SOURCES = random_sources(seed=5, n_sources=3, n_pages=30)
PAGES = all_pages(SOURCES)
HALVES = [dict(list(SOURCES.items())[:2]), dict(list(SOURCES.items())[1:])]  # the second source is in both


@pytest.fixture
def url(tmp_path):
    return write_index(tmp_path / "index", SOURCES).url


def assert_index_is(url, pages):
    index = open_index(url)
    for page in PAGES[::9]:
        assert found(index.search(query_of(page), 20)) == brute_force(pages, query_of(page), k=20)


@pytest.mark.parametrize("compacted", [(), (0,), (1,), (0, 1)])
def test_merged_indexes_equal_one_built_from_both(tmp_path, compacted):
    urls = [write_index(tmp_path / f"half{i}", half).url for i, half in enumerate(HALVES)]
    for i in compacted:
        compact(urls[i])
    target = str(tmp_path / "all")
    merge(urls, target)
    assert_index_is(target, PAGES)
    assert merge(urls, target) == 0
    compact(target)
    assert_index_is(target, PAGES)
    assert open_index(target).check() == []


def test_deleted_pages_stay_deleted_in_a_merged_index(tmp_path):
    urls = [write_index(tmp_path / f"half{i}", half).url for i, half in enumerate(HALVES)]
    gone = PAGES[3]["page_id"]
    assert sum(open_index(url).delete(page_ids=[gone]) for url in urls) >= 1
    merge(urls, str(tmp_path / "all"))
    assert_index_is(str(tmp_path / "all"), [page for page in PAGES if page["page_id"] != gone])


def test_only_like_indexes_are_merged(tmp_path, url):
    other = write_index(tmp_path / "other", SOURCES, IndexConfig(n_bands=3, n_rows=2))
    with pytest.raises(ConfigError, match="n_bands 3 and 6"):
        merge([url, other.url], str(tmp_path / "all"))
    changed = write_index(tmp_path / "changed", SOURCES)
    write_source(changed, next(iter(SOURCES)), PAGES[:3])
    with pytest.raises(ConfigError, match="in different states"):
        merge([changed.url], url)
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize(
    ("options", "is_gone"),
    [
        ({"urls": [PAGES[0]["url"]]}, lambda page: page["url"] == PAGES[0]["url"]),
        ({"hosts": ["site2.example"]}, lambda page: ".site2.example/" in page["url"]),
        ({"page_ids": ["id:" + PAGES[5]["page_id"]]}, lambda page: page["page_id"] == PAGES[5]["page_id"]),
        ({"warcs": ["5-1.warc"]}, lambda page: page["warc"].endswith("/5-1.warc")),
    ],
    ids=["url", "host", "page", "warc"],
)
def test_deleting_takes_just_the_pages_that_are_meant(url, options, is_gone):
    left = [page for page in PAGES if not is_gone(page)]
    assert open_index(url).delete(**options) == len(PAGES) - len(left) > 0
    assert_index_is(url, left)


@pytest.mark.parametrize("name", ["urls", "hosts", "page_ids", "warcs"])
def test_a_plain_string_is_no_list_of_pages_to_delete(url, name):
    with pytest.raises(ConfigError, match=f"{name} must be a list"):
        open_index(url).delete(**{name: PAGES[0]["url"]})
    assert_index_is(url, PAGES)


def test_options_do_not_print_passwords():
    assert "hunter2" not in repr(SearchOptions(storage_options={"password": "hunter2"}))


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_export_holds_all_there_is(url, tmp_path, file_format, is_compacted):
    if is_compacted:
        compact(url, shapes_per_part=20)
    read = pq.read_table if file_format == "parquet" else pyarrow.feather.read_table
    n_rows = open_index(url).export(str(tmp_path / "tables"), file_format)
    tables = {name: read(tmp_path / "tables" / f"{name}.{file_format}").to_pylist() for name in n_rows}
    assert {name: len(rows) for name, rows in tables.items()} == n_rows
    shapes = {row["shape"]: dict(zip(row["branches"], row["counts"], strict=True)) for row in tables["shapes"]}
    exported = {row["page_id"]: (row["url"], shapes[row["shape"]]) for row in tables["pages"]}
    assert exported == {page["page_id"]: (page["url"], page["shape"]) for page in PAGES}
    keys = {(row["shape"], row["band"]): row["bucket"] for row in tables["bands"]}
    shape_of = {row["page_id"]: row["shape"] for row in tables["pages"]}
    signatures = {row["shape"]: row["signature"] for row in tables["shapes"]}
    for page in PAGES[::7]:
        query, shape = query_of(page), shape_of[page["page_id"]]
        assert [keys[shape, band] for band in range(6)] == query.keys.tolist()
        assert signatures[shape] == query.signature.tolist()


def test_an_export_goes_to_a_folder_of_its_own_and_is_whole(url, tmp_path, tree_digest, capsys):
    before = tree_digest(url)
    for place in ("s3://bucket/tables", "", url):
        assert main(["export", url, "--to", place]) == 2
        assert "folder" in capsys.readouterr().err
    assert tree_digest(url) == before
    index = open_index(url)
    Path(url, "segments", index.segments[-1].segment_id, "bands.parquet").unlink()  # breaks off at the very end
    with pytest.raises(FileNotFoundError):
        index.export(tmp_path / "tables")
    assert list((tmp_path / "tables").iterdir()) == []


def test_the_commands(url, tmp_path, capsys):
    page = PAGES[0]
    assert main(["query", f"id:{page['page_id']}", "--index", url, "--json", "-k", "3", "--one-per-host"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    site = lambda page: page["url"].split("/")[2]  # noqa: E731
    expected = brute_force(PAGES, query_of(page), k=3, site=site)
    assert [(match["page_id"], match["score"]) for match in answer["matches"]] == expected
    assert main(["compact", url, "--quiet"]) == 0
    assert "3 to 1" in capsys.readouterr().out
    assert main(["query", "--batch", url, "--index", url, "-k", "1", "--quiet"]) == 0
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == len(PAGES)
    matches = tmp_path / "matches.parquet"
    assert main(["query", "--batch", url, "--index", url, "-k", "2", "--quiet", "--parquet", str(matches)]) == 0
    assert pq.read_table(matches).num_rows == 2 * len(PAGES)
    assert main(["delete", url, "--host", "site1.example"]) == 0
    assert main(["delete", url, "--host", "site1.example"]) == 1
    assert main(["delete", url]) == 2
    assert main(["merge", url, "--index", str(tmp_path / "copy")]) == 0
    assert main(["export", str(tmp_path / "copy"), "--to", str(tmp_path / "tables")]) == 0
    assert main(["check", str(tmp_path / "copy")]) == 0
    assert main(["query", "--index", url]) == 2
    assert "name a page" in capsys.readouterr().err


def _indexed_files(index):
    return sorted(Path(url).name for url in open_index(index).pages.compute()["url"])


def test_html_files_named_one_by_one_are_indexed_once_however_they_are_named(client, tmp_path):
    folder, index = tmp_path / "saved", str(tmp_path / "index")
    folder.mkdir()
    for n in range(4):
        (folder / f"{n}.html").write_text(f"<title>{n}</title>" + f"<div><p>page {n}</div>" * (30 + n))
        build(str(folder / "*.html"), index, client=client)
        assert _indexed_files(index) == [f"{i}.html" for i in range(n + 1)]
    compact(index)
    every = [f"{i}.html" for i in range(4)]
    for inputs in ([str(folder)], [str(folder / "0.html")], [str(folder / f"{i}.html") for i in (1, 3)], [str(folder)]):
        build(inputs, index, client=client)
        assert _indexed_files(index) == every
    (folder / "0.html").write_text("<ul><li>another page altogether</ul>" * 20)
    build(str(folder), index, client=client)
    assert _indexed_files(index) == every

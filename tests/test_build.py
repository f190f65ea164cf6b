import os
import shutil
from random import Random

import dask
import pytest
from test_branches import REPORT_PAGE, REPORT_TABLE, table

from treesim_dask import IndexConfig, build, open_index
from treesim_dask.clients import open_client
from treesim_dask.config import PageFilter
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import ConfigError, IndexFormatError, StorageError
from treesim_dask.index.segment import list_segments, segment_id_of
from treesim_dask.index.store import Store
from treesim_dask.index.writer import SegmentWriter
from treesim_dask.types import Source


def test_a_build_counts_what_it_saw(demo_index, demo_archives):
    info = open_index(demo_index).info
    assert (info.n_segments, info.n_pages) == (4, 400)
    assert info.n_shapes <= 400
    assert {"status", "content-type", "too-short"} <= info.skipped.keys()


def test_the_worked_example_of_the_report_from_html_to_stored_vector(client, tmp_path):
    (tmp_path / "report.html").write_bytes(REPORT_PAGE)
    build(str(tmp_path / "report.html"), str(tmp_path / "index"), client=client)
    (segment,) = open_index(str(tmp_path / "index")).segments
    assert table(segment.read_all_shapes()) == REPORT_TABLE


def test_one_worker_and_shuffled_input_give_the_same_bytes(demo_archives, demo_index, tmp_path, tree_digest):
    shuffled = list(demo_archives)
    Random(4).shuffle(shuffled)
    with open_client(workers=1) as alone:
        build(shuffled, str(tmp_path / "one"), client=alone)
    assert tree_digest(tmp_path / "one") == tree_digest(demo_index)


def test_building_twice_adds_nothing(demo_archives, demo_index, client, tmp_path, tree_digest):
    shutil.copytree(demo_index, tmp_path / "copy")
    report = build(demo_archives, str(tmp_path / "copy"), client=client)
    assert (report.n_done, report.n_already_indexed) == (0, 4)
    assert tree_digest(tmp_path / "copy") == tree_digest(demo_index)


def test_appending_equals_building_at_once(demo_archives, demo_index, client, tmp_path, tree_digest):
    for part in (demo_archives[2:], demo_archives[:3]):
        build(part, str(tmp_path / "parts"), client=client)
    assert tree_digest(tmp_path / "parts") == tree_digest(demo_index)


def test_an_existing_index_keeps_its_parameters(demo_archives, client, tmp_path):
    url = str(tmp_path / "index")
    build(demo_archives[0], url, config={"n_bands": 8, "n_rows": 2}, client=client)
    report = build(demo_archives[1], url, client=client)
    assert report.n_done == 1
    assert open_index(url).config == IndexConfig(n_bands=8, n_rows=2)
    with pytest.raises(ConfigError, match="other parameters: n_bands 8 and 9"):
        build(demo_archives[2], url, config={"n_bands": 9}, client=client)
    assert open_index(url).info.n_segments == 2


def test_a_changed_source_is_indexed_anew(demo_archives, client, tmp_path):
    archive, url = tmp_path / "a.warc.gz", str(tmp_path / "index")
    shutil.copy(demo_archives[0], archive)
    build(str(archive), url, client=client)
    first = open_index(url).info.n_pages
    with archive.open("ab") as file:
        file.write(b"".join(open_bytes(path) for path in demo_archives[1:2]))
    report = build(str(archive), url, client=client)
    assert report.n_done == 1
    assert open_index(url).info.n_pages == first + 100
    assert open_index(url).check() == []


def open_bytes(path):
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def test_another_filter_indexes_anew(demo_archives, client, tmp_path):
    url = str(tmp_path / "index")
    build(demo_archives[0], url, client=client)
    host = next(iter(open_index(url).pages["url"].compute())).split("/")[2]
    report = build(demo_archives[0], url, page_filter=PageFilter(hosts=(host,)), client=client)
    assert report.n_done == 1
    urls = open_index(url).pages["url"].compute()
    assert len(urls) > 0
    assert {u.split("/")[2] for u in urls} == {host}


def test_a_growing_folder_of_html_is_neither_lost_nor_doubled(client, tmp_path):
    folder, url = tmp_path / "pages", str(tmp_path / "index")
    for n_files in (3, 1500, 2500):
        for i in range(n_files):
            page = folder / f"{i % 7}" / f"{i}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(f"<title>{i}</title>" + "<p>text</p>" * (i % 30) + "x" * 64)
        build(str(folder), url, client=client)
        urls = open_index(url).pages["url"].compute().tolist()
        assert len(urls) == len(set(urls)) == n_files


def test_limit_and_sample(demo_archives, client, tmp_path):
    build(demo_archives, str(tmp_path / "limit"), limit=2, client=client)
    sources = {s.summary.source_url for s in open_index(str(tmp_path / "limit")).segments}
    assert sources == set(demo_archives[:2])
    build(demo_archives, str(tmp_path / "sample"), sample=2, sample_seed=7, client=client)
    assert open_index(str(tmp_path / "sample")).info.n_segments == 2


def test_segments_without_a_manifest_are_not_built_upon(demo_archives, demo_index, client, tmp_path):
    shutil.copytree(demo_index, tmp_path / "copy")
    (tmp_path / "copy" / "index.json").unlink()
    with pytest.raises(IndexFormatError, match=r"no index\.json"):
        build(demo_archives, str(tmp_path / "copy"), client=client)


def test_the_lazy_views_hold_everything(demo_index):
    index = open_index(demo_index)
    pages = index.pages.compute()
    assert len(pages) == 400
    assert set(pages.columns) >= {"url", "date", "warc", "offset", "length", "digest", "shape", "segment"}
    signatures = index.signatures
    assert signatures.shape == (index.info.n_shapes, index.config.n_hashes)
    assert signatures[:5].compute().dtype == "uint32"
    assert "400" in repr(index)
    assert "<table>" in index._repr_html_()


def test_a_part_of_an_indexed_folder_is_refused(client, tmp_path):
    folder, url = tmp_path / "pages", str(tmp_path / "index")
    folder.mkdir()
    for i in range(20):
        (folder / f"{i}.html").write_text(f"<title>{i}</title>" + "<p>text</p>" * i + "x" * 64)
    build(str(folder), url, client=client)
    for part in ({"limit": 5}, {"sample": 5}):
        with pytest.raises(ConfigError, match="in the index already"):
            build(str(folder), url, client=client, **part)
    assert open_index(url).info.n_pages == 20


def test_a_relative_index_lies_where_the_caller_stands(demo_archives, client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the workers stand elsewhere
    build(demo_archives[0], "my.index", client=client)
    assert open_index(str(tmp_path / "my.index")).info.n_pages == 100


def test_a_build_leaves_the_half_written_segments_of_others_alone(demo_archives, demo_index, client, tmp_path):
    """Another process at work on the same file must be able to publish it whole."""
    shutil.copytree(demo_index, tmp_path / "index")
    store = Store(str(tmp_path / "index"))
    mine = store.make_staging(segment_id_of(demo_archives[0]))
    gone = mine.with_name(mine.name.replace(f".{os.getpid()}.", f".{2**22 + 1}."))
    gone.mkdir()
    build(demo_archives, store.url, client=client)
    assert (mine.exists(), gone.exists()) == (True, False)
    assert open_index(store.url).check(repair=True) == []
    assert mine.exists()


def test_a_segment_whose_files_vanish_is_not_published(tmp_path):
    store = Store(str(tmp_path))
    with SegmentWriter(store, Source("a", "archive", ("a",)), IndexConfig(), PageFilter()) as writer:
        for path in tmp_path.rglob("pages.parquet"):
            path.unlink()
        with pytest.raises(StorageError, match=r"pages\.parquet is gone"):
            writer.publish()
    assert list_segments(store) == []


@pytest.mark.parametrize("option", [{"workers": 1}, {"scheduler": "tcp://x:1"}, {"cluster": "slurm"}, {"tls": True}])
def test_a_shard_goes_without_a_cluster(demo_archives, tmp_path, option):
    with pytest.raises(ConfigError, match="in this process"):
        build(demo_archives, str(tmp_path / "index"), shard=(1, 2), **option)


def test_unknown_parameters_are_named(demo_archives, tmp_path):
    with pytest.raises(ConfigError, match="no index parameter 'bands'"):
        build(demo_archives, str(tmp_path / "index"), config={"bands": 3})


def test_whatever_one_file_brings_about_the_others_are_indexed(demo_archives, tmp_path, monkeypatch):
    n_calls = []

    def break_once(pages, config):
        n_calls.append(1)
        if len(n_calls) == 1:
            raise RuntimeError("a bug")
        return shape_pages(pages, config)

    monkeypatch.setattr("treesim_dask.dataflow.shape_pages", break_once)
    report = build(demo_archives, str(tmp_path / "index"), shard=(1, 1))
    assert [failure.reason for failure in report.failures] == ["RuntimeError: a bug"]
    assert report.n_done == 3


def test_workers_run_with_the_settings_of_a_build(client):
    interval = client.run(dask.config.get, "distributed.worker.profile.interval")
    n_threads = client.run(os.environ.get, "OMP_NUM_THREADS")
    assert set(interval.values()) == {"100ms"}
    assert set(n_threads.values()) == {"1"}

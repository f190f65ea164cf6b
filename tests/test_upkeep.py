"""Compactions, merges, repairs and builds beside each other, and killed anywhere."""

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import assert_refused, run
from hypothesis import given
from hypothesis import strategies as st
from indexes import all_pages, random_sources, write_index, write_source
from kills import Killed, kill_at, kill_at_call

from treesim_dask import build, compact, merge, open_index
from treesim_dask.api import check
from treesim_dask.errors import IndexFormatError, SourceError, StorageError
from treesim_dask.index import store as store_module
from treesim_dask.index.deletion import delete_sources
from treesim_dask.index.segment import segment_id_of
from treesim_dask.index.store import UPKEEP, Store
from treesim_dask.index.tombstones import Tombstones, _from_runs, _to_runs, read_tombstones, write_tombstone

SOURCES = random_sources(seed=11, n_sources=3, n_pages=20)
URLS = list(SOURCES)


@pytest.fixture
def store(tmp_path):
    return write_index(tmp_path / "index", SOURCES)


def page_ids(url):
    return sorted(name for s in open_index(url).segments for name in s.page_ids(s.page_origins(s.live_rows())))


def ids_of(sources):
    return sorted(page["page_id"] for page in all_pages(sources))


EVERY = ids_of(SOURCES)


def test_a_compaction_at_work_is_neither_a_problem_nor_repaired_away(store):
    steps = []

    def look(step):
        steps.append(step)
        assert check(store.url) == check(store.url, quick=True) == []
        with pytest.raises(StorageError, match="a compaction of"):
            check(store.url, repair=True)
        with pytest.raises(StorageError, match="a compaction of"):
            merge([store.url], store.url)

    compact(store.url, shapes_per_part=20, on_step=look)
    assert len(steps) == 4
    assert page_ids(store.url) == EVERY
    assert check(store.url) == []


@pytest.mark.parametrize("name", ["parts/00000", "bands/00000.parquet"])
def test_files_that_vanish_under_a_compaction_are_not_published(store, name):
    def remove(step):
        if step == "publishing":
            (path,) = Path(store.url).glob(f"segments/compacted-*/{name}")
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    with pytest.raises(IndexFormatError, match="check --repair"):
        compact(store.url, on_step=remove)
    assert page_ids(store.url) == EVERY
    assert check(store.url, repair=True) == []
    compact(store.url)
    assert page_ids(store.url) == EVERY
    assert check(store.url) == []


HOLD = """
import sys, time
from treesim_dask.index.store import Store
with Store(sys.argv[1]).claim(sys.argv[2]):
    print("claimed", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("task", UPKEEP)
def test_upkeep_is_refused_beside_other_upkeep(store, tmp_path, capsys, task):
    other = write_index(tmp_path / "other", random_sources(seed=12, n_sources=1, n_pages=5))
    commands = [["compact", store.url], ["merge", other.url, "--index", store.url], ["check", store.url, "--repair"]]
    first = subprocess.Popen([sys.executable, "-c", HOLD, store.url, task], stdout=subprocess.PIPE)
    try:
        assert first.stdout.readline() == b"claimed\n"
        for command in commands:
            assert_refused(run(capsys, *command), f"{task} of {store.url} is running")
        assert page_ids(store.url) == EVERY
    finally:
        first.kill()
        first.communicate()
    for command in commands:
        assert run(capsys, *command)[0] == 0
    assert len(page_ids(store.url)) == len(EVERY) + 5
    assert check(store.url) == []


def test_what_is_not_ours_is_never_removed(store, small_crawl):
    names = ["staging/notes.txt", "staging/compacted-notes/a.txt", "segments/compacted-notes/a.txt"]
    for name in names:
        store.write_bytes(name, b"mine")
    compact(store.url)
    check(store.url, repair=True)
    paths = {problem.path: problem.is_orphan for problem in check(store.url)}
    assert paths == {"staging/notes.txt": False, "staging/compacted-notes": False, "segments/compacted-notes": False}
    index = Store(str(Path(store.url).with_name("built")))
    archives = sorted(small_crawl.rglob("*.warc.gz"))
    build(str(archives[0]), index.url, shard=(1, 1))
    index.write_bytes(names[0], b"mine")
    build(str(archives[1]), index.url, shard=(1, 1))
    assert all(store.exists(name) for name in names)
    assert index.exists(names[0])


def test_a_segment_published_while_repair_looks_is_kept(store, monkeypatch):
    """As on an object store, where a segment arrives file by file."""
    summary = next(Path(store.url).glob("segments/*/segment.json"))
    content = summary.read_bytes()
    summary.unlink()

    def publish(done, n_segments):
        summary.write_bytes(content)

    check(store.url, repair=True, on_segment=publish)
    assert page_ids(store.url) == EVERY


DELETED = {0: [EVERY[3], EVERY[25], EVERY[26]], 1: [EVERY[26], EVERY[30], EVERY[59]]}
SHARES = {"same": (URLS, URLS), "overlapping": (URLS[:2], URLS[1:])}
MOMENTS = ["never", "before", "after"]


def deleted_in(url, pages, compacted):
    """Delete pages of an index, which is compacted before or after that or not at all."""
    if compacted == "before":
        compact(url)
    gone = [page for page in pages if page in page_ids(url)]
    assert open_index(url).delete(page_ids=gone) == len(gone)
    if compacted == "after":
        compact(url)
    return gone


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("compacted", list(itertools.product(MOMENTS, MOMENTS)))
def test_deleted_in_one_is_deleted_in_the_merged_index(tmp_path, share, compacted):
    """The same pages as of an index built from both, from which both deletions are made, whatever was compacted."""
    urls, gone = [], set()
    for i, names in enumerate(SHARES[share]):
        urls.append(write_index(tmp_path / f"{i}", {name: SOURCES[name] for name in names}).url)
        gone.update(deleted_in(urls[i], DELETED[i], compacted[i]))
    left = [page for page in EVERY if page not in gone]
    merge(urls, str(tmp_path / "new"))
    merge(urls[1:], urls[0])
    for url in (str(tmp_path / "new"), urls[0]):
        assert page_ids(url) == left
        assert check(url) == []
        merge(urls[1:], url)
        compact(url)
        assert page_ids(url) == left
        assert check(url) == []


def test_of_two_compacted_segments_with_a_source_neither_brings_deleted_pages_back(tmp_path):
    """Which one keeps the source is decided by their names: several, so that both come first at times."""
    others = random_sources(seed=13, n_sources=8, n_pages=3)
    for n, (mine, theirs) in enumerate(zip(list(others)[::2], list(others)[1::2], strict=True)):
        urls = []
        for i, name in enumerate((mine, theirs)):
            sources = {URLS[0]: SOURCES[URLS[0]], name: others[name]}
            urls.append(write_index(tmp_path / f"{n}-{i}", sources).url)
        open_index(urls[0]).delete(warcs=[URLS[0]])
        for url in urls:
            compact(url)
        for target, other in (urls, urls[::-1]):
            copy = str(tmp_path / f"{n}-{Path(target).name}-copy")
            shutil.copytree(target, copy)
            merge([other], copy)
            assert page_ids(copy) == ids_of({name: others[name] for name in (mine, theirs)})


def test_a_source_taken_out_of_a_compacted_segment_may_come_again(store):
    compact(store.url)
    name = segment_id_of(URLS[0])
    delete_sources(store, [name])
    assert page_ids(store.url) == [page for page in EVERY if not page.startswith(name)]
    write_source(store, URLS[0], SOURCES[URLS[0]])  # just as it was
    assert page_ids(store.url) == EVERY
    compact(store.url)
    assert page_ids(store.url) == EVERY
    assert store.list_names("deleted") == []


def test_a_source_taken_out_of_one_index_stays_in_the_other(tmp_path):
    urls = [write_index(tmp_path / name, SOURCES).url for name in ("a", "b")]
    write_source(Store(urls[1]), "file:///more.warc", SOURCES[URLS[0]][:3])
    compact(urls[1])
    delete_sources(Store(urls[1]), [segment_id_of(URLS[0])])
    expected = sorted([*EVERY, *(page for page in page_ids(urls[1]) if page not in EVERY)])
    merge(urls[1:], urls[0])
    assert page_ids(urls[0]) == expected
    compact(urls[0])
    assert page_ids(urls[0]) == expected


def test_a_merge_killed_anywhere_is_finished_by_the_next(tmp_path, monkeypatch):
    urls = [
        write_index(tmp_path / f"{i}", {name: SOURCES[name] for name in SHARES["overlapping"][i]}).url for i in (0, 1)
    ]
    gone = deleted_in(urls[1], DELETED[1], "after") + deleted_in(urls[0], DELETED[0], "never")
    left = [page for page in EVERY if page not in gone]
    for n in itertools.count():
        copy = str(tmp_path / f"copy{n}")
        shutil.copytree(urls[0], copy)
        with monkeypatch.context() as patch:
            kill_at(patch, n)
            try:
                merge(urls[1:], copy)
                break
            except Killed:
                pass
        assert set(page_ids(copy)) <= set(left) | set(DELETED[1])
        merge(urls[1:], copy)
        assert page_ids(copy) == left
        assert [problem for problem in check(copy) if not problem.is_orphan] == []
    assert n >= 4


@pytest.mark.parametrize("was_there", [False, True])
def test_a_merge_that_fails_leaves_nothing(store, tmp_path, was_there):
    target = tmp_path / "target"
    if was_there:
        target.mkdir()
    open_index(store.url).delete(page_ids=EVERY[:1])
    min(Path(store.url).glob("segments/*/pages.parquet")).unlink()
    with pytest.raises(IndexFormatError, match=r"pages\.parquet is missing"):
        merge([store.url], str(target))
    assert target.exists() == was_there
    assert list(target.glob("*")) == []


EXCHANGE = [(Path, "replace"), (store_module.shutil, "rmtree")]


def test_a_source_is_not_lost_when_its_exchange_is_killed_and_it_cannot_be_read(small_crawl, tmp_path, monkeypatch):
    archive = tmp_path / "a.warc.gz"
    versions = sorted(small_crawl.rglob("*.warc.gz"))[:2]
    url, pages = str(tmp_path / "index"), []
    for version in reversed(versions):
        shutil.rmtree(url, ignore_errors=True)
        shutil.copy(version, archive)
        build(str(archive), url, shard=(1, 1))
        pages.append(sorted(open_index(url).pages.compute()["url"]))
    assert pages[0] != pages[1]
    for n in itertools.count():
        shutil.rmtree(url)
        shutil.copy(versions[0], archive)
        build(str(archive), url, shard=(1, 1))
        shutil.copy(versions[1], archive)
        with monkeypatch.context() as patch:
            kill_at_call(patch, n, EXCHANGE)
            try:
                build(str(archive), url, shard=(1, 1))
                break
            except Killed:
                pass
        archive.write_bytes(archive.read_bytes()[:-100])
        with pytest.raises(SourceError, match="damaged"):
            build(str(archive), url, strict=True, shard=(1, 1))
        assert sorted(open_index(url).pages.compute()["url"]) in pages
        assert check(url, repair=True) == []
        assert sorted(open_index(url).pages.compute()["url"]) in pages
        assert not Path(url, "staging").exists()
    assert n >= 3
    assert sorted(open_index(url).pages.compute()["url"]) == pages[0]


@given(st.sets(st.integers(0, 300)), st.integers(0, 2**32 - 400))
def test_deleted_rows_are_read_as_they_were_written(rows, first):
    rows = np.array(sorted(row + first for row in rows), np.uint64)
    runs = _to_runs(rows)
    assert _from_runs(runs).tolist() == rows.tolist()
    assert all(length > 0 for length in runs[1::2])


def test_a_whole_source_is_a_short_tombstone(tmp_path):
    store = Store(str(tmp_path))
    write_tombstone(store, Tombstones({("a", "b"): np.arange(10**6, dtype=np.uint64)}))
    write_tombstone(store, Tombstones({("a", "b"): np.array([3, 10**6 + 5], np.uint64)}))
    assert sum(len(store.read_bytes(f"deleted/{name}")) for name in store.list_names("deleted")) < 300
    (rows,) = read_tombstones(store).rows.values()
    assert rows.tolist() == [*range(10**6), 10**6 + 5]

"""What a build notices, replaces and leaves alone when its input or its index has changed, or a build has failed."""

import os
import threading

import pytest
from test_extracts import write_extract

from treesim_dask import IndexConfig, build, compact, dataflow, open_index
from treesim_dask.clients import Place
from treesim_dask.config import PageFilter
from treesim_dask.dataflow import SourceFailure
from treesim_dask.demo.crawl import write_demo_warc
from treesim_dask.errors import ConfigError, SourceError
from treesim_dask.index.manifest import write_manifest
from treesim_dask.index.store import Store
from treesim_dask.report import BuildReport

HERE = {"shard": (1, 1)}


def write_page(path, n_items):
    path.write_text(f"<title>{path.name}</title>" + "<ul><li>item</ul>" * n_items + "x" * 64)


def places_of(index):
    """File and offset of every page."""
    pages = open_index(str(index)).pages.compute()
    return sorted(zip(pages["warc"], pages["offset"].tolist(), strict=True))


def names_of(index):
    return sorted(os.path.basename(warc) for warc, _ in places_of(index))  # noqa: PTH119


@pytest.fixture
def failing(monkeypatch):
    """Let the sources whose url holds a text fail, after a function was called."""
    index_source = dataflow.index_source

    def fail(text, before=lambda: None):
        def index_or_fail(source, job, on_pages=lambda n_pages: None):
            if text in source.url:
                before()
                raise SourceError(f"{source.url} cannot be read just now")
            return index_source(source, job, on_pages)

        monkeypatch.setattr(dataflow, "index_source", index_or_fail)

    return fail


@pytest.fixture
def at_once(monkeypatch):
    """The workers of a whole build are this process, where a test can make a source fail."""
    from treesim_dask import builder

    def build_here(client, sources, job, *, max_connections, on_pages):
        return dataflow.build_segments_here(sources, job, on_pages)

    monkeypatch.setattr(builder, "build_segments", build_here)


class TestTheFolderOfANewIndex:
    @pytest.mark.parametrize("name", ["staging", "notes", "catalog.json.gz"])
    def test_a_folder_that_holds_something_else_is_refused_and_left_alone(self, tmp_path, name):
        archive = write_demo_warc(tmp_path / "a.warc.gz", 0, 5)
        (tmp_path / "full" / name).mkdir(parents=True)
        (tmp_path / "full" / name / "data.csv").write_text("mine")
        with pytest.raises(ConfigError, match=f"is no index and holds {name}: give an empty folder"):
            build(archive, str(tmp_path / "full"), **HERE)
        with pytest.raises(ConfigError, match="go with --cluster"):
            build(archive, str(tmp_path / "full"), lifetime="1m")
        assert (tmp_path / "full" / name / "data.csv").read_text() == "mine"

    def test_an_empty_folder_stays_when_the_build_fails(self, tmp_path):
        (tmp_path / "bad.warc").write_bytes(b"WARC/1.1")
        (tmp_path / "empty").mkdir()
        for name in ("empty", "new"):
            with pytest.raises(SourceError):
                build(str(tmp_path / "bad.warc"), str(tmp_path / name), **HERE, strict=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.warc", "empty"]
        assert list((tmp_path / "empty").iterdir()) == []

    def test_a_build_that_fails_leaves_another_one_beside_it_alone(self, tmp_path, monkeypatch):
        good, bad = (write_demo_warc(tmp_path / f"{name}.warc.gz", 0, 5) for name in ("good", "bad"))
        index, steps = str(tmp_path / "index"), {name: threading.Event() for name in ("begun", "joined", "failed")}
        index_source = dataflow.index_source

        def step(source, job, on_pages=lambda n_pages: None):
            if "bad" in source.url:
                steps["begun"].set()
                assert steps["joined"].wait(60)
                raise SourceError("unreachable")
            return index_source(source, job, lambda n_pages: (steps["joined"].set(), steps["failed"].wait(60)))

        monkeypatch.setattr(dataflow, "index_source", step)

        def build_bad():
            with pytest.raises(SourceError, match="unreachable"):
                build(bad, index, **HERE)
            steps["failed"].set()

        first = threading.Thread(target=build_bad)
        first.start()
        assert steps["begun"].wait(60)
        assert build(good, index, **HERE).n_done == 1
        first.join()
        assert open_index(index).info.n_pages == 5
        assert open_index(index).check() == []

    def test_an_interrupted_build_does_not_pin_the_parameters(self, tmp_path, monkeypatch):
        archive, index = write_demo_warc(tmp_path / "a.warc.gz", 0, 5), str(tmp_path / "index")

        def interrupt(source, job, on_pages):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(dataflow, "index_source", interrupt)
            with pytest.raises(KeyboardInterrupt):
                build(archive, index, **HERE)
        assert not (tmp_path / "index").exists()
        write_manifest(Store(index), IndexConfig(n_bands=8))  # as a build that is killed leaves it
        build(archive, index, config={"n_bands": 20}, **HERE)
        assert open_index(index).config == IndexConfig(n_bands=20)
        with pytest.raises(ConfigError, match="n_bands 20 and 8"):
            build(archive, index, config={"n_bands": 8}, **HERE)

    def test_the_parameters_of_a_build_at_work_are_kept(self, tmp_path):
        archive, store = write_demo_warc(tmp_path / "a.warc.gz", 0, 5), Store(str(tmp_path / "index"))
        with store.announce("build"):
            write_manifest(store, IndexConfig(n_bands=8))
            with pytest.raises(ConfigError, match="n_bands 8 and 20"):
                build(archive, store.url, config={"n_bands": 20}, **HERE)
        assert open_index(store.url).config == IndexConfig(n_bands=8)


class TestHtml:
    def test_a_growing_folder_loses_nothing_when_a_new_group_fails(self, tmp_path, failing, at_once, client):
        folder, index = tmp_path / "pages", str(tmp_path / "index")
        folder.mkdir()
        for n in range(1000):
            write_page(folder / f"{n}.html", n % 30)
        build(str(folder), index, **HERE)
        for n in range(1000, 1002):
            write_page(folder / f"{n}.html", n % 30)
        failing("#html-1-of-2")
        report = build(str(folder), index, client=client)
        assert len(report.failures) == 1
        assert len(names_of(index)) == len(set(names_of(index)))
        assert set(names_of(index)) >= {f"{n}.html" for n in range(1000)}
        failing("nothing")
        build(str(folder), index, client=client)
        assert names_of(index) == sorted(f"{n}.html" for n in range(1002))

    @pytest.mark.parametrize("is_compacted", [False, True])
    def test_exchanged_files_of_one_size_are_noticed(self, tmp_path, is_compacted):
        folder, index = tmp_path / "pages", str(tmp_path / "index")
        folder.mkdir()
        write_page(folder / "a.html", 3)
        write_page(folder / "b.html", 4)
        build(str(folder), index, **HERE)
        if is_compacted:
            compact(index)
        (folder / "b.html").rename(folder / "c.html")
        assert build(str(folder), index, **HERE).n_replaced == 1
        assert names_of(index) == ["a.html", "c.html"]

    def test_sizes_that_only_sum_up_to_the_same_are_noticed(self, tmp_path):
        folder, index = tmp_path / "pages", str(tmp_path / "index")
        folder.mkdir()
        for sizes in ((3, 4), (4, 3)):
            for name, n_items in zip("ab", sizes, strict=True):
                write_page(folder / f"{name}.html", n_items)
                os.utime(folder / f"{name}.html", (1, 1))  # only the sizes tell
            assert build(str(folder), index, **HERE).n_done == 1


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("name", ["a.warc", "a.html"])
def test_a_file_written_anew_in_the_same_size_is_noticed(tmp_path, tree_digest, name, is_compacted):
    path, index = tmp_path / name, str(tmp_path / "index")
    write = write_demo_warc if name == "a.warc" else lambda path, *_: write_page(path, 5)
    write(path, 0, 5)
    build(str(path), index, **HERE)
    if is_compacted:
        compact(index)
    before = tree_digest(index)
    assert build(str(path), index, **HERE).n_already_indexed == 1
    assert tree_digest(index) == before
    newest = max(file.stat().st_mtime for file in (tmp_path / "index").rglob("segment.json"))
    os.utime(path, (newest + 1, newest + 1))
    assert build(str(path), index, **HERE).n_replaced == 1
    if not is_compacted:
        assert tree_digest(index) == before  # no time is part of a segment


class TestExtracts:
    """An archive of some pages, and extracts of it."""

    @pytest.fixture
    def crawl(self, tmp_path):
        archive = write_demo_warc(tmp_path / "a.warc.gz", 0, 12)
        build(archive, str(tmp_path / "whole"), **HERE)
        places = places_of(tmp_path / "whole")
        pages = open_index(str(tmp_path / "whole")).pages.compute().sort_values("offset")
        rows = [
            {"filename": w, "offset": o, "length": n}
            for w, o, n in zip(pages["warc"], pages["offset"].tolist(), pages["length"].tolist(), strict=True)
        ]
        return archive, places, rows

    @pytest.fixture
    def indexed(self, tmp_path, crawl):
        """Build from the archive (None) or extracts of some pages, and return the places of the pages then."""
        archive, _, rows = crawl

        def build_from(*choices, **options):
            inputs = [
                archive if chosen is None else str(write_extract(tmp_path / f"{n}.cdxj", rows[chosen]))
                for n, chosen in enumerate(choices)
            ]
            build(inputs, str(tmp_path / "index"), **HERE, **options)
            assert open_index(str(tmp_path / "index")).check() == []
            return places_of(tmp_path / "index")

        return build_from

    def test_one_that_grows(self, crawl, indexed):
        places = crawl[1]
        for n_rows, n_indexed in ((2, 2), (4, 4), (5, 5), (3, 5)):
            assert indexed(slice(n_rows)) == places[:n_indexed]

    @pytest.mark.parametrize("is_compacted", [False, True])
    def test_two_that_overlap(self, crawl, indexed, tmp_path, is_compacted):
        places = crawl[1]
        assert indexed(slice(3)) == places[:3]
        if is_compacted:
            compact(str(tmp_path / "index"))
        for choices in ([slice(2, 6)], [slice(3)], [slice(3), slice(2, 6)], [slice(2, 6)], [slice(3)]):
            assert indexed(*choices) == places[:6]

    @pytest.mark.parametrize("is_compacted", [False, True])
    def test_the_whole_archive_before_beside_and_after(self, crawl, indexed, tmp_path, is_compacted):
        places = crawl[1]
        assert indexed(slice(1, 4)) == places[1:4]
        if is_compacted:
            compact(str(tmp_path / "index"))
        for choices in ([None], [slice(1, 4)], [None, slice(1, 4)], [slice(2, 6), None], [slice(2, 6)]):
            assert indexed(*choices) == places

    def test_one_with_another_filter_than_the_archive(self, crawl, indexed, tmp_path):
        places = crawl[1]
        urls = open_index(str(tmp_path / "whole")).pages.compute().sort_values("offset")["url"].tolist()
        only_first = PageFilter(url_pattern=f"^{urls[0]}$".replace("?", r"\?"))
        assert indexed(None, page_filter=only_first) == places[:1]
        assert indexed(slice(0, 3)) == places[:3]
        assert indexed(None) == places

    def test_limit_and_sample_count_the_archives(self, crawl, tmp_path):
        from treesim_dask.choice import InputChoice

        others = [{"filename": f"{tmp_path}/{n}.warc", "offset": 0, "length": 9} for n in range(4)]
        extract = str(write_extract(tmp_path / "x.cdxj", [*crawl[2], *others]))
        every = InputChoice([extract]).find_sources()
        assert len(every) == 5
        assert InputChoice([extract], limit=2).find_sources() == every[:2]
        assert len(InputChoice([extract], sample=3).find_sources()) == 3


class TestReport:
    def test_a_source_that_fails_is_not_replaced(self, tmp_path, failing):
        archives = [write_demo_warc(tmp_path / f"{name}.warc.gz", 0, 5) for name in "ab"]
        build(archives, str(tmp_path / "index"), **HERE)
        for n, name in enumerate("ab"):
            write_demo_warc(tmp_path / f"{name}.warc.gz", 0, 9 + n)
        failing("/b.warc")
        report = build([str(archive) for archive in archives], str(tmp_path / "index"), **HERE)
        assert (report.n_replaced, report.n_done, len(report.failures)) == (1, 1, 1)
        assert "outdated" not in report.to_dict()

    def test_what_is_said_late_of_a_source_does_not_count(self):
        report = BuildReport(n_sources=2)
        report.note_pages("a", 5)
        assert report.n_pages_so_far == 5
        report.add(SourceFailure("a", "unreadable"))
        report.note_pages("a", 7)
        assert report.n_pages_so_far == 0


class TestPlace:
    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            ({"lifetime": "1m"}, "go with --cluster"),
            ({"jobs": 2}, "go with --cluster"),
            ({"tls": True, "scheduler": "tcp://127.0.0.1:1"}, "for a running scheduler"),
            ({"workers": 2, "scheduler": "tcp://127.0.0.1:1"}, "give only one of"),
            ({"max_connections": 0}, "at least 1"),
        ],
    )
    def test_conflicts_are_noticed_when_nothing_is_pending(self, demo_archives, demo_index, options, complaint):
        with pytest.raises(ConfigError, match=complaint):
            build(demo_archives, demo_index, **options)

    def test_no_more_workers_than_files(self):
        with Place(workers=2).open(n_tasks=1) as client:
            assert len(client.scheduler_info()["workers"]) == 1

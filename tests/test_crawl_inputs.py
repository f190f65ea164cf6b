"""What the user names is found, once, under one name; what cannot be read is named."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.crawl_archives import PAGE, build_archive, http_response, warc_record
from treesim_dask.choice import InputChoice
from treesim_dask.config import PageFilter
from treesim_dask.crawl import reasons
from treesim_dask.crawl.inputs import find_sources
from treesim_dask.crawl.lists import read_list
from treesim_dask.crawl.pages import read_pages
from treesim_dask.errors import ConfigError, SourceError
from treesim_dask.types import SkippedLog, Source

RECORD = warc_record(http_response())


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """Three archives, one of them deeper, and things that are no input."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "a.warc.gz").write_bytes(gzip.compress(RECORD))
    (tmp_path / "b.warc").write_bytes(RECORD)
    (tmp_path / "deep" / "er" / "c.arc.gz").write_bytes(gzip.compress(RECORD))
    (tmp_path / "notes.md").write_text("notes")
    (tmp_path / "a.warc.wet.gz").write_bytes(b"")
    return tmp_path


def names(sources: list[Source], folder: Path) -> list[str]:
    return [os.path.relpath(source.url, folder) for source in sources]


class TestArchives:
    def test_a_folder_is_read_to_any_depth(self, crawl: Path) -> None:
        sources = find_sources([str(crawl)])
        assert names(sources, crawl) == ["a.warc.gz", "b.warc", "deep/er/c.arc.gz"]
        assert [source.size for source in sources] == [Path(source.url).stat().st_size for source in sources]
        assert all(source.members == (source.url,) for source in sources)

    def test_globs(self, crawl: Path) -> None:
        assert names(find_sources([f"{crawl}/*.warc*"]), crawl) == ["a.warc.gz", "b.warc"]
        assert names(find_sources([f"{crawl}/**/*.arc.gz"]), crawl) == ["deep/er/c.arc.gz"]

    def test_spellings_of_one_file_are_one_source(self, crawl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(crawl)
        (crawl / "link.warc").symlink_to(crawl / "b.warc")
        spellings = ["b.warc", "./b.warc", f"{crawl}/deep/../b.warc", f"file://{crawl}/b.warc", "link.warc", "*.warc"]
        for inputs in (spellings, spellings[::-1]):
            assert len(find_sources(inputs)) == 1

    def test_a_name_that_looks_like_a_pattern(self, tmp_path: Path) -> None:
        path = tmp_path / "[1].warc"
        path.write_bytes(RECORD)
        assert [source.url for source in find_sources([str(path)])] == [str(path)]

    def test_content_counts_where_the_name_says_nothing(self, tmp_path: Path) -> None:
        for name, data in {"x": RECORD, "y.gz": gzip.compress(RECORD), "z.bin": PAGE}.items():
            (tmp_path / name).write_bytes(data)
        kinds = [find_sources([str(tmp_path / name)])[0].kind for name in ("x", "y.gz", "z.bin")]
        assert kinds == ["archive", "archive", "html"]

    def test_lists(self, crawl: Path) -> None:
        (crawl / "list.txt").write_text(f"b.warc\n# comment\n\n{crawl}/a.warc.gz\n")
        (crawl / "list.paths.gz").write_bytes(gzip.compress(b"crawl-data/CC-MAIN-2026-42/x.warc.gz\nb.warc\n"))
        assert names(find_sources([str(crawl / "list.txt")]), crawl) == ["a.warc.gz", "b.warc"]
        urls = [source.url for source in find_sources([str(crawl / "list.paths.gz")])]
        assert urls == [f"{crawl}/b.warc", "https://data.commoncrawl.org/crawl-data/CC-MAIN-2026-42/x.warc.gz"]

    def test_a_list_of_several_gzip_members_is_read_to_its_end(self, crawl: Path) -> None:
        members = gzip.compress(b"a.warc.gz\n") + gzip.compress(b"") + gzip.compress(b"b.warc\n")
        (crawl / "list.paths.gz").write_bytes(members + bytes(512))
        assert names(find_sources([str(crawl / "list.paths.gz")]), crawl) == ["a.warc.gz", "b.warc"]

    @pytest.mark.parametrize("ending", [b"", b"garbage"])
    def test_a_list_that_is_cut_or_damaged_is_an_error(self, crawl: Path, ending: bytes) -> None:
        members = gzip.compress(b"a.warc.gz\n") + gzip.compress(b"b.warc\n")
        (crawl / "list.paths.gz").write_bytes(members + ending if ending else members[:-3])
        with pytest.raises(SourceError, match=r"list\.paths\.gz (breaks off|is damaged)"):
            find_sources([str(crawl / "list.paths.gz")])

    def test_a_list_that_unpacks_to_too_much_is_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.paths.gz"
        path.write_bytes(gzip.compress(b"a" * 900) * 2)
        assert read_list(str(path), 1800) == "a" * 1800
        with pytest.raises(SourceError, match="more than 1799 bytes"):
            read_list(str(path), 1799)

    def test_limit_and_sample(self, crawl: Path) -> None:
        def choose(**options: int) -> list[Source]:
            return InputChoice([str(crawl)], **options).find_sources()  # type: ignore[arg-type]

        everything = find_sources([str(crawl)])
        assert choose(limit=2) == everything[:2]
        assert choose(sample=3, sample_seed=5) == everything
        assert {choose(sample=1, sample_seed=seed)[0] for seed in range(30)} == set(everything)
        assert choose(sample=2, sample_seed=4) == choose(sample=2, sample_seed=4)

    @pytest.mark.parametrize("options", [{"limit": 0}, {"limit": -1}, {"sample": 0}, {"sample": -1}])
    def test_impossible_choices(self, options: dict[str, int]) -> None:
        with pytest.raises(ConfigError, match="at least 1"):
            InputChoice(["a.warc.gz"], **options)  # type: ignore[arg-type]


class TestHtml:
    def test_a_folder_is_grouped(self, tmp_path: Path) -> None:
        for number in range(2500):
            (tmp_path / f"{number}.html").write_bytes(PAGE)
        sources = find_sources([str(tmp_path)])
        assert [source.url for source in sources] == [f"{tmp_path}#html-{group}-of-4" for group in range(4)]
        members = [member for source in sources for member in source.members]
        assert sorted(members) == sorted(str(path) for path in tmp_path.iterdir())
        assert all(500 < len(source.members) < 750 for source in sources)
        assert all(source.size == len(PAGE) * len(source.members) for source in sources)

    def test_a_file_stays_in_its_group_when_others_come(self, tmp_path: Path) -> None:
        for number in range(1001):
            (tmp_path / f"{number}.html").touch()
        before = {member: source.url for source in find_sources([str(tmp_path)]) for member in source.members}
        for number in range(1001, 1500):
            (tmp_path / f"{number}.html").touch()
        after = {member: source.url for source in find_sources([str(tmp_path)]) for member in source.members}
        assert before.items() <= after.items()

    def test_files_named_one_by_one(self, tmp_path: Path) -> None:
        paths = [tmp_path / f"{name}.html" for name in "abc"]
        for path in paths:
            path.write_bytes(PAGE)
        [single] = find_sources([str(paths[0])])
        assert single.url == f"{paths[0]}#html-0-of-1"
        [pair], [other] = find_sources(list(map(str, paths[:2]))), find_sources(list(map(str, paths[1:])))
        assert len({single.url, pair.url, other.url}) == 3
        assert pair.members == (str(paths[0]), str(paths[1]))
        assert find_sources([str(paths[0]), str(tmp_path)]) == find_sources([str(tmp_path)])

    def test_a_name_that_is_not_utf8_keeps_no_other_file_out(self, tmp_path: Path) -> None:
        for name in (b"a.html", b"caf\xe9.html"):
            Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(PAGE)
        [source], skipped = find_sources([str(tmp_path)]), SkippedLog()
        [batch] = read_pages(source, PageFilter(), skipped)
        assert batch.url == [str(tmp_path / "a.html")]
        assert skipped.select({reasons.UNREADABLE}) == [("unreadable", f"{tmp_path}/caf\\xe9.html", 0)]

    @pytest.mark.parametrize("name", [b"caf\xe9.html", b"caf\xe9.warc", b"\xe9/a.html"])
    def test_a_source_whose_name_is_not_utf8(self, tmp_path: Path, name: bytes) -> None:
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(RECORD if name.endswith(b"warc") else PAGE)
        with pytest.raises(SourceError, match=r"\\xe9.* is not UTF-8: rename it"):
            find_sources([str(path)])

    def test_reading_a_group(self, tmp_path: Path) -> None:
        (tmp_path / "page.html").write_bytes(PAGE)
        (tmp_path / "short.htm").write_bytes(b"<p>")
        (tmp_path / "wide.html").write_bytes(PAGE.decode().encode("utf-16"))
        (tmp_path / "image.html").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00" * 20)
        (tmp_path / "gone.html").write_bytes(PAGE)
        [source] = find_sources([str(tmp_path)])
        (tmp_path / "gone.html").unlink()
        skipped = SkippedLog()
        [batch] = read_pages(source, PageFilter(), skipped)
        assert [Path(url).name for url in batch.url] == ["page.html", "wide.html"]
        assert batch.html == [PAGE, PAGE]
        assert (batch.offset, batch.length[0], batch.date, batch.status) == ([0, 0], len(PAGE), [None] * 2, [200] * 2)
        found = {Path(warc).name: reason for warc, reason in zip(skipped.warc, skipped.reason, strict=True)}
        assert found == {
            "gone.html": reasons.UNREADABLE,
            "image.html": reasons.CONTENT_TYPE,
            "short.htm": reasons.TOO_SHORT,
        }


class TestWrongInput:
    @pytest.mark.parametrize(
        ("name", "data", "said"),
        [
            ("missing.warc.gz", None, "no such file"),
            ("empty.warc.gz", b"", "0 bytes"),
            ("empty.html", b"", "0 bytes"),
            ("text.warc.gz", b"hello, world\n" * 10, "neither WARC nor ARC"),
            ("other.warc.gz", gzip.compress(b"hello", mtime=0), "neither WARC nor ARC"),
            ("a.wacz", b"PK\x03\x04rest", "zip or WACZ"),
            ("a.warc.bz2", b"BZh91AY&SY", "bzip2"),
            ("a.pdf", b"%PDF-1.7", "PDF"),
            ("a.bin", bytes(range(256)), "expected"),
            ("list.txt", b"\n\n# only a comment\n", "names no file"),
            ("list.txt", b"Dear reader,\n", "Dear reader"),
            ("list.paths", b"missing.warc.gz\n", "missing.warc.gz"),
            ("list.txt.gz", gzip.compress(b"", mtime=0), "names no file"),
            ("folder/", None, "no archive"),
            ("*.nothing", None, "nothing matches"),
            ("CC-MAIN-2026-42x", None, "no such file"),
        ],
    )
    def test_one_clear_line(self, tmp_path: Path, name: str, data: bytes | None, said: str) -> None:
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        elif name.endswith("/"):
            path.mkdir()
        with pytest.raises(SourceError, match=said) as caught:
            find_sources([str(path)])
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("inputs", [[], [""], ["  "]])
    def test_nothing(self, inputs: list[str]) -> None:
        with pytest.raises(SourceError, match="give"):
            find_sources(inputs)

    @pytest.mark.parametrize("url", ["s3://commoncrawl/crawl-data/x.warc.gz"])
    def test_common_crawl_on_s3_without_credentials(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        # An endpoint that nobody listens on: what matters is that the way out is named.
        options = {
            "anon": True,
            "endpoint_url": "http://127.0.0.1:9",
            "config_kwargs": {"retries": {"max_attempts": 0}},
        }
        monkeypatch.setattr("s3fs.core.S3FileSystem.retries", 1)
        with pytest.raises(SourceError, match=r"https://data\.commoncrawl\.org/ or S3 credentials"):
            find_sources([url], storage_options=options)


@given(st.lists(st.sampled_from(["plain", "gzip", "zstd", "single-gzip"]), min_size=1, max_size=4), st.randoms())
def test_the_order_of_inputs_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, formats: list[str], shuffle: object
) -> None:
    folder = tmp_path_factory.mktemp("order")
    paths = [folder / f"{number}.warc" for number in range(len(formats))]
    for path, file_format in zip(paths, formats, strict=True):
        path.write_bytes(build_archive([RECORD], file_format).data)
    inputs = [str(folder), *map(str, paths)]
    expected = find_sources(inputs)
    shuffle.shuffle(inputs)  # type: ignore[attr-defined]
    assert find_sources(inputs) == expected
    assert len(expected) == len(paths)

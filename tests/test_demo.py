"""The synthetic crawl: reproducible, readable by a peer, and as varied as it claims to be."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import BufferedReader
from warcio.recordloader import ArcWarcRecordLoader

from treesim_dask.config import DEFAULT_SPLICED_TAGS
from treesim_dask.demo import (
    DemoCrawl,
    DemoPage,
    demo_page,
    template_labels,
    write_demo_crawl,
    write_demo_warc,
)
from treesim_dask.demo.responses import other_response
from treesim_dask.demo.tables import N_ROWS, text_columns
from treesim_dask.demo.templates import N_SITE_DRAWS, Filling, compile_template
from treesim_dask.demo.themes import HABITS, load_theme, theme_names
from treesim_dask.dom.branches import count_branches
from treesim_dask.dom.tree import parse_trees
from treesim_dask.errors import ConfigError, StorageError
from treesim_dask.types import ShapeBatch

CHARSETS = {"utf-8", "utf-8-sig", "iso-8859-1", "windows-1252", "shift_jis", "koi8-r", "utf-16"}


@pytest.fixture(scope="module")
def crawl_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawl")
    write_demo_crawl(folder, n_pages=400, n_files=3, seed=5)
    return folder


@pytest.fixture(scope="module")
def pages() -> list[DemoPage]:
    return [demo_page(seed=1, number=number) for number in range(1000)]


@pytest.fixture(scope="module")
def shapes(pages: list[DemoPage]) -> ShapeBatch:
    utf8 = [page.html.decode(page.charset).encode() for page in pages]
    return count_branches(parse_trees(utf8, DEFAULT_SPLICED_TAGS))


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def warc_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.warc.gz"))


def test_same_seed_same_bytes(crawl_folder: Path, tmp_path: Path) -> None:
    write_demo_crawl(tmp_path, n_pages=400, n_files=3, seed=5)
    first = folder_bytes(tmp_path)
    assert first == folder_bytes(crawl_folder)
    write_demo_crawl(tmp_path, n_pages=400, n_files=3, seed=5)
    assert folder_bytes(tmp_path) == first


def test_other_seed_other_pages() -> None:
    assert all(demo_page(1, number).html != demo_page(2, number).html for number in range(50))


@given(st.integers(0, 2**32 - 1), st.integers(0, 10**9))
def test_a_page_depends_on_seed_and_number_alone(seed: int, number: int) -> None:
    page = demo_page(seed, number)
    demo_page(seed, number + 1)
    assert demo_page(seed, number) == page
    assert page.html.decode(page.charset)
    assert page.url.startswith(f"https://{page.site.host}/")


def test_pages_are_the_same_in_any_number_of_files(crawl_folder: Path, tmp_path: Path) -> None:
    parts = {url: body for path in warc_files(crawl_folder) for url, body in read_bodies(path)}
    whole = Path(write_demo_warc(tmp_path / "one.warc.gz", first=100, n_pages=150, seed=5))
    alone = dict(read_bodies(whole))
    assert len(alone) >= 150
    assert all(parts[url] == body for url, body in alone.items())


def read_bodies(path: Path) -> list[tuple[str, bytes]]:
    with path.open("rb") as stream:
        return [
            (record.rec_headers["WARC-Target-URI"], record.content_stream().read())
            for record in ArchiveIterator(stream)
            if record.rec_type == "response"
        ]


def test_a_peer_reads_every_warc_record(crawl_folder: Path) -> None:
    kinds: Counter[str] = Counter()
    ids: list[str] = []
    for path in warc_files(crawl_folder):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                kinds[record.rec_type] += 1
                ids.append(record.rec_headers["WARC-Record-ID"])
                n_http = len(record.http_headers.to_bytes()) if record.http_headers else 0
                # to_bytes() writes each HTTP header as it was read, so that lengths add up
                assert n_http + len(record.raw_stream.read()) == int(record.rec_headers["Content-Length"])
    assert kinds["warcinfo"] == 3
    assert kinds["request"] == kinds["response"] == kinds["metadata"] > 400
    assert kinds["revisit"] > 0
    assert len(set(ids)) == len(ids)


def test_each_warc_record_is_a_gzip_member_at_its_offset(crawl_folder: Path) -> None:
    path = warc_files(crawl_folder)[0]
    content = path.read_bytes()
    with path.open("rb") as stream:
        iterator = ArchiveIterator(stream)
        for record in iterator:
            record.raw_stream.read()
            offset, length = iterator.get_record_offset(), iterator.get_record_length()
            member = zlib.decompress(content[offset : offset + length], wbits=31)
            assert member.startswith(b"WARC/1.0\r\n")
            assert member.endswith(b"\r\n\r\n")
            assert (
                ArcWarcRecordLoader().parse_record_stream(BufferedReader(BytesIO(member))).rec_type == record.rec_type
            )
    assert offset + length == len(content)


def test_labels_and_paths_agree_with_the_files(crawl_folder: Path) -> None:
    with (crawl_folder / "labels.csv").open(newline="") as stream:
        labels = {row["url"]: (row["template"], row["site"]) for row in csv.DictReader(stream)}
    expected = [demo_page(5, number) for number in range(400)]
    assert labels == {page.url: (page.template, page.site.host) for page in expected}
    bodies = {url: body for path in warc_files(crawl_folder) for url, body in read_bodies(path)}
    assert all(bodies[page.url] == page.html for page in expected)
    assert len(bodies) > len(labels)
    listed = gzip.decompress((crawl_folder / DemoCrawl(400, 3, 5).paths_file).read_bytes()).decode().split()
    assert [crawl_folder / path for path in listed] == warc_files(crawl_folder)


def test_what_is_no_page_is_there_too() -> None:
    others = [other for number in range(3000) if (other := other_response(1, number))]
    assert {other.status[:3] for other in others} == {"200", "301", "404"}
    types = {other.payload_type for other in others if other.status == "200 OK"}
    assert types == {"text/html", "image/png", "application/json", "application/pdf"}
    assert all(len(o.body) < 64 for o in others if o.status == "200 OK" and o.payload_type == "text/html")
    assert 0.05 < len(others) / 3000 < 0.11


def test_all_charsets_transports_and_habits_occur(pages: list[DemoPage]) -> None:
    assert {page.charset for page in pages} == CHARSETS
    assert {page.site.transport for page in pages} == {"plain", "decoded", "gzip", "chunked", "gzip-chunked"}
    assert {page.site.habit for page in pages} == set(HABITS)
    assert {"charset=" in page.content_type for page in pages} == {True, False}
    marks = {page.html[:2] for page in pages if page.charset == "utf-16"}
    assert marks == {b"\xff\xfe", b"\xfe\xff"}
    not_ascii = {page.charset for page in pages if not page.html.isascii()}
    assert not_ascii == CHARSETS


def test_sites_share_templates_and_urls_are_unique(pages: list[DemoPage]) -> None:
    assert {page.template for page in pages} == set(template_labels())
    assert len(template_labels()) >= 40
    assert len({page.url for page in pages}) == len(pages)
    sites_of_template: dict[str, set[str]] = {}
    for page in pages:
        sites_of_template.setdefault(page.template, set()).add(page.site.host)
    assert min(map(len, sites_of_template.values())) >= 3


def log_cosines(shapes: ShapeBatch) -> np.ndarray:
    """Cosine of log(1 + count) between all pairs of pages, by brute force."""
    columns = np.unique(shapes.branches, return_inverse=True)[1]
    matrix = csr_array((np.log1p(shapes.counts), columns, shapes.indptr))
    squares = np.add.reduceat(np.log1p(shapes.counts) ** 2, shapes.indptr[:-1])
    return (matrix @ matrix.T).toarray() / np.sqrt(np.outer(squares, squares))


def test_nearest_page_is_of_the_same_template(pages: list[DemoPage], shapes: ShapeBatch) -> None:
    cosines = log_cosines(shapes)
    np.fill_diagonal(cosines, -1)
    labels = np.array([page.template for page in pages])
    assert np.mean(labels[cosines.argmax(axis=1)] == labels) >= 0.99


def test_pages_of_a_template_are_mostly_not_identical(shapes: ShapeBatch) -> None:
    rows = [shapes.take(np.array([row])) for row in range(len(shapes))]
    distinct = {(row.branches.tobytes(), row.counts.tobytes()) for row in rows}
    assert len(distinct) >= 0.9 * len(shapes)


def test_pages_have_realistic_sizes(pages: list[DemoPage], shapes: ShapeBatch) -> None:
    n_bytes = np.median([len(page.html) for page in pages])
    n_elements = np.median(np.add.reduceat(shapes.counts, shapes.indptr[:-1]))
    assert 10_000 <= n_bytes <= 20_000
    assert 200 <= n_elements <= 400


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("theme", theme_names())
def test_every_template_can_be_filled(theme: str, habit: str) -> None:
    page = demo_page(1, 0)
    constants = dict.fromkeys(["page.title", "page.url", "page.day", "page.number"], "x") | page.site.constants
    for template in load_theme(theme, habit):
        for value in (0.0, 0.3, 0.7, 0.999):
            filling = Filling(
                text_columns("en"), constants, lambda value=value: value, lambda: 0.999, (value,) * N_SITE_DRAWS
            )
            (html,) = template.html.render(filling, N_ROWS - 1, 1)
            assert "{{" not in html
            assert "%s" not in html


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 4))
def test_nested_repeats_multiply(low: int, extra: int, n: int) -> None:
    template = compile_template(f"<ul>{{{{*{low}-{low}}}}}<li>{{{{*{extra}-{extra}}}}}<b>{{{{/}}}}{{{{/}}}}")
    filling = Filling({}, {}, lambda: 0.5, lambda: 0.5, ())
    texts = template.render(filling, 0, n)
    assert [(text.count("<li>"), text.count("<b>")) for text in texts] == [(low, low * extra)] * n


@pytest.mark.parametrize("source", ["{{*1-2}}<p>", "{{?50}}<p>{{:}}", "<p>{{/}}", "{{*1-2}}<p>{{:}}<p>{{/}}"])
def test_unbalanced_templates_are_refused(source: str) -> None:
    with pytest.raises(ConfigError, match="a template has"):
        compile_template(source)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_pages": 0}, "n_pages must be at least 1, got 0"),
        ({"n_pages": 3, "n_files": 4}, "n_files must be from 1 to n_pages = 3, got 4"),
        ({"n_files": 0}, "n_files must be from 1"),
        ({"seed": -1}, "seed must be from 0"),
    ],
)
def test_wrong_parameters_are_refused(tmp_path: Path, values: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        write_demo_crawl(tmp_path / "new", **values)
    assert not (tmp_path / "new").exists()


def test_a_folder_with_another_crawl_is_left_alone(tmp_path: Path) -> None:
    write_demo_crawl(tmp_path, n_pages=4, n_files=2)
    before = folder_bytes(tmp_path)
    with pytest.raises(ConfigError, match="holds another crawl"):
        write_demo_crawl(tmp_path, n_pages=4, n_files=2, seed=9)
    assert folder_bytes(tmp_path) == before


def test_a_list_of_paths_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / DemoCrawl().paths_file
    target.parent.mkdir(parents=True)
    target.write_bytes(b"not gzip")
    with pytest.raises(ConfigError, match="holds another crawl"):
        write_demo_crawl(tmp_path, n_pages=4, n_files=2)
    assert target.read_bytes() == b"not gzip"


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here first")
    with pytest.raises(StorageError, match="cannot write"):
        write_demo_crawl(tmp_path / "file", n_pages=2, n_files=1)
    assert (tmp_path / "file").read_text() == "here first"


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken.warc.gz" / "inside").mkdir(parents=True)
    with pytest.raises(StorageError, match="cannot write"):
        write_demo_warc(tmp_path / "taken.warc.gz", first=0, n_pages=2)
    assert [path.name for path in tmp_path.iterdir()] == ["taken.warc.gz"]

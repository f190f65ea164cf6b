"""Archives and pages over HTTP, from a real server with real faults."""

from __future__ import annotations

import gzip
import random
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.crawl_archives import CONTENT_ENCODINGS, PAGE, build_archive, http_response, warc_record
from tests.crawl_server import Site, serve
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.crawl import streams
from treesim_dask.crawl.fetch import fetch_page
from treesim_dask.crawl.inputs import find_sources
from treesim_dask.crawl.pages import read_page_at, read_pages
from treesim_dask.crawl.streams import find_filesystem
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import PageError, SourceError
from treesim_dask.query.page import load_queries
from treesim_dask.types import SkippedLog, Source

OPTIONS = {"retries": 3, "timeout": 5}


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(Site()) as site:
        yield site


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_FIRST_WAIT", 0.01)


@pytest.fixture(scope="module")
def archive() -> bytes:
    """Some 100 pages that do not compress, 3 MB."""
    noise = random.Random(0)
    pages = [PAGE + noise.randbytes(30_000).hex().encode() for _ in range(100)]
    return build_archive([warc_record(http_response(page)) for page in pages], "gzip").data


def count_pages(url: str, **options: Any) -> int:
    source, skipped = Source(url, "archive", (url,)), SkippedLog()
    n_pages = sum(map(len, read_pages(source, PageFilter(), skipped, storage_options={**OPTIONS, **options})))
    assert len(skipped) == 0
    return n_pages


def read_all(source: Source, **options: Any) -> tuple[list[bytes], SkippedLog]:
    skipped = SkippedLog()
    batches = read_pages(source, PageFilter(), skipped, storage_options={**OPTIONS, **options})
    return [html for batch in batches for html in batch.html], skipped


ALICE, BOB = "Basic " + b64encode(b"alice:wonderland").decode(), "Basic " + b64encode(b"bob:builder").decode()


class TestLogins:
    @pytest.fixture
    def other(self, site: Site, archive: bytes) -> Iterator[Site]:
        """A second server, to which the first sends those who ask for an archive."""
        with serve(Site(files={"/a.warc.gz": archive})) as other:
            site.redirects["/a.warc.gz"] = f"{other.url}/a.warc.gz"
            yield other

    def test_a_login_stays_with_the_server_it_was_given_for(self, site: Site, other: Site) -> None:
        assert count_pages(f"{site.url}/a.warc.gz", headers={"authorization": ALICE}) == 100
        assert (site.logins, other.logins) == ([ALICE], [None])

    @pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning")
    def test_so_does_a_login_of_the_session(self, site: Site, other: Site) -> None:
        session = {"auth": aiohttp.BasicAuth("alice", "wonderland")}
        assert count_pages(f"{site.url}/a.warc.gz", client_kwargs=session) == 100
        assert (site.logins, other.logins) == ([ALICE], [None])

    def test_a_login_given_counts_more_than_that_of_netrc(
        self, site: Site, archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login bob password builder\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        site.files["/a.warc.gz"] = archive
        assert count_pages(f"{site.url}/a.warc.gz") == 100
        assert count_pages(f"{site.url}/a.warc.gz", headers={"Authorization": ALICE}) == 100
        assert site.logins == [BOB, ALICE]

    def test_a_login_goes_through_a_proxy(self, site: Site, archive: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", site.url)
        monkeypatch.setenv("no_proxy", "")
        site.files["http://archive.example/a.warc.gz"] = archive
        assert count_pages("http://archive.example/a.warc.gz", headers={"Authorization": ALICE}) == 100
        assert site.logins == [ALICE]


class TestStreaming:
    def test_one_request_reads_a_file(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        assert count_pages(f"{site.url}/a.warc.gz") == 100
        assert site.requests == [("/a.warc.gz", None)]

    def test_a_body_without_an_announced_size(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        site.sends_chunked = True
        assert count_pages(f"{site.url}/a.warc.gz") == 100

    def test_a_content_encoding_header_on_a_gzip_file_does_not_unpack_it(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        site.headers["/a.warc.gz"] = {"Content-Encoding": "gzip"}
        assert count_pages(f"{site.url}/a.warc.gz") == 100

    def test_broken_connections_are_resumed_where_they_broke(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        site.breaks["/a.warc.gz"] = [1_000_000, 500_000, 0, 700_000]
        assert count_pages(f"{site.url}/a.warc.gz") == 100
        starts = [0 if asked is None else int(asked.split("=")[1].rstrip("-")) for _, asked in site.requests]
        assert len(starts) == 5
        assert starts == sorted(starts)
        assert starts[1] <= 1_000_000

    def test_a_server_that_ignores_ranges(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        site.breaks["/a.warc.gz"] = [1_500_000]
        site.ignores_ranges = True
        assert count_pages(f"{site.url}/a.warc.gz") == 100

    def test_a_server_that_answers_with_later_bytes(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        site.breaks["/a.warc.gz"] = [1_500_000]
        site.shifts_ranges = 7
        with pytest.raises(SourceError, match="answered from byte"):
            count_pages(f"{site.url}/a.warc.gz")

    def test_an_overloaded_server_is_asked_again(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        site.statuses["/a.warc.gz"] = [503, 500, 429]
        assert count_pages(f"{site.url}/a.warc.gz") == 100

    def test_lasting_trouble_is_an_error_and_not_a_short_file(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        site.breaks["/a.warc.gz"] = [1_500_000, *[0] * 10]
        with pytest.raises(SourceError, match=r"a\.warc\.gz.*tried 4 times"):
            count_pages(f"{site.url}/a.warc.gz")

    def test_a_file_that_changes_while_it_is_read(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        site.changes["/a.warc.gz"] = archive + archive
        site.breaks["/a.warc.gz"] = [1_500_000]
        with pytest.raises(SourceError, match="changed"):
            count_pages(f"{site.url}/a.warc.gz")

    def test_a_page_by_a_single_range_request(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        record = gzip.compress(warc_record(http_response()), mtime=0)
        site.files["/b.warc.gz"] = archive + record
        page = read_page_at(f"{site.url}/b.warc.gz", len(archive), len(record))
        assert page.html == [PAGE]
        assert site.requests == [("/b.warc.gz", f"bytes={len(archive)}-{len(archive) + len(record) - 1}")]

    def test_other_file_systems(self, archive: bytes) -> None:
        import fsspec

        with fsspec.open("memory://crawl/a.warc.gz", "wb") as file:
            file.write(archive)
        [source] = find_sources(["memory://crawl/"], storage_options={"retries": 1})
        assert find_filesystem("memory://crawl/", {"retries": 1})[0].storage_options == {}
        assert source.size == len(archive)
        assert sum(map(len, read_pages(source, PageFilter(), SkippedLog()))) == 100


class TestTrouble:
    """What may pass is an error, so that the source is read again; what is not there is left out and counted."""

    @pytest.mark.parametrize("status", [403, 503])
    def test_a_refused_page_of_an_extract_is_an_error(self, site: Site, archive: bytes, status: int) -> None:
        site.files["/a.warc.gz"] = archive
        site.statuses["/a.warc.gz"] = [status] * 10
        with pytest.raises(SourceError, match=f"answered {status}"):
            read_all(Source("x", "extract", (f"{site.url}/a.warc.gz", "0+100")))

    @pytest.mark.parametrize("status", [403, 503])
    def test_a_refused_html_file_is_an_error(self, site: Site, status: int) -> None:
        site.statuses["/a.html"] = [status] * 10
        with pytest.raises(SourceError, match=f"answered {status}"):
            read_all(Source("x", "html", (f"{site.url}/a.html",)))

    def test_silence_is_an_error(self, site: Site) -> None:
        site.stalls.add("/a.html")
        with pytest.raises(SourceError, match="no answer"):
            read_all(Source("x", "html", (f"{site.url}/a.html",)), timeout=0.2, retries=0)

    def test_what_is_not_there_is_left_out(self, site: Site) -> None:
        record = gzip.compress(warc_record(http_response()), mtime=0)
        site.files |= {"/a.warc.gz": record, "/a.html": PAGE}
        places = (f"0+{len(record)}", "1+20", "100000+20")
        pages, skipped = read_all(Source("x", "extract", (f"{site.url}/a.warc.gz", *places)))
        assert (pages, skipped.reason, skipped.offset) == ([PAGE], ["unreadable"] * 2, [1, 100000])
        pages, skipped = read_all(Source("x", "html", (f"{site.url}/a.html", f"{site.url}/gone.html")))
        assert (pages, skipped.reason) == ([PAGE], ["unreadable"])


class TestInputs:
    def test_a_crawl_id(self, site: Site) -> None:
        paths = [f"crawl-data/CC-MAIN-2026-42/segments/1/warc/{number:05}.warc.gz" for number in (2, 1, 0)]
        site.files["/crawl-data/CC-MAIN-2026-42/warc.paths.gz"] = gzip.compress("\n".join(paths).encode() + b"\n")
        sources = find_sources(["CC-MAIN-2026-42"], crawl_base_url=site.url)
        assert [source.url for source in sources] == [f"{site.url}/{path}" for path in sorted(paths)]
        assert len(site.requests) == 1  # none per file

    def test_an_unknown_crawl_id(self, site: Site) -> None:
        with pytest.raises(SourceError, match=r"CC-MAIN-1999-01.*404"):
            find_sources(["CC-MAIN-1999-01"], crawl_base_url=site.url + "/")

    def test_a_list_next_to_its_files(self, site: Site) -> None:
        site.files["/x/list.txt"] = b"# comment\n\na.warc.gz\n/data/b.html\nhttps://example.org/c.warc\n"
        with pytest.raises(SourceError, match="cannot be read"):
            find_sources([f"{site.url}/x/list.txt"])
        site.files["/x/list.txt"] = b"a.warc.gz\nhttps://example.org/c.warc\n"
        urls = [source.url for source in find_sources([f"{site.url}/x/list.txt"])]
        assert urls == [f"{site.url}/x/a.warc.gz", "https://example.org/c.warc"]

    def test_a_url_is_probed_once_and_tells_its_size(self, site: Site, archive: bytes) -> None:
        site.files["/a.warc.gz"] = archive
        [source] = find_sources([f"{site.url}/a.warc.gz"])
        assert (source.kind, source.size, len(site.requests)) == ("archive", len(archive), 1)

    def test_an_index_page(self, site: Site) -> None:
        site.files["/dir/"] = b"<a href='a.warc.gz'>a</a> <a href='b.warc.gz'>b</a> <a href='notes.pdf'>n</a>"
        site.headers["/dir/"] = {"Content-Type": "text/html"}
        urls = [source.url for source in find_sources([f"{site.url}/dir/"])]
        assert urls == [f"{site.url}/dir/a.warc.gz", f"{site.url}/dir/b.warc.gz"]

    @pytest.mark.parametrize("status", [401, 403, 404, 410, 500])
    def test_refusals_name_status_and_address(self, site: Site, status: int) -> None:
        site.statuses["/a.warc.gz"] = [status] * 10
        with pytest.raises(SourceError, match=rf"/a\.warc\.gz answered {status}.*: "):
            find_sources([f"{site.url}/a.warc.gz"])

    def test_silence(self, site: Site) -> None:
        site.stalls.add("/a.warc.gz")
        with pytest.raises(SourceError, match=r"no answer from .*/a\.warc\.gz"):
            find_sources([f"{site.url}/a.warc.gz"], storage_options={"timeout": 0.2, "retries": 0})

    def test_an_empty_list(self, site: Site) -> None:
        site.files["/x.paths.gz"] = gzip.compress(b"\n")
        with pytest.raises(SourceError, match="names no file"):
            find_sources([f"{site.url}/x.paths.gz"])

    @pytest.mark.parametrize(
        "url", ["http://", "http://no host/a.warc", "gopherish://x/a.warc", "http://nowhere.invalid/a.warc.gz"]
    )
    def test_bad_addresses(self, url: str) -> None:
        with pytest.raises(SourceError) as caught:
            find_sources([url], storage_options={"retries": 0})
        assert "\n" not in str(caught.value)


class TestFetch:
    def test_a_page(self, site: Site) -> None:
        site.files["/p"] = PAGE
        site.headers["/p"] = {"Content-Type": "text/html; charset=utf-8"}
        page = fetch_page(f"{site.url}/p")
        assert (page.html, page.url, page.status) == ([PAGE], [f"{site.url}/p"], [200])

    @pytest.mark.parametrize("encoding", sorted(CONTENT_ENCODINGS))
    def test_content_encodings(self, site: Site, encoding: str) -> None:
        site.files["/p"] = CONTENT_ENCODINGS[encoding](PAGE)
        site.headers["/p"] = {"Content-Type": "text/html", "Content-Encoding": encoding or "identity"}
        assert fetch_page(f"{site.url}/p").html == [PAGE]

    def test_redirects_are_followed_and_counted(self, site: Site) -> None:
        site.files["/end"] = PAGE
        site.redirects |= {"/1": "/2", "/2": "/end", "/loop": "/loop", "/out": "file:///etc/passwd"}
        assert fetch_page(f"{site.url}/1").url == [f"{site.url}/end"]
        with pytest.raises(PageError, match="redirects too often"):
            fetch_page(f"{site.url}/1", max_redirects=1)
        with pytest.raises(PageError, match="redirects too often"):
            fetch_page(f"{site.url}/loop")
        with pytest.raises(PageError, match="not a usable web address"):
            fetch_page(f"{site.url}/out")

    @pytest.mark.parametrize("status", [403, 404, 500])
    def test_refusals(self, site: Site, status: int) -> None:
        site.statuses["/p"] = [status]
        with pytest.raises(PageError, match=f"answered {status}"):
            fetch_page(f"{site.url}/p")

    def test_silence(self, site: Site) -> None:
        site.stalls.add("/p")
        with pytest.raises(PageError, match=r"no answer from .* within 0\.2 seconds"):
            fetch_page(f"{site.url}/p", timeout=0.2)

    def test_too_long_as_sent_and_as_decoded(self, site: Site) -> None:
        site.files |= {"/long": PAGE * 1000, "/bomb": gzip.compress(PAGE * 10_000)}
        site.headers["/bomb"] = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
        for path in ("/long", "/bomb"):
            with pytest.raises(PageError, match="longer than 50000 bytes"):
                fetch_page(site.url + path, max_bytes=50_000)

    def test_not_html(self, site: Site) -> None:
        site.files["/p"] = b"%PDF-1.7\x00"
        site.headers["/p"] = {"Content-Type": "application/pdf"}
        with pytest.raises(PageError, match="application/pdf"):
            fetch_page(f"{site.url}/p")

    @pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/", "example.org", "http://"])
    def test_bad_addresses(self, url: str) -> None:
        with pytest.raises(PageError, match=r"http://|web address"):
            fetch_page(url)

    def test_a_broken_connection(self, site: Site) -> None:
        site.files["/p"] = PAGE
        site.breaks["/p"] = [10]
        with pytest.raises(PageError, match=r"connection to .* failed"):
            fetch_page(f"{site.url}/p")


def test_a_query_is_decoded_once(site: Site, tmp_path: Path) -> None:
    # the text of the page is itself tags in UTF-7: a second decoding would find elements in it
    html = "<meta charset=utf-7><body><p>+ADw-ul+AD4APA-li+AD4-</p>"
    body = html.encode("utf-7")
    (tmp_path / "a.warc").write_bytes(warc_record(http_response(body)))
    site.files["/p"] = body
    site.headers["/p"] = {"Content-Type": "text/html"}
    expected = shape_pages([html.encode()], IndexConfig()).counts.sum()
    for page in (body, f"{site.url}/p", f"warc:{tmp_path}/a.warc#0"):
        assert load_queries([page], [], IndexConfig())[0].shape.counts.sum() == expected


def test_nothing_is_left_open(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(warc_record(http_response()) * 3)
    batches = read_pages(Source(str(path), "archive", (str(path),)), PageFilter(), SkippedLog(), max_pages=1)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert not list(batches)

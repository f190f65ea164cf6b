"""Input and index on a real object store, with and without trouble on the way."""

import json

import pytest
from kills import Killed, kill_at_call
from services.proxy import FLIPPED, LATE, RESET, TRUNCATED, UNAVAILABLE, run_proxy
from services.seaweed import PUBLIC_BUCKET

from treesim_dask.api import merge, open_index
from treesim_dask.builder import build
from treesim_dask.cli import main
from treesim_dask.compactor import compact
from treesim_dask.demo.crawl import write_demo_crawl
from treesim_dask.errors import IndexFormatError, SourceError, StorageError
from treesim_dask.index.segment import SEGMENTS, SUMMARY
from treesim_dask.index.store import Store

pytestmark = pytest.mark.s3

TROUBLE = {UNAVAILABLE: 0.025, RESET: 0.025, TRUNCATED: 0.025, LATE: 0.025}
CRAWL_URL = "s3://crawl/"


@pytest.fixture(scope="module")
def fs(s3_service, small_crawl):
    """The store with the small crawl in it."""
    import s3fs

    fs = s3fs.S3FileSystem(**s3_service.options(), use_listings_cache=False)
    for bucket in ("crawl", "indexes", PUBLIC_BUCKET):
        fs.mkdir(bucket)
    for path in small_crawl.rglob("*.warc.gz"):
        fs.put_file(str(path), f"crawl/{path.name}")
    fs.put_file(str(path), f"{PUBLIC_BUCKET}/{path.name}")
    return fs


@pytest.fixture(scope="module")
def proxy(s3_service, fs):
    with run_proxy(s3_service.endpoint) as proxy:
        yield proxy


@pytest.fixture
def options(s3_service, proxy):
    """Options that lead through the proxy, which is calm unless the test says otherwise."""
    proxy.begin()
    yield {**s3_service.options(), "endpoint_url": proxy.endpoint}
    proxy.begin()


@pytest.fixture(scope="module")
def calm_index(fs, proxy, s3_service, client):
    proxy.begin()
    options = {**s3_service.options(), "endpoint_url": proxy.endpoint}
    url = "s3://indexes/calm"
    report = build(CRAWL_URL, url, client=client, storage_options=options, index_options=options)
    assert (report.n_done, report.n_pages, report.failures) == (6, 120, [])
    return url, list(proxy.requests)


def contents(fs, url):
    """The content of every file of an index."""
    root = url.removeprefix("s3://")
    return {path.removeprefix(root): data for path, data in fs.cat(fs.find(root)).items()}


def test_each_archive_is_one_streaming_request(calm_index):
    _, requests = calm_index
    archives = [request for request in requests if request.path.endswith(".warc.gz")]
    assert len(archives) == 6
    assert {request.method for request in archives} == {"GET"}
    assert {request.range for request in archives} == {""}


def test_index_on_s3_is_the_index_on_disk(fs, calm_index, client, options, tmp_path):
    build(CRAWL_URL, str(tmp_path), client=client, storage_options=options)
    local = {f"/{path.relative_to(tmp_path)}": path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert contents(fs, calm_index[0]) == local


def test_query_and_check_on_s3(calm_index, options):
    index = open_index(calm_index[0], options)
    page = f"id:{index.segments[0].segment_id}-3"
    matches = index.query(page, k=5)
    assert matches.page_id[0] == page.removeprefix("id:")
    assert matches.score[0] == pytest.approx(1.0)
    assert index.check() == []
    assert index.info.n_pages == 120


def test_a_private_index_on_s3_can_be_the_batch(calm_index, options, capsys):
    index = open_index(calm_index[0], options)
    answers = list(index.search_batch(calm_index[0], k=1, storage_options=options))
    assert len(answers) == 120
    assert all(answer.matches[0].score == pytest.approx(1.0) for _, answer in answers)
    pairs = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in options.items()]
    given = [part for pair in pairs for part in ("--index-option", pair, "--storage-option", pair)]
    assert main(["query", "--batch", calm_index[0], "--index", calm_index[0], "-k", "1", "--quiet", *given]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 120


def test_query_page_is_read_back_from_s3_by_one_range_request(calm_index, options, proxy):
    index = open_index(calm_index[0], options)
    match = index.search(f"id:{index.segments[0].segment_id}-3", k=1).matches[0]
    proxy.begin()
    answer = index.search(f"warc:{match.warc}#{match.offset}", k=1, storage_options=options)
    assert answer.matches[0].score == pytest.approx(1.0)
    reads = [request for request in proxy.requests if request.path.endswith(".warc.gz")]
    assert [request.method for request in reads] == ["GET"]
    assert reads[0].range.startswith(f"bytes={match.offset}-")


@pytest.mark.parametrize("place", ["input", "index", "both"])
def test_build_through_trouble_gives_the_same_bytes(place, fs, calm_index, options, proxy, s3_service, client):
    url = f"s3://indexes/trouble-{place}"
    straight = s3_service.options()
    proxy.begin(TROUBLE)
    report = build(
        CRAWL_URL,
        url,
        client=client,
        storage_options=straight if place == "index" else options,
        index_options=straight if place == "input" else options,
    )
    assert report.failures == []
    if place == "both":
        assert {fault for fault in TROUBLE if proxy.count(fault=fault)} == set(TROUBLE)
    assert contents(fs, url) == contents(fs, calm_index[0])


def test_broken_connection_resumes_where_it_broke(options, proxy, fs, calm_index, client):
    proxy.begin({TRUNCATED: 0.6}, only=".warc.gz")
    report = build(CRAWL_URL, "s3://indexes/resumed", client=client, storage_options=options, index_options=options)
    assert (report.failures, report.damage, report.n_pages) == ([], [], 120)
    resumed = [request for request in proxy.requests if request.path.endswith(".warc.gz") and request.range]
    assert resumed
    assert not any(request.range.startswith("bytes=0-") for request in resumed)
    assert contents(fs, "s3://indexes/resumed") == contents(fs, calm_index[0])


def test_changed_bytes_on_the_way_to_the_store_are_sent_again(options, proxy, fs, calm_index, client):
    proxy.begin({FLIPPED: 0.15}, only="indexes")
    build(CRAWL_URL, "s3://indexes/flipped", client=client, storage_options=options, index_options=options)
    assert proxy.count("PUT", fault=FLIPPED) > 0
    assert contents(fs, "s3://indexes/flipped") == contents(fs, calm_index[0])


def test_changed_bytes_on_the_way_from_the_store_never_change_an_answer(options, proxy, calm_index):
    index = open_index(calm_index[0], options)
    page = f"id:{index.segments[0].segment_id}-3"
    expected = index.search(page).matches
    n_refused = 0
    for only in ("/signatures/", "/branches/", "bands.parquet", "pages.parquet"):
        proxy.begin({FLIPPED: 0.5}, only=only)
        try:
            assert open_index(calm_index[0], options).search(page).matches == expected
        except Exception:  # Zarr, Arrow and botocore each notice in their own way
            n_refused += 1
    assert n_refused > 0


def test_archive_whose_bytes_changed_on_the_way_is_read_again(fs, calm_index, options, proxy, client):
    proxy.begin({FLIPPED: 0.4}, only=".warc.gz")
    url = "s3://indexes/reread"
    report = build(CRAWL_URL, url, client=client, storage_options=options, index_options=options)
    assert proxy.count("GET", ".warc.gz", FLIPPED) > 0
    assert report.failures == []
    assert contents(fs, url) == contents(fs, calm_index[0])


def test_archive_whose_bytes_always_change_is_never_indexed_silently(options, proxy, client, tmp_path):
    proxy.begin({FLIPPED: 1.0}, only="00003.warc.gz")
    report = build(CRAWL_URL, str(tmp_path), client=client, storage_options=options)
    assert report.n_done == 5
    assert [failure.reason.split(":", 2)[2] for failure in report.failures] == [" try again later"]


def test_append_and_resume_on_s3(fs, calm_index, options, proxy, client):
    url = "s3://indexes/appended"
    shared = {"client": client, "storage_options": options, "index_options": options}
    assert build(CRAWL_URL, url, limit=2, **shared).n_done == 2
    segment = open_index(url, options).segments[0].segment_id
    fs.rm(f"indexes/appended/{SEGMENTS}/{segment}/{SUMMARY}")
    fs.rm("indexes/appended/catalog.json.gz")
    assert [problem.is_orphan for problem in open_index(url, options).check()] == [True]
    report = build(CRAWL_URL, url, **shared)
    assert (report.n_already_indexed, report.n_done) == (1, 5)
    assert contents(fs, url) == contents(fs, calm_index[0])
    proxy.begin()
    assert build(CRAWL_URL, url, **shared).n_already_indexed == 6
    assert proxy.count("PUT") == 0


def test_catalog_that_went_stale_is_noticed_and_replaced(fs, calm_index, options, proxy, client):
    url = "s3://indexes/stale"
    shared = {"client": client, "storage_options": options, "index_options": options}
    build(CRAWL_URL, url, limit=1, **shared)
    outdated = fs.cat_file("indexes/stale/catalog.json.gz")
    build(CRAWL_URL, url, limit=1, page_filter=_filter(min_bytes=4096), **shared)
    assert open_index(url, options).check() == []
    fs.pipe_file("indexes/stale/catalog.json.gz", outdated)
    index = open_index(url, options)
    assert [problem.path for problem in index.check()] == ["catalog.json.gz"]
    assert index.check(repair=True) == []
    assert open_index(url, options).check() == []


def _filter(**values):
    from treesim_dask.config import PageFilter

    return PageFilter(**values)


def test_wrong_secret_is_refused_in_one_clear_line(s3_service, calm_index, tmp_path, capsys):
    wrong = s3_service.options(secret="wrong")
    with pytest.raises(SourceError, match=r"no permission to read s3://crawl/.*credentials"):
        build(CRAWL_URL, str(tmp_path / "index"), storage_options=wrong)
    with pytest.raises(StorageError, match=r"no access to s3://indexes/new.*--index-option"):
        build(CRAWL_URL, "s3://indexes/new", storage_options=s3_service.options(), index_options=wrong)
    with pytest.raises((IndexFormatError, StorageError), match="indexes/calm"):
        open_index(calm_index[0], wrong)
    flags = [word for key, value in wrong.items() for word in ("--index-option", f"{key}={value}")]
    assert main(["info", calm_index[0], *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_profile_of_the_environment_opens_input_and_index(s3_service, fs, proxy, tmp_path, monkeypatch, capsys):
    account = s3_service.options()
    credentials = f"[crawler]\naws_access_key_id = {account['key']}\naws_secret_access_key = {account['secret']}\n"
    (tmp_path / "credentials").write_text(credentials)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_service.endpoint)
    places = [CRAWL_URL, "--index", "s3://indexes/by-profile"]
    options = ["--storage-option", "profile=crawler", "--index-option", "profile=crawler"]
    assert main(["build", *places, *options, "--shard", "1/1", "--quiet"]) == 0
    assert "120 in" in capsys.readouterr().out


def test_requester_pays_for_every_request_of_the_input(options, proxy, fs, tmp_path):
    build(CRAWL_URL, str(tmp_path), shard=(1, 1), storage_options={**options, "requester_pays": True})
    assert proxy.count("GET", ".warc.gz") == 6
    assert {request.payer for request in proxy.requests} == {"requester"}


def test_anonymous_reader_of_common_crawl_is_told_what_to_do(s3_service, fs, client, tmp_path):
    anonymous = {"endpoint_url": s3_service.endpoint, "anon": True}
    with pytest.raises(SourceError, match=r"refuses anonymous reads: use https://data\.commoncrawl\.org/"):
        build(f"s3://{PUBLIC_BUCKET}/", str(tmp_path), client=client, storage_options=anonymous)


def test_no_secret_in_the_index(fs, calm_index, s3_service):
    secret = s3_service.options()["secret"].encode()
    import gzip

    for path, data in contents(fs, calm_index[0]).items():
        assert secret not in (gzip.decompress(data) if path.endswith(".gz") else data), path


N_SEGMENTS = 306


@pytest.fixture(scope="module")
def index_of_300_segments(fs, client, tmp_path_factory):
    """An index of 306 archives, and beside it the same compacted; both were made on disk, which is quicker."""
    folder = tmp_path_factory.mktemp("many")
    write_demo_crawl(folder / "crawl", n_pages=10 * N_SEGMENTS, n_files=N_SEGMENTS)
    build(str(folder / "crawl"), str(folder / "index"), client=client)
    fs.put(str(folder / "index"), "indexes/many", recursive=True)
    assert compact(str(folder / "index")).n_segments == 1
    fs.put(str(folder / "index"), "indexes/many-compacted", recursive=True)
    return "s3://indexes/many"


@pytest.fixture
def ask(proxy, options, capsys):
    """Run a command on an index as a user does, and return what it printed and what it asked of the store."""
    pairs = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in options.items()]
    flags = [part for pair in pairs for part in ("--index-option", pair)]

    def run(*command):
        proxy.begin()
        assert main([*command, *flags, "--json"]) == 0
        return json.loads(capsys.readouterr().out), list(proxy.requests)

    return run


# index.json, the catalog, what says that the folder is there, and listings of a thousand names each
MOST_TO_OPEN = 8


@pytest.mark.parametrize(("suffix", "n_segments"), [("", N_SEGMENTS), ("-compacted", 1)])
def test_hundreds_of_segments_are_listed_in_a_few_requests(suffix, n_segments, index_of_300_segments, ask):
    url = index_of_300_segments + suffix
    info, requests = ask("info", url)
    assert (info["n_segments"], info["n_pages"]) == (n_segments, 10 * N_SEGMENTS)
    assert len(requests) <= MOST_TO_OPEN
    problems, requests = ask("check", url, "--quick")
    assert problems == []
    # the names and sizes of all files, twelve a segment, in listings of a thousand; the rest as above, twice
    assert len(requests) <= 2 * MOST_TO_OPEN + 12 * n_segments // 1000
    assert not any(request.path.endswith((".parquet", SUMMARY, "zarr.json", "/c/0")) for request in requests)


def test_query_of_hundreds_of_segments_opens_what_it_needs(index_of_300_segments, options, ask):
    page = f"id:{open_index(index_of_300_segments, options).segments[0].segment_id}-3"
    expected, before = ask("query", page, "--index", index_of_300_segments)
    # Of each segment the band table: its size, its footer, its row groups. Of a segment with candidates also the three
    # arrays of its vectors (layout, index of the shard, chunk) and its page table. No summary, and nothing is listed.
    n_candidates = expected[0]["n_candidates"]
    assert len(before) <= MOST_TO_OPEN + 3 * N_SEGMENTS + 12 * n_candidates
    opened = {request.path for request in before}
    assert not any(path.endswith((SUMMARY, "skipped.parquet")) or "signatures" in path for path in opened)
    # Compacted, the band table has a lookup and is ordered over all segments; vectors and pages are in one part:
    # 3 Parquet files, and 5 arrays of a layout and a shard each, however many segments there were.
    answer, after = ask("query", page, "--index", f"{index_of_300_segments}-compacted")
    assert answer[0]["matches"] == expected[0]["matches"]
    assert len({request.path for request in after}) <= MOST_TO_OPEN + 3 + 5 * 2
    assert 10 * len(after) < len(before)


def test_compaction_on_s3_changes_no_answer_and_saves_requests(calm_index, fs, options, proxy):
    compacted = "s3://indexes/compacted"
    fs.cp(calm_index[0], compacted, recursive=True)
    page = f"id:{open_index(compacted, options).segments[0].segment_id}-3"
    before = open_index(compacted, options).search(page, k=20).matches
    assert compact(compacted, index_options=options).n_segments == 1
    index = open_index(compacted, options)
    proxy.begin()
    assert index.search(page, k=20).matches == before
    assert len(proxy.requests) <= 25  # of one segment, however many there were
    assert index.check() == []


def test_index_without_its_catalog_is_the_same_index(index_of_300_segments, options, fs, proxy):
    with_catalog = open_index(index_of_300_segments, options).info
    catalog = fs.cat_file("indexes/many/catalog.json.gz")
    fs.rm("indexes/many/catalog.json.gz")
    try:
        assert open_index(index_of_300_segments, options).info == with_catalog
    finally:
        fs.pipe_file("indexes/many/catalog.json.gz", catalog)


def test_quick_check_finds_missing_and_cut_files(index_of_300_segments, options, fs):
    name = open_index(index_of_300_segments, options).segments[7].segment_id
    folder = f"indexes/many/{SEGMENTS}/{name}"
    bands, pages = (fs.cat_file(f"{folder}/{part}") for part in ("bands.parquet", "pages.parquet"))
    fs.rm(f"{folder}/bands.parquet")
    fs.pipe_file(f"{folder}/pages.parquet", pages[:-1])
    try:
        problems = open_index(index_of_300_segments, options).check(quick=True)
        assert {problem.path: problem.what for problem in problems} == {
            f"{SEGMENTS}/{name}/bands.parquet": "missing",
            f"{SEGMENTS}/{name}/pages.parquet": f"has {len(pages) - 1} bytes, {len(pages)} were written",
        }
    finally:
        fs.pipe({f"{folder}/bands.parquet": bands, f"{folder}/pages.parquet": pages})


@pytest.mark.parametrize("n", [5, 16, 22])
def test_source_is_served_until_all_of_its_successor_is_there(fs, options, small_crawl, tmp_path, monkeypatch, n):
    """Killed in the middle of the exchange and then unreadable, it is there as it was before or after."""
    archive, url = tmp_path / "a.warc.gz", f"s3://indexes/exchanged{n}"
    versions = [path.read_bytes() for path in sorted(small_crawl.rglob("*.warc.gz"))[:2]]
    pages = []
    for version, place in zip(versions[::-1], (str(tmp_path / "index"), url), strict=True):
        archive.write_bytes(version)
        build(str(archive), place, shard=(1, 1), index_options=options if place == url else None)
        pages.append(sorted(open_index(place, options if place == url else None).pages.compute()["url"]))
    archive.write_bytes(versions[1])
    with monkeypatch.context() as patch:
        kill_at_call(patch, n, [(Store(url, options).fs, name) for name in ("pipe_file", "cp_file")])
        with pytest.raises(Killed):
            build(str(archive), url, shard=(1, 1), index_options=options)
    archive.write_bytes(versions[1][:-100])
    with pytest.raises(SourceError, match="damaged"):
        build(str(archive), url, strict=True, shard=(1, 1), index_options=options)
    index = open_index(url, options)
    assert sorted(index.pages.compute()["url"]) in pages
    assert index.check(repair=True) == []
    assert Store(url, options).find_sizes("staging") == {}


def test_merge_that_fails_leaves_nothing_here_or_there(calm_index, fs, options, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fs.copy("indexes/calm", "indexes/hurt", recursive=True)
    fs.rm(min(fs.glob("indexes/hurt/segments/*/pages.parquet")))
    with pytest.raises(IndexFormatError, match=r"pages\.parquet is missing"):
        merge(["s3://indexes/hurt"], "s3://indexes/none", options)
    assert list(tmp_path.iterdir()) == []
    assert Store("s3://indexes/none", options).find_sizes("") == {}

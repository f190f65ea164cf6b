"""What a user gives by mistake: each is refused before anything is done, with what to give instead."""

import pickle
from datetime import datetime

import pytest
from commands import assert_refused, run
from indexes import all_pages, random_sources, write_index

import treesim_dask
from treesim_dask import Conditions, IndexConfig, PageFilter, check, merge, open_index
from treesim_dask.cli.options import read_options
from treesim_dask.config import METRIC_NAMES
from treesim_dask.errors import ConfigError, StorageError
from treesim_dask.index.store import Store
from treesim_dask.query.metrics import DEFAULT_METRIC, METRICS
from treesim_dask.query.options import SearchOptions

PAGES = all_pages(random_sources(seed=5))
NO_HOSTS = ["", ".", "https://example.org/", "example.org:80", "[::1]:80", "*.example.org", "example.org/a", "a b"]


@pytest.fixture
def url(tmp_path):
    return write_index(tmp_path / "index", random_sources(seed=5)).url


@pytest.mark.parametrize("made", [lambda hosts: Conditions(hosts=hosts), lambda hosts: PageFilter(hosts=hosts)])
def test_a_host_is_given_alone(made):
    for host in NO_HOSTS:
        with pytest.raises(ConfigError, match="host"):
            made((host,))
    with pytest.raises(ConfigError, match=r"give the host alone: example\.org;"):
        made(("https://Example.org:8080/a",))
    assert made(("Example.org.", "example.org", "::1")).hosts == ("::1", "example.org")


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_is_no_host_deletes_nothing(url, host, capsys):
    """A script with an unset variable gives the empty one; pages of plain files have no host."""
    assert_refused(run(capsys, "delete", url, "--host", host), "host")
    assert open_index(url).info.n_pages == len(PAGES)


@pytest.mark.parametrize("option", ["--url", "--page", "--warc"])
def test_an_empty_name_deletes_nothing(url, option, capsys):
    assert_refused(run(capsys, "delete", url, option, ""), "is empty")


def test_a_public_suffix_is_deleted_on_request_only(url, capsys):
    is_british = [page["url"].split("/")[2].endswith(".co.uk") for page in PAGES]
    for host in ("uk", "co.uk", "example"):
        assert_refused(run(capsys, "delete", url, "--host", host), host, "--whole-suffix")
    assert open_index(url).delete(hosts=["co.uk"], whole_suffix=True) == sum(is_british) > 0
    assert open_index(url).info.n_pages == len(PAGES) - sum(is_british) > 0


@pytest.mark.parametrize("place", ["", " ", "s3://", "file:///", "memory://"])
def test_an_index_location_names_a_folder(place, capsys):
    with pytest.raises(StorageError, match="names no folder"):
        Store(place)
    assert_refused(run(capsys, "info", place), "names no folder")


def test_an_index_below_the_home_folder_and_as_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Store("~/a.index").url == Store(tmp_path / "a.index").url == str(tmp_path / "a.index")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Conditions(hosts="example.org"),
        lambda: PageFilter(hosts="example.org"),
        lambda: IndexConfig(spliced_tags="script"),
        lambda: IndexConfig(spliced_tags=[b"script"]),
        lambda: IndexConfig(width="x"),
        lambda: IndexConfig(width=None),
        lambda: PageFilter(min_bytes="64"),
        lambda: PageFilter(url_pattern=None),
        lambda: Conditions(since=datetime(2026, 2, 1)),
        lambda: Conditions(until="2026-02-01"),
        lambda: Conditions(min_nodes=-3),
        lambda: SearchOptions(k="5"),
        lambda: SearchOptions(k=2.5),
        lambda: SearchOptions(k=True),
        lambda: SearchOptions(bucket_cap=1.5),
        lambda: SearchOptions(n_agree=0),
    ],
)
def test_values_of_another_kind_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"must be|not a regular"):
        wrong()


@pytest.mark.parametrize("name", ["n_agree", "bands_and_rows", "metrics"])
def test_options_that_a_search_does_not_have(url, name):
    with pytest.raises(ConfigError, match=f"no option '{name}'; there are"):
        open_index(url).search("page.html", **{name: 1})


def test_the_names_of_the_metrics_are_those_of_the_registry():
    assert (tuple(METRICS), METRIC_NAMES[0]) == (METRIC_NAMES, DEFAULT_METRIC)


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(ConfigError("k must be at least 1, got 0", "k")))
    assert (str(error), error.parameters) == ("k must be at least 1, got 0", ("k",))


def test_paths_are_taken_wherever_names_are(tmp_path):
    page = tmp_path / "pages" / "a.html"
    page.parent.mkdir()
    page.write_text("<html><body>" + "<div><p>text</p></div>" * 20 + "</body></html>")
    index = tmp_path / "index"
    assert treesim_dask.build([page], index, shard=(1, 1)).n_pages == 1
    assert treesim_dask.build(page.parent, tmp_path / "other", shard=(1, 1)).n_pages == 1
    assert treesim_dask.make_plan(page, workers=1).n_sources == 1
    opened = open_index(index)
    assert opened.query(page)["warc"].tolist() == opened.query(str(page))["warc"].tolist() == [str(page)]
    assert len(list(opened.search_batch(page.parent))) == 1
    assert merge(index, tmp_path / "copy") == 1
    assert check(tmp_path / "copy") == []
    assert opened.export(tmp_path / "tables")["pages"] == 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("query", "id:x", "-k", 0), "-k must be at least 1"),
        (("query", "id:x", "--memory", -1), "--memory must be at least 0, got -1"),
        (("query", "id:x", "--url-regex", "("), "--url-regex is not a regular expression"),
        (("query", "id:x", "--bucket-cap", 0), "--bucket-cap must be at least 1"),
        (("query", "id:x", "--host", "https://example.org/"), "give the host alone: example.org"),
        (("build", "x", "--rows", 0), "--rows must be a whole number"),
        (("build", "x", "--min-bytes", 9, "--max-bytes", 8), "--min-bytes must be at most --max-bytes"),
        (("build", "x", "--max-connections", 0), "--max-connections must be at least 1"),
        (("build", "x", "--threshold", 0.6), "--bands 6 and "),
    ],
)
def test_messages_name_what_was_typed(url, argv, words, capsys):
    assert_refused(run(capsys, *argv, "--index", url), words)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("plan", "nowhere.warc", "--cores-per-job", 0), "--cores-per-job must be at least 1"),
        (("plan", "nowhere.warc", "--hours-per-job", 0), "--hours-per-job must be above 0"),
        (("plan", "nowhere.warc", "--sample-mib", "nan"), "--sample-mib must be above 0"),
        (("demo", "--pages", 0), "--pages must be at least 1"),
        (("demo", "--pages", 2, "--files", 3), "--files must be from 1 to --pages = 2"),
        (("compact", "nowhere", "--max-pages", 0), "--max-pages must be at least 1, got 0"),
    ],
)
def test_numbers_are_looked_at_before_any_work(argv, words, capsys):
    assert_refused(run(capsys, *argv), words)


def test_eval_names_its_option(url, capsys):
    assert_refused(run(capsys, "eval", url, "--queries", 0, "--quiet"), "--queries must be at least 1")


def test_nothing_a_crawl_holds_reaches_the_terminal_as_a_command(tmp_path, capsys):
    address = "https://www.site1.example/\x1b[31mred\x1b]0;t\x07\x9b1m\u202egnp.exe\x7f\n/ä"
    shown = r"https://www.site1.example/\x1b[31mred\x1b]0;t\x07\x9b1m\u202egnp.exe\x7f\n/ä"
    sources = {"file:///a.warc": [{**PAGES[0], "url": address}]}
    index = write_index(tmp_path / "index", sources).url
    code, out, err = run(capsys, "query", f"id:{all_pages(sources)[0]['page_id']}", "--index", index)
    assert (code, err) == (0, "")
    assert shown in out
    _, _, err = run(capsys, "query", "\x1b[2J.html", "--index", index)
    assert r"there is no file \x1b[2J.html;" in err
    for path in (tmp_path / "index" / "segments").glob("*/pages.parquet"):
        path.rename(path.with_name("a\x1b[2J"))
    _, out, _ = run(capsys, "check", index)
    assert r"/a\x1b[2J:" in out
    assert "\x1b" not in out


NOBODY = "http://127.0.0.1:1"
KEYS = ("key=a", "secret=b", f"endpoint_url={NOBODY}", 'config_kwargs={"retries":{"max_attempts":1}}')


@pytest.mark.parametrize(
    ("place", "options", "words"),
    [
        ("s3://bucket/my.index", KEYS, "no answer from s3://bucket/my.index"),
        ("s3://bucket/my.index", KEYS[2:], "no credentials for s3://bucket/my.index"),
        (f"{NOBODY}/my.index", (), f"no answer from {NOBODY}/my.index"),
    ],
)
def test_a_store_that_does_not_answer(place, options, words, url, capsys, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    given = [part for option in options for part in ("--index-option", option)]
    assert_refused(run(capsys, "info", place, *given), words)
    store = Store(place, read_options(options))
    uses = [
        lambda: store.read_bytes("a"),
        lambda: store.read_ranges([("a", 0, 1)]),
        lambda: store.read_tail("a", 1),
    ]
    if place.startswith("s3://"):  # of the web fsspec says that there is no such file, and writes nothing
        uses += [lambda: store.open_binary("a").read(), lambda: store.write_bytes("a", b"x")]
    for use in uses:
        with pytest.raises(StorageError, match=r"no answer|no credentials"):
            use()

"""Input over HTTP from a server with Common Crawl's layout; limits, politeness, progress and secrets on a cluster."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from services.certificates import make_certificate
from services.crawl_server import run_crawl_server

from treesim_dask import __version__
from treesim_dask.builder import build
from treesim_dask.config import IndexConfig
from treesim_dask.dataflow import BuildJob
from treesim_dask.demo.crawl import DEFAULT_CRAWL_ID
from treesim_dask.errors import ConfigError, SourceError
from treesim_dask.index.manifest import write_manifest
from treesim_dask.index.store import Store

CRAWL_ID = "CC-MAIN-2026-02"


@pytest.fixture(scope="module")
def server(small_crawl, tmp_path_factory):
    """The small crawl under a crawl id as Common Crawl names them."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "crawl-data").mkdir()
    (folder / "crawl-data" / CRAWL_ID).mkdir()
    listed = gzip.decompress((small_crawl / "crawl-data" / DEFAULT_CRAWL_ID / "warc.paths.gz").read_bytes())
    (folder / "crawl-data" / CRAWL_ID / "warc.paths.gz").write_bytes(gzip.compress(listed))
    (folder / "crawl-data" / DEFAULT_CRAWL_ID).symlink_to(small_crawl / "crawl-data" / DEFAULT_CRAWL_ID)
    with run_crawl_server(folder) as server:
        yield server


@pytest.fixture
def shared(server, client):
    server.begin()
    return {"client": client, "crawl_base_url": server.url}


def archives(server):
    return [request for request in server.requests if request[1].endswith(".warc.gz")]


def test_crawl_id_over_http_is_one_polite_request_a_file(server, shared, tmp_path):
    report = build(CRAWL_ID, str(tmp_path / "index"), **shared)
    assert (report.n_done, report.n_pages) == (6, 120)
    assert len(archives(server)) == 6
    assert {agent for _, _, _, agent in archives(server)} == {f"treesim-dask/{__version__}"}


@pytest.mark.parametrize("is_trusted", [True, False])
def test_crawl_over_https_needs_a_trusted_certificate(is_trusted, small_crawl, tmp_path):
    certificate, context = make_certificate(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    if is_trusted:
        environment["SSL_CERT_FILE"] = str(certificate)
    with run_crawl_server(small_crawl, tls=context) as server:
        listed = f"{server.url}/crawl-data/{DEFAULT_CRAWL_ID}/warc.paths.gz"
        arguments = [listed, "--crawl-base-url", server.url, "--shard", "1/1", "--index", str(tmp_path / "index")]
        command = [sys.executable, "-m", "treesim_dask", "build", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == (0 if is_trusted else 2)
    assert ("120 in" in done.stdout) if is_trusted else ("no secure connection" in done.stderr)


def test_overloaded_server_is_left_alone_as_long_as_it_asks(server, shared, tmp_path):
    server.begin(n_overloaded=1, retry_after="2")
    report = build(CRAWL_ID, str(tmp_path / "index"), limit=2, **shared)
    assert (report.n_done, report.failures) == (2, [])
    for path in {path for _, path, _, _ in archives(server)}:
        first, second = server.times(path)
        assert second - first >= 2.0


@pytest.mark.parametrize(("status", "complaint"), [(403, "refuses this address"), (404, "no such file")])
def test_refusals_are_explained(status, complaint, server, shared, tmp_path):
    server.begin(statuses={".warc.gz": status})
    with pytest.raises(SourceError, match=complaint):
        build(CRAWL_ID, str(tmp_path / "index"), limit=1, **shared)


def test_redirects_are_followed(server, shared, tmp_path):
    server.begin(statuses={"moved/": 302})
    listed = server.folder / "moved.txt"
    path = next(server.folder.glob("crawl-data/DEMO*/segments/*/warc/*.warc.gz")).relative_to(server.folder)
    listed.write_text(f"{server.url}/moved/{path}\n")
    assert build(str(listed), str(tmp_path / "index"), **shared).n_done == 1


@pytest.mark.parametrize("max_connections", [1, 2])
def test_connections_are_limited_over_all_workers(max_connections, server, shared, tmp_path):
    server.begin(seconds_per_file=0.3)
    report = build(CRAWL_ID, str(tmp_path / "index"), max_connections=max_connections, **shared)
    assert report.n_done == 6
    assert server.most_open == max_connections


def test_impossible_limit_is_refused(shared, tmp_path):
    with pytest.raises(ConfigError, match="max_connections must be at least 1, got 0"):
        build(CRAWL_ID, str(tmp_path / "index"), max_connections=0, **shared)


def test_progress_moves_inside_a_file(shared, tmp_path):
    """600 pages in two batches with a pause between them: the second second shows what the first batch gave."""
    from treesim_dask.demo.crawl import write_demo_crawl

    folder = tmp_path / "long"
    write_demo_crawl(folder, n_pages=600, n_files=1)
    seen = []
    with run_crawl_server(folder) as server:
        server.begin(seconds_per_file=4.0)
        (folder / "list.txt").write_text(f"{server.url}/{next(folder.rglob('*.warc.gz')).relative_to(folder)}\n")
        build(
            str(folder / "list.txt"),
            str(tmp_path / "index"),
            client=shared["client"],
            on_progress=lambda report: seen.append((report.n_done, report.n_pages_so_far)),
        )
    assert seen[-1] == (1, 600)
    assert any(n_done == 0 and 0 < n_pages < 600 for n_done, n_pages in seen)


def test_tasks_have_readable_names(shared, small_crawl, tmp_path):
    from distributed.utils import key_split

    from treesim_dask.api import open_index

    client = shared["client"]
    build(str(small_crawl), str(tmp_path / "index"), client=client)
    index = open_index(str(tmp_path / "index"))
    index.search(f"id:{index.segments[0].segment_id}-0", client=client)
    names = {key_split(key) for tasks in client.run(_task_names).values() for key in tasks}
    assert {"index-warc", "filter-rerank"} <= names
    assert any(name.startswith("merge-top-k") for name in names)


def _task_names(dask_worker):
    return [
        event[0] for event in dask_worker.state.log if isinstance(event, tuple) and isinstance(event[0], str | tuple)
    ]


def test_workers_show_their_pages_on_the_dashboard(shared, small_crawl, tmp_path):
    build(str(small_crawl), str(tmp_path / "index"), client=shared["client"])
    metrics = shared["client"].run(lambda dask_worker: set(dask_worker.metrics))
    assert any({"pages", "pages_per_s"} <= names for names in metrics.values())


def test_secrets_are_in_no_text_that_may_be_logged(tmp_path):
    from treesim_dask.config import IndexConfig, PageFilter

    secrets = {"key": "me", "secret": "do-not-print"}
    job = BuildJob(str(tmp_path), IndexConfig(), PageFilter(), False, secrets, secrets)
    assert "do-not-print" not in repr(job) + repr(Store(str(tmp_path), secrets))


def test_secrets_are_not_in_the_logs_and_keys_of_a_failed_build(shared, small_crawl, tmp_path):
    client = shared["client"]
    write_manifest(Store(str(tmp_path / "index")), IndexConfig())
    (tmp_path / "index" / "segments").write_text("a file in the way of what the workers want to write")
    secret = "a-secret-of-the-test"
    with pytest.raises(OSError, match="in the way"):
        build(str(small_crawl), str(tmp_path / "index"), client=client, storage_options={"password": secret})
    logs = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    assert "index-warc" in logs
    assert secret not in logs + str(client.run(_task_names))

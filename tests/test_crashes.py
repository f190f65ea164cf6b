"""Any process may die at any moment: run the build again and nothing is missing or doubled."""

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import psutil
import pytest
from distributed import Client, LocalCluster

from treesim_dask import build
from treesim_dask.demo.crawl import write_demo_crawl

N_KILLS = 8


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crash-crawl")
    write_demo_crawl(folder, n_pages=1200, n_files=8, seed=5)
    return sorted(str(path) for path in folder.rglob("*.warc.gz"))


@pytest.fixture(scope="module")
def undisturbed(archives, client, tmp_path_factory):
    url = tmp_path_factory.mktemp("calm") / "index"
    build(archives, str(url), client=client)
    return url


def start_build(archives, index):
    command = [sys.executable, "-m", "treesim_dask", "build", *archives, "--index", str(index), "--workers", "2"]
    return subprocess.Popen([*command, "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process):
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors.decode()


def workers_of(process):
    """The processes that do the work: the children Dask spawned, without multiprocessing's resource tracker."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    except psutil.Error:
        return []


def n_published(index):
    return len(list(Path(index).glob("segments/*/segment.json")))


def test_a_killed_worker_costs_nothing(archives, undisturbed, tmp_path, tree_digest):
    rng = Random(1)
    index = tmp_path / "index"
    process = start_build(archives, index)
    n_killed = 0
    while process.poll() is None and n_killed < 2:
        workers = workers_of(process)
        if workers and n_published(index) >= n_killed + 1:
            rng.choice(workers).kill()
            n_killed += 1
        time.sleep(rng.uniform(0, 0.05))
    returncode, errors = finish(process)
    assert returncode == 0, errors
    assert n_killed > 0
    assert tree_digest(index) == tree_digest(undisturbed)


def test_a_killed_build_goes_on_where_it_was(archives, undisturbed, tmp_path, tree_digest):
    rng = Random(2)
    index = tmp_path / "index"
    seen = []
    for _ in range(N_KILLS):
        process = start_build(archives, index)
        before, delay = n_published(index), rng.uniform(0, 0.6)
        while process.poll() is None and n_published(index) == before and delay > 0:
            time.sleep(0.01)
            # let some runs die before their first segment, the others soon after it
            delay -= 0.01 if workers_of(process) else 0
        process.kill()
        finish(process)
        seen.append(n_published(index))
    assert seen == sorted(seen)  # nothing that was published is ever lost
    returncode, errors = finish(start_build(archives, index))
    assert returncode == 0, errors
    assert tree_digest(index) == tree_digest(undisturbed)


def test_ctrl_c_ends_cleanly_and_the_build_goes_on(archives, undisturbed, tmp_path, tree_digest):
    index = tmp_path / "index"
    process = start_build(archives, index)
    while process.poll() is None and n_published(index) == 0:
        time.sleep(0.01)
    workers = workers_of(process)
    process.send_signal(2)
    returncode, errors = finish(process)
    assert returncode in (0, 130), errors  # 0 where the build was quicker than the signal
    assert "Traceback" not in errors
    psutil.wait_procs(workers, timeout=30)
    assert not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers)
    assert finish(start_build(archives, index))[0] == 0
    assert tree_digest(index) == tree_digest(undisturbed)


def test_a_page_that_fills_the_memory_costs_its_file_no_other_page(tmp_path):
    """Its workers are killed again and again; then the file is read with care."""
    formats = b"".join(b"<b a=%d>" % i for i in range(1000))
    hostile = b"<p>" + formats + b"</p><div>x</div>" * 8000  # 8 million elements
    for name, html in {"hostile.html": hostile, "plain.html": b"<p>x</p>" * 100}.items():
        (tmp_path / name).write_bytes(html)
    limits = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "700MB", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**limits, silence_logs="CRITICAL") as cluster, Client(cluster) as client:
        report = build([str(tmp_path)], str(tmp_path / "index"), client=client)
    assert (report.n_pages, dict(report.skipped), report.failures) == (1, {"too-costly": 1}, [])

"""Scheduler and workers on separate network hosts, one of which is cut off in the middle of a build."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from services.hosts import run_hosts
from services.ports import wait_until

from treesim_dask.builder import build
from treesim_dask.demo.crawl import write_demo_crawl

pytestmark = [pytest.mark.netns, pytest.mark.timeout(200)]

ROOT = Path(__file__).parent.parent
# Dask refuses connection timeouts of less than 11 seconds, and waits for a silent worker for 5 minutes by default.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
}


def published(folder):
    """The files of an index without those of a worker that was killed while it wrote."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {
        name: path.read_bytes() for path in files if not (name := str(path.relative_to(folder))).startswith("staging")
    }


def test_build_survives_a_host_that_is_cut_off(tmp_path):
    crawl, index = tmp_path / "crawl", tmp_path / "index"
    write_demo_crawl(crawl, n_pages=1600, n_files=16)
    build(str(crawl), str(tmp_path / "expected"), shard=(1, 1))
    environment = {**os.environ, **ENVIRONMENT}
    with run_hosts(3, tmp_path) as hosts:
        address = f"tcp://{hosts.address(0)}:8786"
        dask = [sys.executable, "-m", "dask"]
        hosts.start(0, *dask, "scheduler", "--host", hosts.address(0), "--no-dashboard", environment=environment)
        for number in (1, 2):
            options = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path / f"disk{number}")]
            hosts.start(number, *dask, "worker", address, *options, environment=environment)
        wait_until("two workers are connected", lambda: _n_workers(hosts, address, environment) == 2, 60, 1.0)
        command = [sys.executable, "-m", "treesim_dask", "build", str(crawl), "--index", str(index)]
        building = subprocess.Popen(
            hosts.command(0, *command, "--scheduler", address), env=environment, stdout=subprocess.PIPE, text=True
        )
        wait_until("a segment is published", lambda: any(index.glob("segments/*/segment.json")), 60)
        hosts.pull_cable(2)
        output, _ = building.communicate(timeout=150)
    assert building.returncode == 0
    assert "16 indexed" in output
    assert published(index) == published(tmp_path / "expected")


def _n_workers(hosts, address, environment):
    ask = f"from distributed import Client; print(len(Client('{address}', timeout=5).scheduler_info()['workers']))"
    command = hosts.command(0, sys.executable, "-c", ask)
    return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout or 0)

"""Builds on a real Slurm with two nodes: jobs that die, jobs that run out of time, jobs that are refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from services.crawl_server import run_crawl_server
from services.ports import wait_until

from treesim_dask.builder import build
from treesim_dask.cli import main
from treesim_dask.errors import ConfigError

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]

ROOT = Path(__file__).parent.parent


@pytest.fixture
def slurm(slurm_service):
    return slurm_service


@pytest.fixture(autouse=True)
def no_job_left_behind(slurm):
    yield
    wait_until("no job is left in the queue", lambda: not slurm.jobs(), 15)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    """A crawl on a web server, since only there reading can be made slow."""
    from treesim_dask.demo.crawl import write_demo_crawl

    folder = tmp_path_factory.mktemp("web")
    write_demo_crawl(folder, n_pages=160, n_files=8)
    with run_crawl_server(folder) as server:
        yield server


@pytest.fixture(scope="module")
def inputs(crawl):
    """A list of the archives, as a user would give it."""
    paths = sorted(crawl.folder.rglob("*.warc.gz"))
    target = crawl.folder / "inputs.txt"
    target.write_text("".join(f"{crawl.url}/{path.relative_to(crawl.folder)}\n" for path in paths))
    return str(target)


@pytest.fixture(scope="module")
def expected(inputs, tmp_path_factory):
    """The index as one process builds it."""
    folder = tmp_path_factory.mktemp("expected")
    build(inputs, str(folder), shard=(1, 1))
    return contents(folder)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.fixture
def site(tmp_path):
    """Write the settings of a site and return the value for --cluster."""

    def write(walltime="00:10:00", queue="main"):
        path = tmp_path / "site.yaml"
        path.write_text(
            "jobqueue:\n  slurm:\n    cores: 1\n    memory: 2GB\n    interface: lo\n    death-timeout: 20\n"
            f"    queue: {queue}\n    walltime: '{walltime}'\n    log-directory: {tmp_path}\n"
        )
        return str(path)

    return write


def test_command_line_builds_with_two_jobs(slurm, crawl, inputs, expected, site, tmp_path, capsys):
    crawl.begin()
    index = tmp_path / "index"
    assert main(["build", inputs, "--cluster", site(), "--jobs", "2", "--tls", "--index", str(index)]) == 0
    assert "160 in" in capsys.readouterr().out
    assert contents(index) == expected


def test_cancelled_job_is_replaced(slurm, crawl, inputs, expected, site, tmp_path):
    crawl.begin(seconds_per_file=1.5)
    cancelled = []

    def cancel_one(report):
        if not cancelled:
            cancelled.append(slurm.running()[0])
            slurm.cancel(cancelled[0])

    report = build(inputs, str(tmp_path / "index"), cluster=site(), jobs=2, on_progress=cancel_one)
    assert (report.n_done, report.failures) == (8, [])
    assert slurm.finished()[cancelled[0]] == "CANCELLED"
    assert contents(tmp_path / "index") == expected


@pytest.mark.slow
def test_walltime_that_ends_in_the_middle(slurm, crawl, inputs, expected, site, tmp_path):
    crawl.begin(seconds_per_file=12.0)
    ended = []

    def end_walltime(report):
        """Slurm counts walltimes in minutes: set the end of both to now, and it ends them when it looks next."""
        if not ended:
            ended.extend(slurm.running())
            for job in ended:
                slurm.end_walltime(job)

    report = build(
        inputs, str(tmp_path / "index"), cluster=site("00:02:00"), jobs=2, lifetime="0", on_progress=end_walltime
    )
    assert (report.n_done, report.failures) == (8, [])
    assert len(ended) == 2
    assert {slurm.finished()[job] for job in ended} == {"TIMEOUT"}
    assert contents(tmp_path / "index") == expected


def test_workers_leave_before_the_walltime_and_the_build_goes_on(slurm, crawl, inputs, expected, site, tmp_path):
    crawl.begin(seconds_per_file=3.0)
    before = set(slurm.finished())
    report = build(inputs, str(tmp_path / "index"), cluster=site("00:01:00"), jobs=2, lifetime="12s")
    assert (report.n_done, report.failures) == (8, [])
    wait_until("the jobs are finished", lambda: not slurm.jobs(), 15)
    states = [state for job, state in slurm.finished().items() if job not in before]
    assert len(states) > 2, "no worker was replaced"
    assert "TIMEOUT" not in states
    assert contents(tmp_path / "index") == expected


def _hear_signals():
    """A test run in the background ignores Ctrl-C, and its children would too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupted_command_leaves_no_job(number, slurm, crawl, inputs, expected, site, tmp_path):
    crawl.begin(seconds_per_file=5.0)
    index = tmp_path / "index"
    arguments = [inputs, "--cluster", site(), "--jobs", "2", "--index", str(index)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "treesim_dask", "build", *arguments]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=_hear_signals)
    wait_until("jobs run", lambda: bool(slurm.running()), 60)
    time.sleep(1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "goes on from here" in errors
    assert "Traceback" not in errors


def test_refused_job_is_said_in_one_line(slurm, inputs, site, tmp_path):
    with pytest.raises(ConfigError, match=r"refused the job:.*[Ii]nvalid partition"):
        build(inputs, str(tmp_path / "index"), cluster=site(queue="nowhere"), jobs=1)
    assert not (tmp_path / "index").exists()


def test_job_array_without_dask_gives_the_same_index(slurm, crawl, inputs, expected, tmp_path):
    crawl.begin()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHON": sys.executable,
        "TREESIM_INPUT": inputs,
        "TREESIM_INDEX": str(tmp_path / "index"),
        "TREESIM_SHARDS": "4",
    }
    for tasks in ("1,3-4", "2"):  # one of them by itself, as after a failure
        submit = ["sbatch", "--wait", f"--array={tasks}", "--mem=1G", f"--output={tmp_path}/%a.out", "--time=5"]
        done = subprocess.run(
            [*submit, str(ROOT / "cluster" / "build-array.sbatch")], env=environment, capture_output=True, text=True
        )
        logs = "".join(path.read_text() for path in tmp_path.glob("*.out"))
        assert done.returncode == 0, done.stderr + logs
    assert main(["build", inputs, "--index", str(tmp_path / "index"), "--shard", "1/1"]) == 0
    assert contents(tmp_path / "index") == expected


def test_batch_script_runs_the_whole_build_inside_jobs(slurm, crawl, inputs, expected, site, tmp_path):
    crawl.begin()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHON": sys.executable,
        "TREESIM_INPUT": inputs,
        "TREESIM_INDEX": str(tmp_path / "index"),
        "TREESIM_CLUSTER": site(),
        "TREESIM_JOBS": "2",
    }
    submit = ["sbatch", "--wait", "--mem=1G", f"--output={tmp_path}/build.out", "--time=5", "--signal=B:TERM@10"]
    done = subprocess.run(
        [*submit, str(ROOT / "cluster" / "build.sbatch")], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr + (tmp_path / "build.out").read_text()
    assert contents(tmp_path / "index") == expected

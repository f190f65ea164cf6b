"""Job scripts of batch systems that cannot be had here, as text; lifetimes; settings that cannot be used."""

import os
import signal
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import dask
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from treesim_dask.builder import build
from treesim_dask.clients import _interrupts_held, open_client
from treesim_dask.errors import ConfigError
from treesim_dask.jobs import find_batch_system, load_jobqueue, make_job_cluster, walltime_seconds, worker_lifetime

PROFILES = Path(__file__).parent.parent / "cluster" / "jobqueue.yaml"


@pytest.fixture(autouse=True)
def own_dask_configuration():
    load_jobqueue()  # adds its defaults when it is first imported
    before = deepcopy(dask.config.config)
    yield
    dask.config.config.clear()
    dask.config.config.update(before)


def job_script(tmp_path, system, **settings):
    content = yaml.safe_load(PROFILES.read_text())["jobqueue"][system]
    path = tmp_path / "site.yaml"
    profile = {**content, "interface": "lo", "log-directory": str(tmp_path), **settings}
    path.write_text(yaml.safe_dump({"jobqueue": {system: profile}}))
    with make_job_cluster(str(path)) as cluster:
        return cluster.job_script()


EXPECTED_LINES = {
    "slurm": ["#SBATCH -p <partition>", "#SBATCH --cpus-per-task=8", "#SBATCH -t 04:00:00", "#SBATCH --requeue"],
    "pbs": ["#PBS -q <queue>", "#PBS -l select=1:ncpus=8:mem=24GB", "#PBS -l walltime=04:00:00"],
    "lsf": ["#BSUB -q <queue>", "#BSUB -n 8", "#BSUB -W 04:00"],
    "sge": ["#$ -q <queue>", "#$ -P <project>", "#$ -l h_vmem=3G", "#$ -l h_rt=04:00:00", "#$ -pe smp 8"],
}


@pytest.mark.parametrize("system", EXPECTED_LINES)
def test_job_script_of_each_profile(system, tmp_path):
    lines = job_script(tmp_path, system).splitlines()
    for line in EXPECTED_LINES[system]:
        assert line in lines
    assert "source $HOME/treesim/bin/activate" in lines
    assert "export OMP_NUM_THREADS=1" in lines
    assert "export DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL=100ms" in lines
    (worker,) = [line for line in lines if "dask_worker" in line]
    assert "--nthreads 1 " in worker
    assert "--nworkers 8 " in worker
    assert "--lifetime 12960s --lifetime-stagger 720s" in worker


def test_settings_that_are_left_out_suit_a_build(tmp_path):
    (tmp_path / "site.yaml").write_text("jobqueue: {slurm-small: {interface: lo}}")
    with make_job_cluster(str(tmp_path / "site.yaml")) as cluster:
        script = cluster.job_script()
    assert "#SBATCH --cpus-per-task=1\n#SBATCH --mem=3G" in script
    assert "--nthreads 1" in script


def test_dashboard_of_a_login_node_listens_to_itself_only(tmp_path):
    pytest.importorskip("bokeh")
    (tmp_path / "site.yaml").write_text("jobqueue: {slurm: {interface: lo}}")
    with make_job_cluster(str(tmp_path / "site.yaml")) as cluster:
        assert cluster.dashboard_link.startswith("http://127.0.0.1:")


@given(minutes=st.integers(2, 7 * 24 * 60))
def test_workers_always_leave_before_the_walltime(minutes):
    walltime = f"{minutes // 60:02}:{minutes % 60:02}:00"
    _, lifetime, _, stagger = worker_lifetime(walltime, None)
    assert 0 < int(lifetime[:-1]) + int(stagger[:-1]) < walltime_seconds(walltime)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("jobqueue: {slurm: {}, pbs: {}}", "choose with --cluster"),
        ("jobqueue: {condor: {}}", "must begin with one of slurm"),
        ("other: 1", "no section `jobqueue`"),
        ("jobqueue: [", "is not YAML"),
    ],
)
def test_unusable_settings_are_explained(content, complaint, tmp_path):
    (tmp_path / "site.yaml").write_text(content)
    with pytest.raises(ConfigError, match=complaint):
        find_batch_system(str(tmp_path / "site.yaml"))


def test_jobqueue_leaves_ctrl_c_alone():
    before = signal.getsignal(signal.SIGINT)
    load_jobqueue()
    assert signal.getsignal(signal.SIGINT) is before


def start_and_interrupt(started):
    with _interrupts_held():
        sleep = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]
        started.append(subprocess.Popen(sleep, stdout=subprocess.PIPE))
        assert started[0].stdout.readline() == b"here\n"
        for pid in (started[0].pid, os.getpid()):
            os.kill(pid, signal.SIGINT)
        started.append("all")


def test_ctrl_c_while_workers_start_is_held_back_and_reaches_none_of_them():
    started = []
    with pytest.raises(KeyboardInterrupt):
        start_and_interrupt(started)
    child, what = started
    with child:
        assert (what, child.poll()) == ("all", None)
        child.kill()


def test_unknown_batch_system_is_explained():
    with pytest.raises(ConfigError, match="takes slurm, pbs, lsf, sge or a YAML file, got 'slurmm'"):
        find_batch_system("slurmm")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"jobs": 2}, "go with --cluster"),
        ({"workers": 1, "cluster": "slurm"}, "give only one of"),
        ({"cluster": "slurm", "jobs": 0}, "at least 1"),
        ({"cluster": "slurm", "lifetime": "2h"}, "not shorter than the walltime"),
        ({"cluster": "slurm", "lifetime": "soon"}, "takes a time such as 50m"),
        ({"scheduler": "tcp://127.0.0.1:1", "tls": True}, "for a running scheduler"),
    ],
)
def test_options_that_do_not_fit_are_explained(options, complaint):
    with pytest.raises(ConfigError, match=complaint), open_client(**options):
        pass


def test_tls_encrypts_between_local_workers(small_crawl, tmp_path):
    addresses = []

    def look(client):
        workers = client.scheduler_info()["workers"]
        addresses.extend([client.scheduler.address, *workers])

    report = build(str(small_crawl), str(tmp_path / "index"), workers=1, tls=True, limit=1, on_start=look)
    assert report.n_done == 1
    assert {address.partition(":")[0] for address in addresses} == {"tls"}


def test_what_is_started_here_listens_to_this_machine_only():
    with open_client(workers=1) as client:
        addresses = [client.scheduler.address, *client.scheduler_info()["workers"], client.dashboard_link]
    assert {address.split("//")[1].split(":")[0] for address in addresses} == {"127.0.0.1"}


def test_shards_together_are_the_whole_build(small_crawl, tmp_path):
    build(str(small_crawl), str(tmp_path / "whole"), shard=(1, 1))
    for number in (3, 1, 2):
        build(str(small_crawl), str(tmp_path / "parts"), shard=(number, 3))
    whole, parts = (
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "whole", tmp_path / "parts")
    )
    assert whole == parts


@pytest.mark.parametrize("shard", [(0, 3), (4, 3)])
def test_shard_outside_its_range_is_refused(shard, small_crawl, tmp_path):
    with pytest.raises(ConfigError, match="with I from 1 to N"):
        build(str(small_crawl), str(tmp_path / "index"), shard=shard)


def test_a_task_of_a_job_array_takes_its_share_however_it_was_submitted(tmp_path):
    script = Path(__file__).parent.parent / "cluster" / "build-array.sbatch"
    environment = {**os.environ, "PYTHON": "echo", "TREESIM_INPUT": "a.warc", "TREESIM_INDEX": str(tmp_path)}
    alone = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_COUNT": "1"}
    for shards, words in ({"TREESIM_SHARDS": "100"}, "--shard 7/100"), ({}, "how many shares"):
        done = subprocess.run(
            ["bash", str(script)], env={**environment, **alone, **shards}, capture_output=True, text=True
        )
        assert words in done.stdout + done.stderr

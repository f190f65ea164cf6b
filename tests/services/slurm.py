"""A real Slurm with two nodes on this machine: munged, slurmctld and two slurmd, without systemd and cgroups."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.availability import give_up
from services.ports import free_ports, wait_until

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
_N_NODES = 2
_CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/finished.txt
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
ReturnToService=2
KillWait=3
OverTimeLimit=0
DebugFlags=NO_CONF_HASH
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=01:00:00 DefaultTime=00:10:00 State=UP
"""


@dataclass(frozen=True)
class SlurmService:
    folder: Path

    def jobs(self) -> list[str]:
        """The ids of the jobs that wait or run."""
        return _output("squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING", "--format=%i").split()

    def running(self) -> list[str]:
        return _output("squeue", "--noheader", "--states=RUNNING", "--format=%i").split()

    def cancel(self, job: str) -> None:
        subprocess.run(["scancel", job], check=True)

    def end_walltime(self, job: str) -> None:
        subprocess.run(["scontrol", "update", f"JobId={job}", "EndTime=now"], check=True)

    def finished(self) -> dict[str, str]:
        """The final state of each job that ended."""
        log = self.folder / "finished.txt"
        lines = log.read_text().splitlines() if log.exists() else []
        fields = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return {job["JobId"]: job["JobState"] for job in fields}


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


@contextmanager
def run_slurm(folder: Path) -> Iterator[SlurmService]:
    """Start it and point ``SLURM_CONF`` at it. The packages are installed if they are missing and we may."""
    _require_programs()
    names = [f"n{number}" for number in range(1, _N_NODES + 1)]
    controller_port, *node_ports = free_ports(1 + _N_NODES)
    nodes = [
        f"NodeName={name} NodeHostname={socket.gethostname().split('.')[0]} NodeAddr=127.0.0.1 Port={port} "
        "CPUs=2 CoresPerSocket=2 RealMemory=6000"
        for name, port in zip(names, node_ports, strict=True)
    ]
    config = _CONFIG.format(
        host=socket.gethostname().split(".")[0],
        controller_port=controller_port,
        folder=folder,
        nodes="\n".join(nodes),
    )
    (folder / "slurm.conf").write_text(config)
    for name in ["state", *(f"spool-{name}" for name in names)]:
        (folder / name).mkdir()
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    with ExitStack() as stack:
        stack.callback(os.environ.pop, "SLURM_CONF", None)
        _start_munge(stack, folder)
        stack.enter_context(_daemon(folder, "slurmctld", "-D", "-c", "-i"))
        for name in names:
            stack.enter_context(_daemon(folder, "slurmd", "-D", "-N", name))
        wait_until("both nodes are idle", _all_idle, 30)
        yield SlurmService(folder)
        subprocess.run(["scancel", f"--user={os.getuid()}"], timeout=30, check=False)


def _require_programs() -> None:
    if all(shutil.which(program) for program in _PROGRAMS):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        give_up(f"no Slurm: as root, apt-get install {' '.join(PACKAGES)}")
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=False, capture_output=True)
    if subprocess.run(command, check=False, capture_output=True, env=environment).returncode:
        give_up(f"Slurm cannot be installed: {' '.join(command)} failed")


def _start_munge(stack: ExitStack, folder: Path) -> None:
    """Start the authentication daemon unless one answers."""
    if _munge_answers():
        return
    for path, mode in (("/run/munge", "0755"), ("/var/log/munge", "0700"), ("/var/lib/munge", "0700")):
        subprocess.run(["install", "-d", "-o", "munge", "-g", "munge", "-m", mode, path], check=True)
    key = Path("/etc/munge/munge.key")
    if not key.exists():
        key.write_bytes(os.urandom(128))
        shutil.chown(key, "munge", "munge")
        key.chmod(0o400)
    stack.enter_context(_daemon(folder, "runuser", "-u", "munge", "--", "munged", "-F"))
    wait_until("munge answers", _munge_answers, 10)


def _munge_answers() -> bool:
    command = "munge --no-input | unmunge"
    return subprocess.run(command, shell=True, capture_output=True, check=False).returncode == 0


def _all_idle() -> bool:
    answer = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], capture_output=True, text=True, check=False)
    return answer.stdout.split() == ["idle"] * _N_NODES


@contextmanager
def _daemon(folder: Path, *command: str) -> Iterator[None]:
    with (folder / f"{command[0]}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

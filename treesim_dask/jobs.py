"""Workers as batch jobs: what a Slurm, PBS, LSF or SGE site needs beyond a Dask cluster on this machine.

dask-jobqueue writes and submits the job scripts. What is added here: sizes that suit a build where the site's
configuration leaves them open, workers that leave before their walltime ends, jobs that replace lost ones, one clear
line when the batch system refuses a job, and no job left behind whatever ends the program.
"""

from __future__ import annotations

import logging
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import dask
import yaml
from distributed import Client, Status

from treesim_dask.clients import WORKER_CONFIG, WORKER_ENVIRONMENT
from treesim_dask.errors import ConfigError

_CLASSES = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
_DEFAULT_CORES = 1
_MEMORY_PER_CORE = 3 * 2**30  # a batch of pages with its trees and the shapes of a large archive stay below it
_SUBMIT_SECONDS = 120
_LEAVE_SHARE = 0.1  # of the walltime, at least a minute: what a worker keeps in reserve to leave in good order


@dataclass(frozen=True, slots=True)
class BatchSystem:
    """A batch system and the name of its section in the Dask configuration."""

    kind: str
    section: str

    def setting(self, name: str, default: Any = None) -> Any:
        """Return what the site's configuration says, `default` where it says nothing."""
        value = dask.config.get(f"jobqueue.{self.section}.{name}", None)
        return default if value is None else value


def find_batch_system(cluster: str) -> BatchSystem:
    """Say which batch system is meant; settings in a file become part of the Dask configuration.

    Parameters
    ----------
    cluster
        ``slurm``, ``pbs``, ``lsf`` or ``sge``; or a YAML file with a ``jobqueue`` section as dask-jobqueue reads it,
        followed by ``:NAME`` if it describes several systems.

    Examples
    --------
    >>> find_batch_system("slurm")
    BatchSystem(kind='slurm', section='slurm')
    """
    if cluster in _CLASSES:
        return BatchSystem(cluster, cluster)
    path, _, wanted = cluster.partition(":")
    sections = _read_sections(path)
    if wanted and wanted not in sections:
        raise ConfigError(f"{path} has no section jobqueue.{wanted}; it has {', '.join(sorted(sections))}")
    if not wanted and len(sections) != 1:
        raise ConfigError(f"{path} describes {', '.join(sorted(sections))}: choose with --cluster {path}:NAME")
    (section,) = [wanted] if wanted else sections
    kind = re.split(r"[-_]", section)[0]
    if kind not in _CLASSES:
        raise ConfigError(f"jobqueue.{section} in {path} must begin with one of {', '.join(_CLASSES)}")
    dask.config.update(dask.config.config, {"jobqueue": {section: _with_defaults(kind, sections[section])}})
    return BatchSystem(kind, section)


def _read_sections(path: str) -> dict[str, Mapping[str, Any]]:
    try:
        content = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        known = ", ".join(_CLASSES)
        raise ConfigError(f"--cluster takes {known} or a YAML file, got {path!r}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from None
    sections = content.get("jobqueue") if isinstance(content, dict) else None
    if not isinstance(sections, dict) or not sections:
        raise ConfigError(f"{path} has no section `jobqueue`; cluster/jobqueue.yaml shows one")
    return sections


def _with_defaults(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the settings of a section: dask-jobqueue has defaults for the plain names only."""
    load_jobqueue()  # registers those defaults
    defaults: dict[str, Any] = dask.config.get(f"jobqueue.{kind}")
    return {**defaults, **{name.replace("_", "-"): value for name, value in settings.items()}}


def load_jobqueue() -> Any:
    """Import dask-jobqueue, and take back its handler for Ctrl-C, which would end the program as if all were well."""
    before = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError:
        hint = "pip install 'treesim-dask[jobqueue]'"
        raise ConfigError(f"--cluster needs the package dask-jobqueue: {hint}") from None
    signal.signal(signal.SIGINT, before)
    return dask_jobqueue


def worker_lifetime(walltime: str, lifetime: str | None) -> list[str]:
    """Return the worker arguments that make it leave before its job is ended.

    Parameters
    ----------
    walltime
        Of the job, as ``[days-]hours:minutes[:seconds]``.
    lifetime
        When to leave, such as ``50m``; None for a tenth of the walltime, at least a minute, before its end; ``0``
        for never.

    Examples
    --------
    >>> worker_lifetime("01:00:00", None)
    ['--lifetime', '3240s', '--lifetime-stagger', '180s']
    """
    seconds = walltime_seconds(walltime)
    if lifetime is None:
        wanted = seconds - max(60.0, seconds * _LEAVE_SHARE)
    else:
        wanted = _parse_seconds(lifetime)
        if wanted >= seconds:
            raise ConfigError(f"--lifetime {lifetime} is not shorter than the walltime {walltime} of a job")
    if wanted <= 0:
        return []
    # workers that start together should not leave together; the stagger goes both ways
    stagger = min(wanted * _LEAVE_SHARE, (seconds - wanted) / 2)
    return ["--lifetime", f"{wanted:.0f}s", "--lifetime-stagger", f"{stagger:.0f}s"]


def walltime_seconds(walltime: str) -> float:
    """Read a walltime.

    Examples
    --------
    >>> walltime_seconds("00:30:00"), walltime_seconds("1-00:00:00"), walltime_seconds("02:30")
    (1800.0, 86400.0, 9000.0)
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?", str(walltime).strip())
    if match is None:
        raise ConfigError(f"a walltime looks like 01:30:00 (or 1-12:00:00), got {walltime!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _parse_seconds(text: str) -> float:
    try:
        return float(dask.utils.parse_timedelta(text, default="s"))
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"--lifetime takes a time such as 50m or 3h, got {text!r}") from None


def job_options(system: BatchSystem, lifetime: str | None) -> dict[str, Any]:
    """Return the arguments for dask-jobqueue: the site's settings where there are any, else what suits a build."""
    cores = int(system.setting("cores", _DEFAULT_CORES))
    leave = worker_lifetime(system.setting("walltime", "00:30:00"), lifetime)
    settings = {f"DASK_{name.upper().replace('.', '__')}": value for name, value in WORKER_CONFIG.items()}
    exports = [f"export {name}={value}" for name, value in {**WORKER_ENVIRONMENT, **settings}.items()]
    return {
        "config_name": system.section,
        "cores": cores,
        "processes": int(system.setting("processes", cores)),  # the parser holds the interpreter
        "memory": system.setting("memory", f"{cores * _MEMORY_PER_CORE}B"),
        "worker_extra_args": [*system.setting("worker-extra-args", []), *leave],
        "job_script_prologue": [*system.setting("job-script-prologue", []), *exports],
        # the dashboard of a login node is everybody's if it listens to everybody: reach it through a tunnel
        "scheduler_options": {"dashboard_address": "127.0.0.1:0", **system.setting("scheduler-options", {})},
    }


def make_job_cluster(
    cluster: str, lifetime: str | None = None, tls: bool = False, refusals: list[str] | None = None
) -> Any:
    """Return a dask-jobqueue cluster that has no jobs yet, with settings that suit a build.

    In a notebook: ``cluster = make_job_cluster("slurm"); cluster.adapt(minimum_jobs=2, maximum_jobs=2)``.

    Parameters
    ----------
    cluster, lifetime, tls
        As for `open_job_client`.
    refusals
        What the batch system says when it refuses a job is added here.
    """
    jobqueue = load_jobqueue()
    system = find_batch_system(cluster)
    options = job_options(system, lifetime)
    if tls:
        options |= {"security": True, "shared_temp_directory": system.setting("shared-temp-directory", str(Path.cwd()))}
    make: Any = getattr(jobqueue, _CLASSES[system.kind])
    try:
        return make(job_cls=_noting_refusals(make.job_cls, refusals if refusals is not None else []), **options)
    except (ValueError, OSError, ImportError) as error:
        raise ConfigError(f"the settings for --cluster {cluster} cannot be used: {error}") from None


def _noting_refusals(job_class: Any, refusals: list[str]) -> Any:
    """Return a job class that notes when the batch system refuses a job: dask-jobqueue only logs it."""

    class WatchedJob(job_class):  # type: ignore[misc]
        async def start(self) -> None:
            try:
                await super().start()
            except RuntimeError as error:
                refusals.append(" ".join((str(error).rpartition("stderr:")[2] or str(error)).split()))
                self.status = Status.failed  # else the cluster cannot be closed
                raise

    return WatchedJob


@contextmanager
def open_job_client(
    cluster: str,
    n_jobs: int | None = None,
    lifetime: str | None = None,
    tls: bool = False,
) -> Iterator[Client]:
    """Keep batch jobs with Dask workers running for the duration of the block.

    Parameters
    ----------
    cluster
        As for `find_batch_system`.
    n_jobs
        How many; a job that dies or leaves is replaced.
    lifetime
        As for `worker_lifetime`.
    tls
        Encrypt what client, scheduler and workers say to each other.
    """
    n_jobs = 1 if n_jobs is None else n_jobs
    if n_jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, got {n_jobs}")
    refusals: list[str] = []
    with (
        _leave_on_signals(),
        _own_settings(),
        _quiet_logs("tornado.application", "asyncio"),
        make_job_cluster(cluster, lifetime, tls, refusals) as jobs,
        _remove_credentials_of(jobs),
        Client(jobs) as client,
    ):
        jobs.adapt(minimum_jobs=n_jobs, maximum_jobs=n_jobs, interval="2s")
        _wait_for_submission(jobs, refusals, cluster)
        yield client


@contextmanager
def _own_settings() -> Iterator[None]:
    """Forget the settings of a site file afterwards."""
    load_jobqueue()
    with dask.config.set({"jobqueue": deepcopy(dask.config.get("jobqueue"))}):
        yield


@contextmanager
def _remove_credentials_of(jobs: Any) -> Iterator[None]:
    """Remove the files in which workers found their TLS credentials: dask-jobqueue leaves that to chance."""
    try:
        yield
    finally:
        for name, file in vars(jobs).items():
            if name.startswith("_job_") and hasattr(file, "close"):
                file.close()


def _wait_for_submission(jobs: Any, refusals: list[str], cluster: str) -> None:
    """Return once the batch system has taken a job, raise if it refuses: to wait for it to start may take a day."""
    end = time.monotonic() + _SUBMIT_SECONDS
    while not refusals:
        if any(job.job_id for job in jobs.workers.values()):
            return
        if time.monotonic() > end:
            raise ConfigError(f"--cluster {cluster}: no job was submitted within {_SUBMIT_SECONDS} seconds")
        time.sleep(0.1)
    raise ConfigError(f"--cluster {cluster}: the batch system refused the job: {refusals[0]}")


@contextmanager
def _leave_on_signals() -> Iterator[None]:
    """End in good order when the program is told to stop or its terminal is closed: jobs must not stay behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _quiet_logs(*names: str) -> Iterator[None]:
    """Keep tracebacks of refused submissions off the terminal: the refusal is reported in one line."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

"""Where Dask runs: local processes, a scheduler that is already there, or batch jobs."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
from distributed import Client, LocalCluster, Security

from treesim_dask.config import check_count
from treesim_dask.errors import ConfigError

DASHBOARD_PORT = 8787
_CONNECT_SECONDS = 20

# One process a core: thread pools inside them would only get in each other's way.
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Dask's profiler looks into a worker a hundred times a second, which took 8 % of a build; ten times show as much.
WORKER_CONFIG = {"distributed.worker.profile.interval": "100ms"}


@contextmanager
def open_client(
    workers: int | None = None,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    *,
    cluster: str | None = None,
    jobs: int | None = None,
    lifetime: str | None = None,
    tls: bool = False,
) -> Iterator[Client]:
    """Connect to a scheduler, or start workers for the duration of the block.

    What is started here listens on this machine only, except where jobs on other machines have to reach it.

    Parameters
    ----------
    workers
        Number of local processes, one thread each since the parser holds the interpreter; None for one a core.
    scheduler
        Address of a running scheduler, such as ``tcp://host:8786``.
    scheduler_file
        JSON file that a scheduler wrote with ``--scheduler-file``.
    cluster, jobs, lifetime
        Start this many batch jobs with workers; see `treesim_dask.jobs.open_job_client`.
    tls
        Encrypt what client, scheduler and workers say to each other, with credentials made for this run.
    """
    if sum(option is not None for option in (workers, scheduler, scheduler_file, cluster)) > 1:
        raise ConfigError("give only one of workers, scheduler, scheduler_file and cluster")
    if cluster is None and (jobs is not None or lifetime is not None):
        raise ConfigError("--jobs and --lifetime go with --cluster")
    if tls and (scheduler is not None or scheduler_file is not None):
        hint = "for a running scheduler configure distributed.comm.tls"
        raise ConfigError(f"--tls makes credentials for workers that are started here; {hint}")
    if scheduler is not None or scheduler_file is not None:
        with _connect(scheduler, scheduler_file) as client:
            yield client
    elif cluster is not None:
        from treesim_dask.jobs import open_job_client

        with open_job_client(cluster, jobs, lifetime, tls) as client:
            yield client
    else:
        with _open_local(usable_cores() if workers is None else workers, tls) as client:
            yield client


@contextmanager
def _open_local(n_workers: int, tls: bool) -> Iterator[Client]:
    check_count("workers", n_workers)
    with _start_cluster(n_workers, tls) as cluster, Client(cluster) as client:
        yield client


def _start_cluster(n_workers: int, tls: bool) -> LocalCluster:
    config = {"distributed.nanny.pre-spawn-environ": WORKER_ENVIRONMENT, **WORKER_CONFIG}
    with dask.config.set(config), warnings.catch_warnings():
        # another dashboard at the usual port is no trouble: ours moves to a free one, and the user is told where
        warnings.filterwarnings("ignore", message="Port .* is already in use")
        with _interrupts_ignored():
            try:
                return _make_cluster(n_workers, tls)
            except RuntimeError as error:
                guard = 'if __name__ == "__main__":'
                raise ConfigError(f"no local workers ({error}); in a script, call this below `{guard}`") from None


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let the processes started in the block ignore Ctrl-C: it is this process that ends them, without their outcry."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _make_cluster(n_workers: int, tls: bool) -> LocalCluster:
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        security=_temporary_credentials() if tls else None,
        protocol="tls://" if tls else "tcp://",
        dashboard_address=f"127.0.0.1:{DASHBOARD_PORT}" if importlib.util.find_spec("bokeh") else None,
        silence_logs="CRITICAL",
    )


def _temporary_credentials() -> Security:
    try:
        return Security.temporary()
    except ImportError:
        raise ConfigError("--tls needs the package cryptography: pip install cryptography") from None


def _connect(scheduler: str | None, scheduler_file: str | None) -> Client:
    if scheduler_file is not None and not Path(scheduler_file).exists():
        raise ConfigError(f"there is no scheduler file {scheduler_file}; `dask scheduler --scheduler-file` writes it")
    try:
        if scheduler_file is not None:
            return Client(scheduler_file=scheduler_file, timeout=_CONNECT_SECONDS)
        return Client(scheduler, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        where = scheduler or scheduler_file
        raise ConfigError(f"no Dask scheduler answers at {where}: {error}; is `dask scheduler` running?") from None


def usable_cores() -> int:
    """Return how many cores this process may use: a local build has a worker for each."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

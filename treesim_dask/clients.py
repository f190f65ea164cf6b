"""Where Dask runs: local processes, or a scheduler that is already there."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
from distributed import Client, LocalCluster

from treesim_dask.errors import ConfigError

DASHBOARD_PORT = 8787
_CONNECT_SECONDS = 20

# Every page is a burst of small allocations and one big release. By default Dask tells malloc to hand memory back at
# every release and the kernel then faults it in again for the next page; a few kept megabytes avoid that.
_WORKER_ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": str(2**27), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@contextmanager
def open_client(
    workers: int | None = None, scheduler: str | None = None, scheduler_file: str | None = None
) -> Iterator[Client]:
    """Connect to a scheduler, or start local workers for the duration of the block.

    Parameters
    ----------
    workers
        Number of local processes, one thread each since the parser holds the interpreter; None for one a core.
    scheduler
        Address of a running scheduler, such as ``tcp://host:8786``.
    scheduler_file
        JSON file that a scheduler wrote with ``--scheduler-file``.
    """
    if sum(option is not None for option in (workers, scheduler, scheduler_file)) > 1:
        raise ConfigError("give only one of workers, scheduler and scheduler_file")
    if scheduler is not None or scheduler_file is not None:
        with _connect(scheduler, scheduler_file) as client:
            yield client
        return
    n_workers = _usable_cores() if workers is None else workers
    if n_workers < 1:
        raise ConfigError(f"workers must be at least 1, got {n_workers}")
    with _start_cluster(n_workers) as cluster, Client(cluster) as client:
        yield client


def _start_cluster(n_workers: int) -> LocalCluster:
    with dask.config.set({"distributed.nanny.pre-spawn-environ": _WORKER_ENVIRONMENT}), warnings.catch_warnings():
        # another dashboard at the usual port is no trouble: ours moves to a free one, and the user is told where
        warnings.filterwarnings("ignore", message="Port .* is already in use")
        return LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=f"127.0.0.1:{DASHBOARD_PORT}" if importlib.util.find_spec("bokeh") else None,
            silence_logs="CRITICAL",
        )


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


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Where Dask runs: local processes, or a scheduler that is already there."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

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
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": _WORKER_ENVIRONMENT}),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=_dashboard_address(),
            silence_logs="CRITICAL",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _connect(scheduler: str | None, scheduler_file: str | None) -> Client:
    try:
        if scheduler_file is not None:
            return Client(scheduler_file=scheduler_file, timeout=_CONNECT_SECONDS)
        return Client(scheduler, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        where = scheduler or scheduler_file
        raise ConfigError(f"no Dask scheduler answers at {where}: {error}; is `dask scheduler` running?") from None


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _dashboard_address() -> str | None:
    """Return the usual dashboard address if it is free, any other if not, none without Bokeh to draw it."""
    if importlib.util.find_spec("bokeh") is None:
        return None
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DASHBOARD_PORT))
        except OSError:
            return "127.0.0.1:0"
    return f"127.0.0.1:{DASHBOARD_PORT}"

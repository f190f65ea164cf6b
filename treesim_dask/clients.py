"""Where Dask runs: local processes, a scheduler that is already there, or batch jobs."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, TypeVar

import dask
from distributed import Client, LocalCluster, Security

from treesim_dask.config import check_count
from treesim_dask.errors import ConfigError

_T = TypeVar("_T")
DASHBOARD_PORT = 8787
_CONNECT_SECONDS = 20

# One process a core: thread pools inside them would only get in each other's way.
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Dask's profiler looks into a worker a hundred times a second, which took 8 % of a build; ten times show as much.
WORKER_CONFIG = {"distributed.worker.profile.interval": "100ms"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where work runs. What does not go together is refused at once.

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
    client
        Or on the workers of a client that is connected already.
    shard
        ``(i, n)``: the i-th of n parts of the work, in this process and without Dask.
    max_connections
        How many input files all workers together may read at the same time; None for one a worker.

    Examples
    --------
    >>> Place(shard=(2, 3)).take_share("abcdefg")
    ['b', 'e']
    """

    workers: int | None = None
    scheduler: str | None = None
    scheduler_file: str | None = None
    cluster: str | None = None
    jobs: int | None = None
    lifetime: str | None = None
    tls: bool = False
    client: Client | None = None
    shard: tuple[int, int] | None = None
    max_connections: int | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "jobs", "max_connections"):
            if (value := getattr(self, name)) is not None:
                check_count(name, value)
        self._refuse_company_of_shard()
        ways = ("workers", "scheduler", "scheduler_file", "cluster", "client")
        if sum(getattr(self, name) is not None for name in ways) > 1:
            raise ConfigError("give only one of workers, scheduler, scheduler_file, cluster and client")
        if self.cluster is None and (self.jobs is not None or self.lifetime is not None):
            raise ConfigError("--jobs and --lifetime go with --cluster")
        if self.tls and (self.scheduler is not None or self.scheduler_file is not None or self.client is not None):
            hint = "for a running scheduler configure distributed.comm.tls"
            raise ConfigError(f"--tls makes credentials for workers that are started here; {hint}")

    def _refuse_company_of_shard(self) -> None:
        if self.shard is None:
            return
        number, n_shards = self.shard
        if not 1 <= number <= n_shards:
            raise ConfigError(f"a shard is given as I/N with I from 1 to N, got {number}/{n_shards}")
        others = ("workers", "scheduler", "scheduler_file", "cluster", "jobs", "lifetime", "tls", "client")
        if given := [name for name in others if getattr(self, name) not in (None, False)]:
            raise ConfigError(f"a shard runs in this process: it goes without {', '.join(given)}")

    def take_share(self, items: Sequence[_T]) -> list[_T]:
        """Return what is done here: everything, or every n-th item from the i-th on."""
        number, n_shards = self.shard or (1, 1)
        return list(items[number - 1 :: n_shards])

    @contextmanager
    def open(self, n_tasks: int | None = None) -> Iterator[Client]:
        """Connect to a scheduler, or start workers for the duration of the block, no more than there are tasks.

        What is started here listens on this machine only, except where jobs on other machines have to reach it.
        """
        if self.client is not None:
            yield self.client
        elif self.scheduler is not None or self.scheduler_file is not None:
            with _connect(self.scheduler, self.scheduler_file) as client:
                yield client
        elif self.cluster is not None:
            from treesim_dask.jobs import open_job_client

            n_jobs = _at_most(1 if self.jobs is None else self.jobs, n_tasks)
            with open_job_client(self.cluster, n_jobs, self.lifetime, self.tls) as client:
                yield client
        else:
            n_workers = _at_most(usable_cores() if self.workers is None else self.workers, n_tasks)
            with _local_cluster(n_workers, self.tls) as cluster, Client(cluster) as client:
                yield client


def _at_most(n_wanted: int, n_tasks: int | None) -> int:
    return n_wanted if n_tasks is None else min(n_wanted, n_tasks)


def open_client(
    workers: int | None = None, scheduler: str | None = None, scheduler_file: str | None = None, **options: Any
) -> AbstractContextManager[Client]:
    """Connect to a scheduler, or start workers for the duration of the block; `options` as for `Place`."""
    return Place(workers, scheduler, scheduler_file, **options).open()


@contextmanager
def _local_cluster(n_workers: int, tls: bool) -> Iterator[LocalCluster]:
    config = {"distributed.nanny.pre-spawn-environ": WORKER_ENVIRONMENT, **WORKER_CONFIG}
    with ExitStack() as stack:
        with dask.config.set(config), warnings.catch_warnings(), _interrupts_held():
            # another dashboard at the usual port is no trouble: ours moves to a free one, and the user is told where
            warnings.filterwarnings("ignore", message="Port .* is already in use")
            try:
                cluster = stack.enter_context(_make_cluster(n_workers, tls))
            except RuntimeError as error:
                guard = 'if __name__ == "__main__":'
                raise ConfigError(f"no local workers ({error}); in a script, call this below `{guard}`") from None
        yield cluster


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until the block has ended, and from the processes started in it for good.

    It is this process that ends them, without their outcry; interrupted half-way it would leave some behind.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # starts with the first process, and would let signals through again
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # what is started inherits this, but no handler
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


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

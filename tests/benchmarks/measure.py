"""One contender in a process of its own: its time, its processor time and its peak memory.

A contender is a function of `contenders`. It is run once on a small archive first, so that imports, compilation and
the start of workers do not count, and then on the files to measure.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from treesim_dask.demo.crawl import write_demo_warc

_WARM_UP_PAGES = 40
_SAMPLE_SECONDS = 0.05


@dataclass(frozen=True)
class Measurement:
    """What one run took. ``cpu_seconds`` and ``peak_bytes`` include child processes."""

    n_pages: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    details: dict[str, Any]


def run_contender(name: str, files: Sequence[str]) -> Measurement:
    """Measure a contender in a new process."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.measure", name, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-4000:]}")
    return Measurement(**json.loads(done.stdout.splitlines()[-1]))


def measure(name: str, files: Sequence[str]) -> Measurement:
    """Warm a contender up and measure it in this process."""
    if name.endswith("-plain"):
        sys.modules["fastwarc"] = None  # type: ignore[assignment] # as if the extra `fast` were not installed
    from tests.benchmarks.contenders import CONTENDERS

    with TemporaryDirectory(prefix="benchmark-") as folder, CONTENDERS[name]() as contender:
        warm_up = [write_demo_warc(Path(folder) / f"warm-up-{i}.warc.gz", i * 100, _WARM_UP_PAGES) for i in range(2)]
        contender.run(warm_up, Path(folder) / "warm-up")
        with _peak_memory() as peak:
            cpu, start = _cpu_seconds(), time.perf_counter()
            n_pages = contender.run(files, Path(folder) / "run")
            seconds, cpu = time.perf_counter() - start, _cpu_seconds() - cpu
        return Measurement(n_pages, seconds, cpu, peak[0], contender.details(Path(folder) / "run"))


def _cpu_seconds() -> float:
    """Return the processor time of this process and of its children, those that still run included."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in family)


@contextmanager
def _peak_memory() -> Iterator[list[int]]:
    """Sample the memory of this process and its children; the list holds the highest sum, once the block is left."""
    peak = [0]
    finished = threading.Event()

    def sample() -> None:
        process = psutil.Process()
        while not finished.wait(_SAMPLE_SECONDS):
            family = [process, *process.children(recursive=True)]
            peak[0] = max(peak[0], sum(_resident_bytes(member) for member in family))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield peak
    finally:
        finished.set()
        sampler.join()
        if not psutil.Process().children():
            peak[0] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # it ended meanwhile
        return 0


if __name__ == "__main__":
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    print(json.dumps(asdict(measure(sys.argv[1], sys.argv[2:]))))

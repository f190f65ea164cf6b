"""A clock for work: it stands still while this thread waits for a processor that others use.

What a build takes is compared with what was foretold at another moment. The load that other people put on the machine
is no part of either; waiting for a disk or for another machine is.
"""

from __future__ import annotations

import time
from pathlib import Path

_SCHEDULING = Path("/proc/thread-self/schedstat")  # nanoseconds on a processor, nanoseconds in line for one, turns


def work_clock() -> float:
    """Return seconds since an arbitrary moment, on the clock of this thread."""
    return time.perf_counter() - _seconds_in_line()


def _seconds_in_line() -> float:
    """Return how long this thread has waited for a processor; 0 where the system does not tell."""
    try:
        return int(_SCHEDULING.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0

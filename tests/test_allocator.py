import os
import subprocess
import sys

import pytest

from treesim_dask.allocator import keep_freed_memory

# Bursts of small blocks, as a parser makes them; prints the page faults of all but the first.
BURSTS = """
import resource, sys
from treesim_dask.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def burst():
    return len([bytes(4000) for _ in range(1000)])
burst()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    burst()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode):
    """Run the bursts in a process with the setting that Dask gives its workers."""
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", BURSTS, mode]
    return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not keep_freed_memory(), reason="no mallopt in this C library")
def test_memory_is_kept_between_bursts():
    assert page_faults("keep") * 10 < page_faults("as it comes")

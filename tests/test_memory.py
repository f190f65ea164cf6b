"""Memory is bounded by the batch, not by the file."""

import subprocess
import sys

import pytest

from treesim_dask.demo.crawl import write_demo_warc

SCRIPT = """
import sys
from pathlib import Path
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.dataflow import BuildJob, index_source
from treesim_dask.types import Source
path, index = sys.argv[1:]
job = BuildJob(index, IndexConfig(), PageFilter(), False, {}, {})
summary = index_source(Source(path, "archive", (path,)), job)
# not getrusage: a process started by a larger one reports that one's size
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
print(summary.n_pages, peak.split()[1])
"""


def peak_megabytes(folder, n_pages):
    archive = write_demo_warc(folder / f"{n_pages}.warc.gz", 0, n_pages)
    command = [sys.executable, "-c", SCRIPT, str(archive), str(folder / f"{n_pages}.index")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(output[0]) == n_pages
    return int(output[1]) / 1024


@pytest.mark.slow
def test_peak_memory_does_not_grow_with_the_file(tmp_path):
    small, large = peak_megabytes(tmp_path, 2_000), peak_megabytes(tmp_path, 20_000)
    assert large < 600
    assert large <= 1.15 * small

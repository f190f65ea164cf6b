"""Memory is bounded by the batch, not by the file; what an open index keeps, by what was allowed."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import synthetic
from benchmarks.synthetic import write_index

from treesim_dask.api import WORKING_MEMORY
from treesim_dask.compactor import compact
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


def ask(url, memory, n_queries=3000):
    """What an index that may keep so much keeps, and what its process grows by, in bytes."""
    command = [sys.executable, str(Path(__file__).parent / "query_memory.py"), url, str(n_queries), str(memory)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(output[0]) > 7 * n_queries
    return int(output[1]), int(output[2])


@pytest.mark.slow
def test_an_open_index_and_a_batch_stay_within_their_bound(tmp_path):
    url = write_index(str(tmp_path / "index"), 60_000, n_bases=300)
    compact(url)
    _, nothing_kept = ask(url, 0)
    n_all, all_kept = ask(url, 2**30)
    allowed = 2**23
    assert n_all > 4 * allowed  # else the bound would bound nothing
    n_kept, grown = ask(url, allowed)
    assert 0.9 * allowed < n_kept <= allowed
    assert all_kept - nothing_kept <= n_all  # what is kept takes no more than it is counted for
    assert max(nothing_kept, grown - allowed, all_kept - n_all) <= WORKING_MEMORY


@pytest.mark.slow
def test_a_batch_stays_within_its_bound_on_many_segments(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "PAGES_PER_SEGMENT", 200)
    monkeypatch.setattr(synthetic, "PAGES_PER_TEMPLATE", 30_000)  # every segment has enough matches for every query
    url = write_index(str(tmp_path / "index"), 30_000, n_bases=20)
    n_kept, grown = ask(url, 2**23, n_queries=1000)
    assert n_kept <= 2**23
    assert grown - 2**23 <= WORKING_MEMORY

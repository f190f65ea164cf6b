"""A build of very many files starts them in waves; that must lose none and double none."""

import pytest
from distributed import Client

from treesim_dask import dataflow
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.dataflow import BuildJob, SourceFailure, build_segments
from treesim_dask.demo.crawl import write_demo_warc
from treesim_dask.index.segment import SegmentSummary
from treesim_dask.types import Source


@pytest.fixture(scope="module")
def client():
    # any free port: the usual one may belong to another cluster on this machine
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


@pytest.mark.parametrize("n_wave", [1, 2, 3, 100])
def test_every_source_has_one_outcome(client, tmp_path, monkeypatch, n_wave):
    monkeypatch.setattr(dataflow, "_WAVE_FILES", n_wave)
    monkeypatch.setattr(dataflow, "_WAVE_FILES_PER_THREAD", 1)
    archives = [write_demo_warc(tmp_path / f"{i}.warc.gz", i * 5, 5) for i in range(2)]
    missing = [str(tmp_path / f"missing-{i}.warc.gz") for i in range(5)]
    sources = [Source(url, "archive", (url,)) for url in [*missing[:3], *archives, *missing[3:]]]
    job = BuildJob(str(tmp_path / "index"), IndexConfig(), PageFilter(), False, {}, {})
    outcomes = list(build_segments(client, sources, job))
    assert sorted(outcome.source_url for outcome, _ in outcomes) == sorted(source.url for source in sources)
    assert {outcome.source_url for outcome, _ in outcomes if isinstance(outcome, SourceFailure)} == set(missing)
    assert [outcome.n_pages for outcome, _ in outcomes if isinstance(outcome, SegmentSummary)] == [5, 5]


def test_no_source_no_outcome(client, tmp_path):
    job = BuildJob(str(tmp_path / "index"), IndexConfig(), PageFilter(), False, {}, {})
    assert list(build_segments(client, [], job)) == []

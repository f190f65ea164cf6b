"""Fixtures shared by all tests."""

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, which is no sign of a slow test.
settings.register_profile("default", deadline=None)
settings.load_profile("default")


@pytest.fixture(scope="session")
def small_crawl(tmp_path_factory):
    """A synthetic crawl of 120 pages in 6 WARC files, in Common Crawl's layout; the value is its folder."""
    from treesim_dask.demo.crawl import write_demo_crawl

    folder = tmp_path_factory.mktemp("crawl")
    write_demo_crawl(folder, n_pages=120, n_files=6)
    return folder


@pytest.fixture(scope="session")
def local_client():
    """Two local Dask workers that tests share: starting them takes longer than most builds."""
    from treesim_dask.clients import open_client

    with open_client(workers=2) as client:
        yield client


@pytest.fixture(scope="session")
def s3_service(tmp_path_factory):
    """A real S3 store with accounts."""
    from services.seaweed import run_seaweed

    with run_seaweed(tmp_path_factory.mktemp("seaweed")) as service:
        yield service


@pytest.fixture(scope="session")
def slurm_service(tmp_path_factory):
    """A real Slurm with two nodes."""
    from services.slurm import run_slurm

    with run_slurm(tmp_path_factory.mktemp("slurm")) as service:
        yield service

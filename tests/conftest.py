"""Fixtures shared by all tests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import settings

from treesim_dask.clients import open_client
from treesim_dask.demo.crawl import write_demo_crawl

# The first call of a kernel compiles it, which is no sign of a slow test.
settings.register_profile("default", deadline=None)
settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """With a process a core, keep the tests of a file together for their fixtures, and all of the one Slurm."""
    for item in items:
        needs_slurm = "slurm_service" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("slurm" if needs_slurm else item.path.name))


@pytest.fixture(scope="session")
def demo_crawl(tmp_path_factory) -> Path:
    """A folder with a synthetic crawl of 400 pages in 4 archives and their labels."""
    folder = tmp_path_factory.mktemp("crawl")
    write_demo_crawl(folder, n_pages=400, n_files=4, seed=3)
    return folder


@pytest.fixture(scope="session")
def small_crawl(tmp_path_factory):
    """A synthetic crawl of 120 pages in 6 WARC files, in Common Crawl's layout; the value is its folder."""
    folder = tmp_path_factory.mktemp("small-crawl")
    write_demo_crawl(folder, n_pages=120, n_files=6)
    return folder


@pytest.fixture(scope="session")
def demo_archives(demo_crawl) -> list[str]:
    """The archives of the synthetic crawl."""
    return sorted(str(path) for path in demo_crawl.rglob("*.warc.gz"))


@pytest.fixture(scope="session")
def client():
    """Two local Dask workers."""
    with open_client(workers=2) as client:
        yield client


@pytest.fixture(scope="session")
def demo_index(demo_archives, client, tmp_path_factory) -> str:
    """The index of the synthetic crawl. Do not write to it."""
    from treesim_dask import build

    url = str(tmp_path_factory.mktemp("index") / "demo.index")
    build(demo_archives, url, client=client)
    return url


@pytest.fixture
def tree_digest():
    """A function that digests every file of a folder, for comparing indexes byte by byte."""

    def digest(folder: str | Path) -> dict[str, str]:
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    return digest


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

"""The same answers, to the bit, wherever the index is searched and compacted."""

import numpy as np
import pytest
from indexes import random_sources, write_source

from treesim_dask.api import open_index
from treesim_dask.clients import open_client
from treesim_dask.compactor import compact
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.crawl.inputs import find_sources
from treesim_dask.dataflow import BuildJob, index_source
from treesim_dask.demo import write_demo_crawl
from treesim_dask.index.manifest import write_manifest
from treesim_dask.index.store import Store
from treesim_dask.query.options import Conditions
from treesim_dask.query.page import queries_from_rows

N_QUERIES = 500


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    return write_demo_crawl(tmp_path_factory.mktemp("crawl"), n_pages=600, n_files=3)


@pytest.fixture(scope="module")
def index_url(archives, tmp_path_factory):
    return build_here(archives, tmp_path_factory.mktemp("vectors") / "index")


def build_here(archives, folder, with_vectors=True):
    url = str(folder)
    write_manifest(Store(url), IndexConfig())
    for source in find_sources(archives):
        index_source(source, BuildJob(url, IndexConfig(), PageFilter(), False, {}, {}, with_vectors))
    return url


@pytest.fixture(scope="module")
def client():
    with open_client(workers=2) as client:
        yield client


def queries_of(index):
    queries = [q for s in index.segments for q in queries_from_rows(s, np.arange(s.summary.n_pages), index.config)]
    return queries[:N_QUERIES]


def matches(index, queries, **options):
    return [answer.matches for _, answer in index.search_many(queries, **options)]


def test_answers_are_the_same_without_vectors(archives, index_url, client, tmp_path):
    with_vectors = open_index(index_url)
    queries = queries_of(with_vectors)
    assert len(queries) == N_QUERIES
    expected = matches(with_vectors, queries)
    bare = open_index(build_here(archives, tmp_path / "bare", with_vectors=False))
    assert bare.info.n_index_bytes < with_vectors.info.n_index_bytes
    assert matches(bare, queries) == expected
    assert matches(bare, queries, client=client) == expected
    compact(bare.url, shapes_per_part=200)
    compacted = open_index(bare.url)
    assert matches(compacted, queries) == expected
    assert matches(compacted, queries, client=client) == expected
    assert compacted.check() == []
    assert compacted.search(f"id:{queries[3].page_id}").matches == expected[3]
    assert compacted.export(str(tmp_path / "tables"))["pages"] == compacted.info.n_pages
    write_source(Store(bare.url), "file:///more.warc", random_sources(1)["file:///crawl/1-0.warc"], IndexConfig())
    compact(bare.url)
    assert [segment.has_vectors for segment in open_index(bare.url).segments].count(True) == 1
    assert matches(open_index(bare.url), queries) == expected


def test_answers_are_the_same_everywhere(index_url, client):
    index = open_index(index_url)
    queries = queries_of(index)
    assert len(queries) == N_QUERIES
    local = matches(index, queries)
    assert [index.search(query).matches for query in queries[::25]] == local[::25]
    two_workers = matches(index, queries, client=client)
    assert two_workers == local
    with open_client(workers=1) as single:
        assert matches(index, queries, client=single) == local
    options = {"conditions": Conditions(other_hosts=True), "one_per": "domain", "with_self": False}
    filtered = matches(index, queries[::10], **options)
    assert matches(index, queries[::10], client=client, **options) == filtered
    compact(index_url, client=client, shapes_per_part=200)
    compacted = open_index(index_url)
    assert len(compacted.segments) == 1
    assert compacted.check() == []
    assert matches(compacted, queries) == local
    assert matches(compacted, queries, client=client) == local
    assert matches(compacted, queries[::10], client=client, **options) == filtered
    assert matches(index, queries) == local  # opened before: it finds its way to the new segment

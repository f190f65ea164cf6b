"""Band tables against a look at every shape."""

import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treesim_dask.index import bands, tables
from treesim_dask.index.bands import BandTable
from treesim_dask.index.cache import Cache
from treesim_dask.index.store import Store

N_BANDS = 3
KEYS = st.lists(st.tuples(*[st.integers(0, 4)] * N_BANDS), min_size=1, max_size=30)


def expected_hits(shapes, queries, cap):
    """The shapes in the bucket of each query and band, the first `cap` of them, and how many those of a query lost."""
    hits, n_capped = set(), [0] * len(queries)
    for number, query in enumerate(queries):
        for band in range(N_BANDS):
            members = [shape for shape, keys in enumerate(shapes) if keys[band] == query[band]]
            hits |= {(number, band, shape) for shape in members[:cap]}
            n_capped[number] += len(members[:0] if cap is None else members[cap:])
    return hits, n_capped


@given(KEYS, KEYS, st.one_of(st.none(), st.integers(1, 6)), st.integers(1, 40), st.sampled_from([1, 7, 2**19]))
def test_buckets_that_span_row_groups_are_found_and_capped_as_a_whole(shapes, queries, cap, n_rows, n_at_once):
    with tempfile.TemporaryDirectory() as folder, patch.object(bands, "_ROWS_AT_ONCE", n_at_once):
        with patch.object(tables, "_BAND_GROUP_ROWS", n_rows):
            tables.write_bands(Path(folder, "bands.parquet"), np.array(shapes, np.uint64))
        table = BandTable(Store(folder), ["bands.parquet"], Cache())
        keys = np.array(queries, np.uint64)
        hits = table.find(keys, cap)
        found = list(zip(hits.queries.tolist(), hits.bands.tolist(), hits.shapes.tolist(), strict=True))
        expected, n_capped = expected_hits(shapes, queries, cap)
        assert len(found) == len(expected)
        assert set(found) == expected
        assert hits.n_capped.tolist() == n_capped
        # what is passed over takes no memory
        assert table.find(keys, cap, most=len(expected)) is not None
        assert not expected or table.find(keys, cap, most=len(expected) - 1) is None

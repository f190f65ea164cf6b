import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.bands import band_keys, candidate_probability
from treesim_dask.hashing.tuning import choose_bands
from treesim_dask.index import tables


@pytest.mark.parametrize(
    ("similarity", "probability"),
    [(0.2, 0.006), (0.3, 0.047), (0.4, 0.186), (0.5, 0.470), (0.6, 0.802), (0.7, 0.975), (0.8, 0.9996)],
)
def test_the_s_curve_of_the_lecture(similarity, probability):
    digits = len(str(probability)) - 2
    assert round(float(candidate_probability(similarity, n_bands=20, n_rows=5)), digits) == probability


def test_eight_in_ten_misses_one_in_three_thousand():
    assert 1 / (1 - candidate_probability(0.8, 20, 5)) == pytest.approx(2800, rel=0.1)


def test_the_reports_own_parameters_find_few():
    assert candidate_probability(0.7, 10, 12) == pytest.approx(0.13, abs=0.005)


@given(st.floats(0, 1), st.integers(1, 200), st.integers(1, 30))
def test_probability_is_the_formula(similarity, n_bands, n_rows):
    direct = 1 - (1 - similarity**n_rows) ** n_bands
    assert candidate_probability(similarity, n_bands, n_rows) == pytest.approx(direct, abs=1e-12)


@given(
    hnp.arrays(np.uint32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=8).map(lambda s: (s[0], s[1] * 4))),
    st.sampled_from([1, 2, 4]),
)
def test_keys_are_equal_just_where_bands_are(signatures, n_bands):
    keys = band_keys(signatures, n_bands)
    bands = signatures.reshape(len(signatures), n_bands, -1)
    equal_bands = (bands[:, None] == bands[None, :]).all(axis=3)
    assert ((keys[:, None] == keys[None, :]) == equal_bands).all()


def test_equal_values_in_different_bands_get_different_keys():
    keys = band_keys(np.ones((1, 40), np.uint32), 10)
    assert len(set(keys[0].tolist())) == 10


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.999), st.integers(1, 512))
def test_chosen_bands_reach_the_target_and_no_steeper_choice_does(threshold, probability, n_hashes):
    try:
        n_bands, n_rows = choose_bands(threshold, probability, n_hashes)
    except ConfigError:
        assert candidate_probability(threshold, n_hashes, 1) < probability
        return
    assert n_bands * n_rows <= n_hashes
    assert candidate_probability(threshold, n_bands, n_rows) >= probability - 1e-9
    steeper = n_rows + 1
    assert steeper > n_hashes or candidate_probability(threshold, n_hashes // steeper, steeper) < probability + 1e-9


@pytest.mark.parametrize("arguments", [(0, 0.5), (1, 0.5), (0.5, 0), (0.5, 1), (0.5, 0.5, 0), (0.5, 0.5, 5000)])
def test_bad_targets_are_refused(arguments):
    with pytest.raises(ConfigError):
        choose_bands(*arguments)


@given(keys=hnp.arrays(np.uint64, st.tuples(st.integers(0, 9), st.integers(1, 7)), elements=st.integers(0, 3)))
def test_band_tables_are_sorted_and_no_row_group_spans_two_bands(keys, tmp_path_factory):
    path = tmp_path_factory.mktemp("bands") / "bands.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_BAND_GROUP_ROWS", 4)
        patch.setattr(tables, "_BAND_ROWS_AT_ONCE", 6)
        tables.write_bands(path, keys)
    file = pq.ParquetFile(path)
    expected = sorted((band, int(key), shape) for shape, row in enumerate(keys) for band, key in enumerate(row))
    assert [tuple(row.values()) for row in file.read().to_pylist()] == expected
    for group in range(file.num_row_groups):
        bands = file.read_row_group(group)["band"].to_pylist()
        assert len(set(bands)) == 1
        assert len(bands) <= 4


def test_bands_must_divide_the_signature():
    with pytest.raises(ConfigError, match="must divide"):
        band_keys(np.ones((1, 10), np.uint32), 3)


def test_defaults_favour_recall():
    config = IndexConfig()
    assert candidate_probability(0.7, config.n_bands, config.n_rows) >= 0.98

"""What is learned on a sample holds for all pages."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import shape_batch

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.bands import band_keys, candidate_probability
from treesim_dask.hashing.family import FAMILIES, make_family, pair_similarities
from treesim_dask.hashing.sampling import best_pairs, curve_points, draw_sample, meeting_pairs, tune_on_sample


def template_shapes(n_templates=40, n_pages=15, seed=3):
    """Pages of several templates: each template has its own branches, each page its own share of them."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_templates):
        keys = rng.choice(400, size=100, replace=False) + 1
        for _ in range(n_pages):
            kept = keys[rng.random(100) < rng.uniform(0.6, 1.0)]
            rows.append({int(key): int(rng.integers(1, 6)) for key in kept})
    return shape_batch(rows)


@pytest.mark.parametrize("family", FAMILIES)
def test_predictions_come_true(family):
    """From a sixth of the queries: recall within 5 %, candidates within 25 % of what all queries then see."""
    shapes, config = template_shapes(), IndexConfig(family=family)
    sample = draw_sample(make_family(config), shapes, n_queries=100)
    best = best_pairs(sample.similarities, 10)
    threshold = float(np.quantile(sample.similarities[best], 0.1))
    tuning = tune_on_sample(config, sample, threshold, n_pages=len(shapes) - 1, recall=0.9, n_hashes=200, wanted=best)

    config = replace(config, n_bands=tuning.counted.n_bands, n_rows=tuning.counted.n_rows)
    everything = draw_sample(make_family(config), shapes, n_queries=len(shapes))
    met = meeting_pairs(band_keys(make_family(config).sign(shapes), config.n_bands), everything.queries)
    recall = met[best_pairs(everything.similarities, 10)].mean()
    n_candidates = met.sum(axis=1).mean()
    for predicted in (tuning.expected, tuning.counted):
        assert predicted.recall == pytest.approx(recall, rel=0.05)
        assert predicted.n_candidates == pytest.approx(n_candidates, rel=0.25)
    assert tuning.points[2].sum() == sample.similarities.size


def test_measured_points_lie_on_the_curve():
    """Over many seeds, since the pairs of one seed share their hash functions."""
    shapes = template_shapes(n_templates=10)
    sample = draw_sample(make_family(IndexConfig()), shapes, n_queries=50)
    met = [
        meeting_pairs(band_keys(make_family(IndexConfig(seed=seed)).sign(shapes), 25), sample.queries)
        for seed in range(60)
    ]
    means, shares, sizes = curve_points(np.broadcast_to(sample.similarities, (60, *sample.similarities.shape)), met)
    dense = sizes > 60 * 50
    assert dense.sum() >= 8
    assert np.abs(shares - candidate_probability(means, 25, 5))[dense].max() < 0.05


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=8), st.data())
@settings(deadline=None)
def test_pairs_meet_in_some_band(rows, data):
    queries = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1)))
    expected = [
        [any(a == b for a, b in zip(rows[query], row, strict=True)) for i, row in enumerate(rows) if i != query]
        for query in queries
    ]
    assert meeting_pairs(np.array(rows, np.uint64), np.array(queries)).tolist() == expected


def test_a_sample_compares_each_query_with_all_others():
    shapes = shape_batch([{1: 1, 2: 1}, {1: 1}, {3: 1}, {1: 2, 2: 2, 3: 1}])
    sample = draw_sample(make_family(IndexConfig()), shapes, n_queries=3, seed=4)
    assert len(set(sample.queries.tolist())) == 3
    for query, row in zip(sample.queries.tolist(), sample.similarities, strict=True):
        others = np.array([i for i in range(4) if i != query])
        exact = pair_similarities(make_family(IndexConfig()), shapes, np.full(3, query), others)
        assert row.tolist() == exact.tolist()


def test_curve_points_count_pairs_by_similarity():
    rng = np.random.default_rng(2)
    similarities = rng.random((20, 1000))
    met = rng.random((20, 1000)) < candidate_probability(similarities, 20, 5)
    means, shares, sizes = curve_points(similarities, met, n_bins=10)
    assert sizes.sum() == 20_000
    for i in range(10):
        inside = (similarities >= i / 10) & (similarities < (i + 1) / 10)
        assert means[i] == pytest.approx(similarities[inside].mean())
        assert shares[i] == pytest.approx(met[inside].mean())


def test_samples_too_small_or_too_unlike_are_refused():
    family = make_family(IndexConfig())
    with pytest.raises(ConfigError, match="at least 2 pages, got 1"):
        draw_sample(family, shape_batch([{1: 1}]))
    sample = draw_sample(family, shape_batch([{1: 1}, {2: 1}]))
    with pytest.raises(ConfigError, match=r"no pair in the sample is as similar as 0.5"):
        tune_on_sample(IndexConfig(), sample, 0.5, n_pages=10)


def test_wanted_pairs_must_be_some():
    shapes = shape_batch([{1: 1, 2: 1}, {1: 1, 2: 1}, {1: 1, 3: 1}])
    sample = draw_sample(make_family(IndexConfig()), shapes)
    with pytest.raises(ConfigError, match="wanted marks no pair"):
        tune_on_sample(IndexConfig(), sample, 0.5, n_pages=10, wanted=np.zeros(sample.similarities.shape, np.bool_))

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.bands import candidate_probability, rise
from treesim_dask.hashing.plotting import draw_s_curve, save_figure
from treesim_dask.hashing.tuning import SimilarityDistribution, choose_bands, expect_bands, tune_bands

# threshold, weight of false positives, hashes: bands and rows that datasketch 2.0 chooses
PEER_CHOICES = [
    (0.3, 0.2, 128, (42, 3)), (0.3, 0.8, 64, (16, 4)), (0.5, 0.5, 128, (25, 5)), (0.5, 0.8, 64, (10, 6)),
    (0.7, 0.2, 64, (10, 6)), (0.7, 0.5, 128, (14, 9)), (0.7, 0.8, 128, (10, 12)), (0.8, 0.5, 128, (9, 13)),
    (0.9, 0.2, 128, (7, 18)), (0.9, 0.8, 128, (4, 32)),
]  # fmt: skip


@pytest.mark.parametrize(("threshold", "weight", "n_hashes", "bands"), PEER_CHOICES)
def test_uniform_choices_are_those_of_the_peer(threshold, weight, n_hashes, bands):
    uniform = SimilarityDistribution.uniform()
    choice = tune_bands(uniform, threshold, n_hashes=n_hashes, false_positive_weight=weight)
    assert (choice.n_bands, choice.n_rows) == bands


def test_the_parameters_of_the_report_miss_most_pairs_at_its_threshold():
    choice = tune_bands(SimilarityDistribution.uniform(), 0.7, false_positive_weight=0.8)
    assert candidate_probability(0.7, choice.n_bands, choice.n_rows) == pytest.approx(0.13, abs=0.005)


similarity_lists = st.lists(st.floats(0, 1), min_size=1, max_size=15).map(lambda values: np.array([*values, 0.95]))


@given(similarity_lists, st.floats(0.3, 0.9), st.floats(0.5, 0.95), st.floats(2, 40), st.floats(0, 1))
@settings(deadline=None, max_examples=40)
def test_choices_are_those_of_a_search_through_all(similarities, threshold, recall, max_candidates, weight):
    n_hashes, n_pages = 16, 40
    distribution = SimilarityDistribution.measured(similarities, n_pages)
    above = similarities >= threshold
    # bins of 1/1000 whose mean falls on the other side of the threshold would be a different question
    if np.any(np.abs(similarities - threshold) < 0.002):
        return
    allowed = {}
    for n_bands in range(1, n_hashes + 1):
        for n_rows in range(1, n_hashes // n_bands + 1):
            found = 1 - (1 - similarities**n_rows) ** n_bands
            scale = n_pages / len(similarities)
            if found[above].mean() >= recall and found.sum() * scale <= max_candidates:
                error = weight * found[~above].sum() + (1 - weight) * (1 - found[above]).sum()
                allowed[n_bands, n_rows] = error
    bounds = {"recall": recall, "max_candidates": max_candidates, "n_hashes": n_hashes}
    if not allowed:
        with pytest.raises(ConfigError, match="candidates a query"):
            tune_bands(distribution, threshold, false_positive_weight=weight, **bounds)
        return
    choice = tune_bands(distribution, threshold, false_positive_weight=weight, **bounds)
    assert allowed[choice.n_bands, choice.n_rows] == pytest.approx(min(allowed.values()), abs=1e-3)
    assert choice.recall >= recall
    assert choice.n_candidates <= max_candidates


def test_a_measured_distribution_keeps_the_mean_of_each_bin():
    values = np.random.default_rng(0).beta(2, 5, size=10_000)
    distribution = SimilarityDistribution.measured(values, n_pages=500)
    assert distribution.n_pages.sum() == pytest.approx(500)
    assert np.average(distribution.similarity, weights=distribution.n_pages) == pytest.approx(values.mean())
    exact = candidate_probability(values, 25, 5).mean() * 500
    assert expect_bands(distribution, 0.5, 25, 5).n_candidates == pytest.approx(exact, rel=1e-3)


def test_bounds_that_cannot_be_kept_say_what_can():
    uniform = SimilarityDistribution.uniform(1000)
    with pytest.raises(ConfigError, match=r"the recall is at most 0\.\d+, 0.99 was asked for"):
        tune_bands(uniform, 0.7, recall=0.99, max_candidates=200)
    with pytest.raises(ConfigError, match="has at most 1 candidates"):
        tune_bands(uniform, 0.7, max_candidates=1, n_hashes=16)
    with pytest.raises(ConfigError, match=r"no pair in the sample is as similar as 0.9"):
        tune_bands(SimilarityDistribution.measured(np.array([0.1, 0.2]), 10), 0.9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"threshold": 1.0}, "threshold must lie between 0 and 1"), ({"n_hashes": 0}, "n_hashes must be"),
     ({"false_positive_weight": 2}, "false_positive_weight must lie from 0 to 1")],
)  # fmt: skip
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        tune_bands(SimilarityDistribution.uniform(), **{"threshold": 0.5, **arguments})


@given(st.floats(0.3, 0.95), st.floats(0.5, 0.999), st.integers(1, 200))
@settings(deadline=None)
def test_choose_bands_takes_the_steepest_curve_that_reaches_the_target(threshold, probability, n_hashes):
    fits = [
        (n_bands, n_rows)
        for n_rows in range(1, n_hashes + 1)
        for n_bands in range(1, n_hashes // n_rows + 1)
        if candidate_probability(threshold, n_bands, n_rows) >= probability * (1 + 1e-12)
    ]
    if not fits:
        with pytest.raises(ConfigError, match="use at least"):
            choose_bands(threshold, probability * (1 + 1e-9), n_hashes)
        return
    n_bands, n_rows = choose_bands(threshold, probability, n_hashes)
    assert n_rows >= max(rows for _, rows in fits)
    assert candidate_probability(threshold, n_bands, n_rows) >= probability * (1 - 1e-9)


class TestPlot:
    def test_shows_theory_threshold_and_measured_points(self):
        measured = (np.array([0.2, 0.8]), np.array([0.01, 1.0]), np.array([100, 50]))
        axes = draw_s_curve(20, 5, measured, label="Jaccard similarity").axes[0]
        curve, threshold, points = axes.get_lines()
        x, y = curve.get_data()
        assert y == pytest.approx(1 - (1 - np.asarray(x) ** 5) ** 20)
        assert threshold.get_xdata() == pytest.approx([rise(20, 5)] * 2)
        assert points.get_ydata().tolist() == [0.01, 1.0]
        assert axes.get_xlabel() == "Jaccard similarity"

    @pytest.mark.parametrize(("name", "start"), [("curve.png", b"\x89PNG"), ("curve.svg", b"<?xml")])
    def test_is_written_as_the_name_says(self, tmp_path, name, start):
        save_figure(draw_s_curve(4, 4), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)

    def test_other_formats_are_refused(self, tmp_path):
        with pytest.raises(ConfigError, match=r"written as .png or .svg, got 'curve.gif'"):
            save_figure(draw_s_curve(4, 4), tmp_path / "curve.gif")


@pytest.mark.parametrize(("threshold", "n_rows"), [(0.05, 2), (0.004, 1)])
def test_no_more_bands_are_chosen_than_an_index_may_have(threshold, n_rows):
    n_bands, n_chosen = choose_bands(threshold, 0.9, n_hashes=4096)
    assert n_chosen == n_rows
    assert IndexConfig(n_bands=n_bands, n_rows=n_chosen).n_bands == n_bands
    assert candidate_probability(threshold, n_bands, n_chosen) >= 0.9


def test_a_target_beyond_the_bands_of_an_index_is_refused():
    with pytest.raises(ConfigError, match="1024 bands, the most an index may have"):
        choose_bands(0.001, 0.9, n_hashes=4096)

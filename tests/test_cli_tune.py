"""Tuning and judging from the command line: what `tune` foretells is what `eval` then measures."""

import json
from collections import Counter

import numpy as np
import pytest
from commands import assert_refused, run
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import shape_batch

from treesim_dask import open_index
from treesim_dask.config import FAMILY_NAMES, IndexConfig
from treesim_dask.hashing.bands import candidate_probability
from treesim_dask.query.evaluate import measure_curve
from treesim_dask.query.exact import PageShapes, best_scores, load_page_shapes
from treesim_dask.query.metrics import METRICS, measure_overlap
from treesim_dask.query.tuning import count_wanted, distinct_shapes


@pytest.fixture(scope="module")
def archives(demo_crawl):
    return sorted(demo_crawl.rglob("*.warc.gz"))


@pytest.fixture
def labels(demo_crawl):
    return demo_crawl / "labels.csv"


def tune(capsys, *options):
    code, out, err = run(capsys, "tune", *options, "--json")
    assert code == 0, err
    return json.loads(out)


def test_without_pages_the_choice_keeps_to_the_s_curve(capsys):
    choice = tune(capsys, "--threshold", 0.7, "--recall", 0.9)
    config = IndexConfig.from_dict(choice["parameters"])
    assert config.n_hashes <= 128
    grid = np.linspace(0.7, 1, 2001)
    assert candidate_probability(grid, config.n_bands, config.n_rows).mean() >= 0.899
    assert choice["rise"] == pytest.approx((1 / config.n_bands) ** (1 / config.n_rows))
    assert choice["counted"] is None
    code, out, _ = run(capsys, "tune", "--threshold", 0.7)
    assert code == 0
    assert "equally frequent" in out


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_eval_measures_what_tune_foretells(family, demo_index, archives, labels, tmp_path, capsys):
    options = ("--threshold", 0.3, "--recall", 0.9, "-k", 3, "--queries", 150, "--family", family)
    choice = tune(capsys, "--index", demo_index, *options)
    bands, rows = choice["parameters"]["n_bands"], choice["parameters"]["n_rows"]
    index = tmp_path / "index"
    given = ("--family", family, "--bands", bands, "--rows", rows, "--shard", "1/1", "--quiet")
    assert run(capsys, "build", *archives, "--index", index, *given)[0] == 0
    code, out, _ = run(capsys, "eval", index, "-k", 3, "--json", "--quiet")
    assert code == 0
    measured = json.loads(out)
    assert measured["precision"] is None
    assert measured["n_queries"] == 400
    assert choice["counted"]["recall"] == pytest.approx(measured["recall"], rel=0.05)
    assert choice["counted"]["n_candidates"] == pytest.approx(measured["n_candidates"], rel=0.25)


def test_a_sample_of_a_crawl_and_a_plot(archives, tmp_path, capsys):
    plot = tmp_path / "curve.svg"
    counting = ("--feature", "paths", "--family", "bits", "--collapse-repeats")
    options = ("--threshold", 0.4, "--recall", 0.8, "-k", 3, *counting)
    code, out, _ = run(capsys, "tune", "--sample", *archives, "--sample-pages", 150, *options, "--plot", plot)
    assert code == 0
    assert "measured on    150 pages" in out
    assert "bits over paths" in out
    assert plot.read_text().startswith("<?xml")
    small = tune(capsys, "--sample", archives[0], *options)
    large = tune(capsys, "--sample", archives[0], *options, "--pages", 100 * small["n_pages"])
    assert large["counted"]["n_candidates"] > 50 * (small["counted"]["n_candidates"] - 1)
    assert sum(point["n_pairs"] for point in small["points"]) == small["n_pages"] * (small["n_shapes"] - 1)


def test_the_bound_on_candidates_is_kept(demo_index, labels, capsys):
    options = ("--index", demo_index, "--threshold", 0.5, "--recall", 0, "-k", 3, "--labels", labels)
    choice = tune(capsys, *options, "--max-candidates", 5)
    assert choice["expected"]["n_candidates"] <= 5
    assert_refused(run(capsys, "tune", *options, "--max-candidates", 0.5), "candidates")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("--threshold",)),
        (("--threshold", 1.5), ("threshold must lie between 0 and 1", "1.5")),
        (("--threshold", 0.5, "--recall", 2), ("--recall must lie from 0 to 1",)),
        (("--threshold", 0.5, "--false-positive-weight", -1), ("--false-positive-weight",)),
        (("--threshold", 0.5, "--hashes", 0), ("--hashes must be",)),
        (("--threshold", 0.5, "--family", "simhash"), ("family must be one of minhash",)),
        (("--threshold", 0.5, "--plot", "curve.doc"), (".png or .svg",)),
        (("--threshold", 0.5, "--index", "nowhere.index"), ("there is no index at",)),
        (("--threshold", 0.5, "--sample", "nowhere.warc.gz"), ("nowhere.warc.gz",)),
        (("--threshold", 0.5, "--sample", "a", "--index", "b"), ("not allowed with",)),
        (("--threshold", 0.1, "--recall", 1, "--hashes", 4), ("use more hashes",)),
    ],
)
def test_wrong_wishes_are_refused_on_one_line(options, words, capsys):
    assert_refused(run(capsys, "tune", *options), *words)


def test_an_index_keeps_what_it_counts(demo_index, capsys):
    result = run(capsys, "tune", "--index", demo_index, "--threshold", 0.5, "--feature", "paths")
    assert_refused(result, "an index keeps what it counts", "--sample")
    assert_refused(run(capsys, "tune", "--index", demo_index, "--threshold", 0.5, "--metric", "x"), "metric must be")


def test_eval_draws(demo_index, labels, tmp_path, capsys):
    plot = tmp_path / "eval.png"
    options = ("--labels", labels, "--min-pages", 3, "-k", 2, "--queries", 30, "--quiet")
    assert run(capsys, "eval", demo_index, *options, "--plot", plot)[0] == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert_refused(run(capsys, "eval", demo_index, *options, "--plot", tmp_path / "eval.txt"), ".png or .svg")
    assert_refused(run(capsys, "eval", demo_index, *options, "--plot", tmp_path / "no" / "e.png"), "cannot write")
    assert_refused(run(capsys, "eval", demo_index, "-k", 0), "k must be at least 1")


def test_figures_by_rank_end_in_the_figures(demo_index, labels, capsys):
    for metric in METRICS:
        _, out, _ = run(
            capsys, "eval", demo_index, "--labels", labels, "--metric", metric, "-k", 4, "--json", "--quiet"
        )
        figures = json.loads(out)
        assert len(figures["precision_by_rank"]) == len(figures["recall_by_rank"]) == 4
        assert figures["precision_by_rank"][-1] == figures["precision"]
        assert figures["recall_by_rank"][-1] == figures["recall"]


def test_measured_points_rise_with_similarity(demo_index):
    index = open_index(demo_index)
    means, shares, sizes = measure_curve(index.segments, index.config)
    n_shapes = len(load_page_shapes(index.segments).shapes)
    assert sizes.sum() == min(100, n_shapes) * (n_shapes - 1)
    assert shares[means > 0.9].min() > 0.99
    assert shares[0] < 0.1


page_shapes = st.lists(
    st.dictionaries(st.integers(1, 12), st.integers(1, 4), min_size=1), min_size=2, max_size=8
).flatmap(
    lambda rows: st.lists(st.integers(0, len(rows) - 1), min_size=2, max_size=12).map(
        lambda shape_of: PageShapes(
            [f"u{i}" for i in range(len(shape_of))],
            [str(i) for i in range(len(shape_of))],
            np.array(shape_of),
            shape_batch(rows),
        )
    )
)


@settings(max_examples=40)
@given(page_shapes, st.sampled_from(sorted(METRICS)), st.integers(1, 5))
def test_exact_search_is_that_of_one_pair_after_the_other(pages, name, k):
    metric = METRICS[name]
    asked = list(range(len(pages.shape_of)))
    best = best_scores(pages, asked, metric, k)
    wanted = count_wanted(pages, asked, metric, k)
    for page in asked:
        one = pages.shapes.take(pages.shape_of[[page]])
        scores = [
            metric.scores(measure_overlap(one, pages.shapes.take(pages.shape_of[[other]]))).item()
            for other in asked
            if other != page
        ]
        in_order = sorted(scores, reverse=not metric.is_distance)
        assert best[page].tolist() == in_order[:k]
        assert wanted[page].sum() == min(k, len(scores))


@given(st.lists(st.dictionaries(st.integers(1, 4), st.integers(1, 2)), min_size=1, max_size=12))
def test_distinct_shapes_are_those_of_a_dictionary(rows):
    distinct, place = distinct_shapes(shape_batch(rows))
    assert len(distinct) == len({tuple(sorted(row.items())) for row in rows})
    again = distinct.take(place)
    everything = shape_batch(rows)
    for name in ("indptr", "branches", "counts"):
        assert getattr(again, name).tolist() == getattr(everything, name).tolist()
    assert Counter(place.tolist()).total() == len(rows)

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import nested_trees, shape_batch, shape_rows, tree_batch
from test_branches import flatten

from treesim_dask.dom.branches import count_branches
from treesim_dask.errors import ConfigError
from treesim_dask.query.metrics import METRICS, find_metric, measure_overlap

SIMILARITIES = [metric for metric in METRICS.values() if not metric.is_distance]


def score(metric, query, *candidates):
    return METRICS[metric].scores(measure_overlap(shape_batch([query]), shape_batch(candidates))).tolist()


def brute_force(metric, q, c):
    """Each metric from its definition, over the union of the branches."""
    keys = sorted(q.keys() | c.keys())
    x, y = ([row.get(key, 0) for key in keys] for row in (q, c))
    if metric == "log-cosine":
        x, y = ([math.log1p(value) for value in row] for row in (x, y))
    if metric in ("log-cosine", "cosine"):
        norm = math.sqrt(math.fsum(v * v for v in x) * math.fsum(v * v for v in y))
        return math.fsum(a * b for a, b in zip(x, y, strict=True)) / norm if norm else 0
    if metric == "jaccard":
        return len(q.keys() & c.keys()) / len(keys) if keys else 0
    if metric == "dice":
        return 2 * len(q.keys() & c.keys()) / (len(q) + len(c)) if keys else 0
    if metric == "weighted-jaccard":
        return sum(map(min, x, y)) / sum(map(max, x, y)) if keys else 0
    return sum(abs(a - b) for a, b in zip(x, y, strict=True)) / 5


@pytest.mark.parametrize("metric", METRICS)
@given(q=shape_rows(max_branch=20), rows=st.lists(shape_rows(max_branch=20), max_size=5))
def test_metrics_follow_their_definitions(metric, q, rows):
    expected = [brute_force(metric, q, row) for row in rows]
    assert score(metric, q, *rows) == pytest.approx(expected, abs=1e-9)


def test_dice_of_the_lecture():
    # shingle sets with 4 of 7 in common: Dice 2 * 2 / (3 + 4)
    assert score("dice", {1: 1, 2: 1, 3: 1}, {2: 1, 3: 1, 4: 1, 5: 1}) == pytest.approx([4 / 7])


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
@given(q=shape_rows(), c=shape_rows())
def test_range_and_symmetry(metric, q, c):
    (forth,), (back,) = score(metric.name, q, c), score(metric.name, c, q)
    assert forth == back
    low, high = sorted((metric.best, metric.worst))
    assert low <= forth <= high


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
@given(q=shape_rows().filter(bool))
def test_a_shape_is_most_like_itself(metric, q):
    assert score(metric.name, q, q) == [metric.best]


@given(q=shape_rows(), rows=st.lists(shape_rows(), min_size=1, max_size=6))
def test_scores_do_not_depend_on_the_batch(q, rows):
    for metric in METRICS:
        together = score(metric, q, *rows)
        assert together == [value for row in rows for value in score(metric, q, row)]


@given(nested_trees(), st.data())
def test_bdist_is_a_lower_bound_of_the_edit_distance(tree, data):
    """One relabelling, deletion or insertion is one edit: the bound must not exceed the number of edits."""
    nodes = flatten(tree)
    n_edits = data.draw(st.integers(0, 4))
    edited = list(nodes)
    for _ in range(n_edits):
        edited = edit_once(edited, data.draw)
    shapes = count_branches(tree_batch([nodes, edited]))
    overlap = measure_overlap(shapes.take(np.array([0])), shapes.take(np.array([1])))
    assert METRICS["bdist"].scores(overlap)[0] <= n_edits


def edit_once(nodes, draw):
    """Relabel a node, or delete a node other than the root (its children move up)."""
    i = draw(st.integers(0, len(nodes) - 1))
    depth = nodes[i][1]
    if i == 0 or draw(st.booleans()):
        return [*nodes[:i], (draw(st.integers(1, 9)), depth), *nodes[i + 1 :]]
    end = next((j for j in range(i + 1, len(nodes)) if nodes[j][1] <= depth), len(nodes))
    return [*nodes[:i], *((t, d - 1) for t, d in nodes[i + 1 : end]), *nodes[end:]]


def test_an_unknown_metric_is_named():
    with pytest.raises(ConfigError, match=r"log-cosine.*got 'euclid'"):
        find_metric("euclid")

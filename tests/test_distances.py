import math

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import shape_batch, shape_rows

from treesim_dask.hashing.distances import (
    angles,
    euclidean_distances,
    hamming_distances,
    jaccard_distances,
    weighted_jaccard_distances,
)

rows = shape_rows(max_size=20, max_branch=25)  # few branches, so that rows have some in common


def distance(function, left, right):
    return function(shape_batch([left, right]), np.array([0]), np.array([1]))[0]


@given(rows, rows)
@settings(deadline=None)
def test_distances_follow_their_definitions(a, b):
    both = a.keys() | b.keys()
    least = sum(min(a.get(key, 0), b.get(key, 0)) for key in both)
    greatest = sum(max(a.get(key, 0), b.get(key, 0)) for key in both)
    assert distance(jaccard_distances, a, b) == pytest.approx(1 - len(a.keys() & b.keys()) / len(both) if both else 0)
    assert distance(weighted_jaccard_distances, a, b) == pytest.approx(1 - least / greatest if both else 0)
    assert distance(hamming_distances, a, b) == len(a.keys() ^ b.keys())
    difference = [a.get(key, 0) - b.get(key, 0) for key in both]
    assert distance(euclidean_distances, a, b) == pytest.approx(math.hypot(*difference))


@given(rows, rows)
@settings(deadline=None)
def test_angles_follow_the_definition(a, b):
    product = sum(count * b.get(key, 0) for key, count in a.items())
    lengths = math.hypot(*a.values()) * math.hypot(*b.values())
    if lengths:
        expected = math.cos(math.radians(distance(angles, a, b)))
        assert expected == pytest.approx(product / lengths, abs=1e-9)
    else:
        assert distance(angles, a, b) == (0 if a == b else 90)


@pytest.mark.parametrize(
    "function", [jaccard_distances, weighted_jaccard_distances, angles, hamming_distances, euclidean_distances]
)
@given(a=rows, b=rows, c=rows)
@settings(deadline=None, max_examples=50)
def test_each_is_a_distance(function, a, b, c):
    assert distance(function, a, a) == 0
    assert distance(function, a, b) == distance(function, b, a) >= 0
    assert distance(function, a, c) <= distance(function, a, b) + distance(function, b, c) + 1e-6

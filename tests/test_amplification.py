import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treesim_dask.errors import ConfigError
from treesim_dask.hashing.amplification import And, Or, Sensitivity, Single, amplify

constructions = st.recursive(
    st.just(Single()),
    lambda inner: st.builds(And, st.integers(1, 3), inner) | st.builds(Or, st.integers(1, 3), inner),
    max_leaves=3,
).filter(lambda construction: construction.n_hashes <= 12)


@given(constructions, st.fractions(0, 1, max_denominator=20))
@settings(deadline=None, max_examples=50)
def test_probability_is_that_of_all_outcomes_added_up(construction, p):
    """Every pattern of hashes that agree or not, weighed with its probability, in exact fractions."""
    outcomes = np.array(list(itertools.product([False, True], repeat=construction.n_hashes)))
    agreed = outcomes[construction.agrees(outcomes)]
    exact = sum((p ** int(row.sum()) * (1 - p) ** int((~row).sum()) for row in agreed), Fraction(0))
    assert float(construction.probability(float(p))) == pytest.approx(float(exact), abs=1e-12)


def test_small_probabilities_keep_their_digits():
    # 1 - (1 - x)**25 is 25 x for tiny x; naive arithmetic gives 0
    assert Or(25, And(10)).probability(1e-3) == pytest.approx(25e-30, rel=1e-9)


def test_arrays_go_through_as_they_are():
    probabilities = Or(2, And(2)).probability([[0.0, 1.0], [0.5, 0.5]])
    assert probabilities == pytest.approx(np.array([[0, 1], [7 / 16, 7 / 16]]))


def test_nested_parts_take_their_hashes_in_order():
    # (a or b) and (c or d)
    equal = np.array([[1, 0, 0, 1], [1, 1, 0, 0]], bool)
    assert And(2, Or(2)).agrees(equal).tolist() == [True, False]


@given(constructions, st.floats(0, 1), st.floats(0, 1))
@settings(deadline=None)
def test_amplified_families_stay_sensitive(construction, p, q):
    amplified = amplify(Sensitivity(0.1, 0.9, max(p, q), min(p, q)), construction)
    assert amplified.p_near >= amplified.p_far


@pytest.mark.parametrize("make", [And, Or])
def test_nothing_cannot_be_joined(make):
    with pytest.raises(ConfigError, match="at least 1 hash, got 0"):
        make(0)


def test_wrong_numbers_are_refused():
    with pytest.raises(ConfigError, match="takes 4 hashes, got 3"):
        Or(2, And(2)).agrees(np.ones(3, bool))
    with pytest.raises(ConfigError, match="near must lie below far"):
        Sensitivity(0.5, 0.5, 1, 0)

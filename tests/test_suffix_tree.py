"""Suffix trees against brute force, and their growth in operations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treesim_dask.dom.suffix_tree import SuffixTree, build_suffix_tree, find_repeats


def repeated_by_brute_force(sequence):
    """Every substring that occurs at least twice, with all its occurrences."""
    found = {}
    for length in range(1, len(sequence)):
        for start in range(len(sequence) - length + 1):
            found.setdefault(tuple(sequence[start : start + length]), []).append(start)
    return {word: places for word, places in found.items() if len(places) > 1}


def repeated_by_suffix_tree(sequence):
    repeats = find_repeats(build_suffix_tree(sequence))
    found = {}
    for row in range(len(repeats)):
        places = repeats.occurrences(row).tolist()
        for length in range(repeats.shorter[row] + 1, repeats.lengths[row] + 1):
            word = tuple(sequence[places[0] : places[0] + length])
            assert word not in found, "a substring belongs to one row"
            found[word] = places
    return found


def all_words(alphabet_size, max_length):
    return [word for n in range(max_length + 1) for word in product(range(alphabet_size), repeat=n)]


@pytest.mark.parametrize(("alphabet_size", "max_length"), [(1, 40), (2, 10), (3, 6), (4, 5)])
def test_all_short_words(alphabet_size, max_length):
    for word in all_words(alphabet_size, max_length):
        assert repeated_by_suffix_tree(word) == repeated_by_brute_force(word)


@given(st.lists(st.integers(0, 3), max_size=60))
def test_random_words_of_small_alphabets(word):
    assert repeated_by_suffix_tree(word) == repeated_by_brute_force(word)


@given(st.lists(st.sampled_from([-(2**62), -1, 0, 7, 2**40, 2**62]), max_size=40))
def test_any_integers(word):
    assert repeated_by_suffix_tree(word) == repeated_by_brute_force(word)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(2, 12))
def test_periodic_words(word, n_copies):
    sequence = word * n_copies
    assert repeated_by_suffix_tree(sequence) == repeated_by_brute_force(sequence)


@given(st.lists(st.integers(0, 2), max_size=40))
def test_every_suffix_ends_in_one_leaf(word):
    tree = build_suffix_tree(word)
    leaves = np.flatnonzero(tree.suffixes >= 0)
    assert sorted(tree.suffixes[leaves].tolist()) == list(range(len(word) + 1))
    for leaf in leaves.tolist():
        assert path_label(tree, leaf, [*word, "end"]) == [*word[tree.suffixes[leaf] :], "end"]


def path_label(tree: SuffixTree, node, text):
    label = []
    while node > 0:
        label = text[tree.edge_starts[node] : tree.edge_ends[node]] + label
        node = tree.parents[node]
    return label


@given(st.lists(st.integers(0, 1), max_size=50))
def test_longest_is_the_longest_repeated_substring_at_each_place(word):
    repeats = find_repeats(build_suffix_tree(word))
    repeated = repeated_by_brute_force(word)
    for place in range(len(word)):
        lengths = [n for n in range(1, len(word) - place + 1) if tuple(word[place : place + n]) in repeated]
        row = repeats.longest[place]
        assert (repeats.lengths[row] if row >= 0 else 0) == max(lengths, default=0)


def fibonacci_word(n):
    shorter, longer = [0], [0, 1]
    while len(longer) < n:
        shorter, longer = longer, longer + shorter
    return longer[:n]


WORDS = {
    "one symbol": lambda n: [0] * n,
    "two in turn": lambda n: [0, 1] * (n // 2),
    "all distinct": lambda n: list(range(n)),
    "fibonacci": fibonacci_word,
    "random bits": lambda n: np.random.default_rng(1).integers(0, 2, n),
    "square": lambda n: np.tile(np.random.default_rng(2).integers(0, 50, n // 2), 2),
    "one symbol, one break": lambda n: [0] * (n // 2) + [1] + [0] * (n // 2 - 1),
}


@pytest.mark.parametrize("kind", WORDS)
def test_operations_grow_linearly(kind):
    """An extension, a walk down and the probes they need are each amortised constant: so is their number per symbol."""
    sizes = [2**10, 2**13, 2**16]  # powers of two fill the transition table alike
    per_symbol = [build_suffix_tree(WORDS[kind](n)).n_steps / n for n in sizes]
    assert max(per_symbol) < 20
    assert max(per_symbol) < 1.3 * min(per_symbol)


@pytest.mark.parametrize("kind", WORDS)
def test_the_tree_has_at_most_two_nodes_a_symbol(kind):
    assert len(build_suffix_tree(WORDS[kind](2_000)).parents) <= 2 * 2_001

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import nested_trees, to_html, tree_batch

from treesim_dask.config import IndexConfig
from treesim_dask.dom.branches import binary_branches, count_branches
from treesim_dask.dom.classes import class_tokens
from treesim_dask.dom.features import FEATURES, make_feature, style_tokens
from treesim_dask.dom.tree import parse_trees, splice
from treesim_dask.dom.vocabulary import tag_id
from treesim_dask.errors import ConfigError


def flatten(tree, depth=0):
    tag, children = tree
    return [(tag_id(tag), depth), *(node for child in children for node in flatten(child, depth + 1))]


def count(feature, trees, **parameters):
    """The feature of a batch as one Counter a page."""
    shapes = make_feature(IndexConfig(feature=feature, **parameters)).count(trees)
    keys, counts, indptr = shapes.branches.tolist(), shapes.counts.tolist(), shapes.indptr.tolist()
    return [Counter(dict(zip(keys[a:b], counts[a:b], strict=True))) for a, b in pairwise(indptr)]


@given(st.lists(nested_trees(), max_size=4), st.integers(1, 6))
@settings(deadline=None)
def test_shingles_follow_the_definition(nested, length):
    trees = [flatten(tree) for tree in nested]
    expected = [reference.shingles([tag for tag, _ in nodes], length) for nodes in trees]
    assert count("shingles", tree_batch(trees), shingle_length=length) == expected


@given(st.lists(nested_trees(), max_size=4))
@settings(deadline=None)
def test_paths_follow_the_definition(nested):
    expected = [reference.paths(tree, tag_id) for tree in nested]
    assert count("paths", tree_batch([flatten(tree) for tree in nested])) == expected


@given(st.lists(nested_trees(), max_size=4), st.integers(1, 4), st.integers(1, 6))
@settings(deadline=None)
def test_pq_grams_follow_the_definition(nested, stem, base):
    expected = [reference.pq_grams(tree, tag_id, stem, base) for tree in nested]
    batch = tree_batch([flatten(tree) for tree in nested])
    assert count("pqgrams", batch, gram_stem=stem, gram_base=base) == expected


def test_pq_grams_of_a_worked_example():
    # a(b, c): two leaves, and the root with 2 + 3 - 1 windows of 3
    tree = ("a", [("b", []), ("p", [])])
    assert sum(count("pqgrams", tree_batch([flatten(tree)]))[0].values()) == 2 + 4


def test_golden_keys():
    # literal keys, computed by the reference: a change makes stored indexes unreadable
    page = parse_trees([b"<html><head></head><body><ul><li></li><li></li></ul></body></html>"])
    assert sorted(count("shingles", page)[0].items())[:2] == [(794667240, 1), (1150172859, 1)]
    assert sorted(count("paths", page)[0].items())[:3] == [(167369252, 1), (416601379, 1), (903942559, 2)]
    assert sorted(count("pqgrams", page)[0].items())[:3] == [(22687162, 2), (246163020, 1), (818122106, 1)]
    assert (tag_id("my-widget"), tag_id("x-card")) == (636, 578)


class TestStyles:
    def test_tokens_are_tags_with_each_of_their_classes(self):
        pages = [b'<body><p class="b a\n a"><p class=a><p><div class=a>', b"<body><p class='a b'>"]
        first, second = count("styles", parse_trees(pages, with_classes=True))
        # html, head, body, p.a twice, p.b, p, div.a; and html, head, body, p.a, p.b
        assert sorted(first.values()) == [1, 1, 1, 1, 1, 1, 2]
        assert second.keys() < first.keys()

    def test_spliced_elements_lose_their_classes(self):
        pages = [b"<p class=x><b class=y><a class='z w'></a></b></p>", b"<b class=y></b>", b"<p class=x>"]
        spliced = splice(parse_trees(pages, with_classes=True), ["b"])
        bare = [b"<p class=x><a class='z w'></a></p>", b"", b"<p class=x>"]
        assert count("styles", spliced) == count("styles", parse_trees(bare, with_classes=True))

    def test_trees_are_the_same_with_and_without_classes(self):
        pages = [b"<!-- c --><p class=x>text<template><i class=y></i></template><svg class=z><g/></svg>", b""]
        without, with_classes = parse_trees(pages), parse_trees(pages, with_classes=True)
        assert np.array_equal(without.tags, with_classes.tags)
        assert len(with_classes.classes.indptr) == len(without.tags) + 1

    def test_golden_class_token(self):
        # the first 4 bytes of the BLAKE2b digest of that length, little-endian
        import hashlib

        (token,) = class_tokens("card")
        assert token == int.from_bytes(hashlib.blake2b(b"card", digest_size=4).digest(), "little")

    def test_trees_without_classes_are_refused(self):
        with pytest.raises(ConfigError, match="with_classes=True"):
            style_tokens(parse_trees([b"<p>"]))


@given(st.lists(nested_trees(tags=("div", "section", "x-card")), max_size=4))
@settings(deadline=None, max_examples=30)
def test_features_joined_are_counted_together(nested):
    trees = parse_trees([to_html(tree).encode() for tree in nested], with_classes=True)
    joined = count("branches+paths+styles", trees)
    alone = [count(name, trees) for name in ("branches", "paths", "styles")]
    assert joined == [sum(parts, Counter()) for parts in zip(*alone, strict=True)]


def test_the_default_is_the_binary_branches():
    trees = parse_trees([b"<ul><li><li>", b"<p>"])
    ours, plain = make_feature(IndexConfig()).count(trees), count_branches(trees)
    assert np.array_equal(ours.branches, plain.branches)
    assert np.array_equal(ours.counts, plain.counts)
    assert len(binary_branches(trees)) == ours.counts.sum()


@pytest.mark.parametrize("feature", FEATURES)
def test_no_pages_and_pages_without_nodes(feature):
    empty = splice(parse_trees([b"", b"<p>"], with_classes=True), ["html", "head", "body"])
    assert [sum(page.values()) > 0 for page in count(feature, empty)] == [False, True]
    assert count(feature, parse_trees([], with_classes=True)) == []


@pytest.mark.parametrize("feature", FEATURES)
def test_a_page_does_not_depend_on_its_batch(feature):
    pages = [b"<ul><li class=a><li>", b"<p>" * 50, b"", b"<table><tr><td class='b c'><td>"]
    together = count(feature, parse_trees(pages, with_classes=True))
    assert together == [count(feature, parse_trees([page], with_classes=True))[0] for page in pages]


def test_a_hundred_thousand_nested_tags():
    deep = tree_batch([[(1, depth) for depth in range(100_000)]])
    assert len(count("paths", deep)[0]) == 100_000
    assert sum(count("pqgrams", deep)[0].values()) == 3 * 99_999 + 1


@pytest.mark.parametrize("feature", ["words", "branches+words", "paths+paths", ""])
def test_unknown_features_are_refused(feature):
    with pytest.raises(ConfigError, match="feature"):
        make_feature(IndexConfig(feature=feature))

"""Collapsing repeated records against a recursive definition, and what it does to similarity."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_pages import nested_tree, shop_page, trees
from scipy.sparse import csr_matrix

from treesim_dask.dom.branches import count_branches
from treesim_dask.dom.collapse import collapse_repeats, digest_subtrees
from treesim_dask.dom.tree import parse_trees
from treesim_dask.dom.vocabulary import tag_name
from treesim_dask.types import TreeBatch, offsets_of


def batch(*pages):
    tags = np.concatenate([tags for tags, _ in pages]) if pages else np.zeros(0, np.uint16)
    depths = np.concatenate([depths for _, depths in pages]) if pages else np.zeros(0, np.int32)
    return TreeBatch(tags, depths, offsets_of(np.array([len(t) for t, _ in pages], np.int64)))


def collapsed(tree):
    """The definition: collapse the children, then keep the first of equal ones; leaves with the sibling before them."""
    tag, children = tree
    kept, seen, before = [], set(), None
    for child in map(collapsed, children):
        is_leaf = not child[1]
        key = (before, child) if is_leaf else child
        if key not in seen and not (is_leaf and child == before):
            kept.append(child)
        seen.add(key)
        before = child
    return tag, tuple(kept)


def page(trees_, i):
    nodes = slice(trees_.indptr[i], trees_.indptr[i + 1])
    return trees_.tags[nodes], trees_.depths[nodes]


@given(st.lists(trees(), max_size=5))
def test_collapse_follows_its_definition(pages):
    result = collapse_repeats(batch(*pages))
    assert len(result) == len(pages)
    for i, tree in enumerate(pages):
        assert nested_tree(*page(result, i)) == collapsed(nested_tree(*tree))


def test_what_differs_in_order_alone_stays_different():
    pages = parse_trees([b"<p><span></span><img><span></span></p>", b"<p><span></span><img></p>"])
    assert np.diff(collapse_repeats(pages).indptr).tolist() == [7, 6]


@pytest.mark.parametrize("n_pairs", [2, 3, 50])
def test_pairs_of_leaves_come_once_and_lead_back_to_the_first(n_pairs):
    result = collapse_repeats(parse_trees([b"<dl>" + b"<dt></dt><dd></dd>" * n_pairs + b"</dl>"]))
    assert [tag_name(tag) for tag in result.tags[3:].tolist()] == ["dl", "dt", "dd", "dt"]


@given(trees(), st.booleans())
def test_digests_are_equal_where_subtrees_are(tree, skip_repeats):
    tags, depths = tree
    digests, _ = digest_subtrees(batch(tree), skip_repeats=skip_repeats)
    subtrees = []
    for node in range(len(tags)):
        deeper = np.flatnonzero(depths[node + 1 :] <= depths[node])
        end = node + 1 + (deeper[0] if len(deeper) else len(tags) - node - 1)
        subtree = nested_tree(tags[node:end], depths[node:end] - depths[node])
        subtrees.append(collapsed(subtree) if skip_repeats else subtree)
    assert len(set(zip(digests.tolist(), subtrees, strict=True))) == len(set(digests.tolist())) == len(set(subtrees))


@pytest.mark.parametrize("item", ["<a></a>", "<a></a><ul><li><li></ul>", "<h3></h3><p></p><img>"])
def test_any_number_of_items_gives_one_tree(item):
    pages = [f"<h1></h1><div>{f'<article>{item}</article>' * n}</div><p></p>".encode() for n in (1, 2, 10, 200)]
    result = collapse_repeats(parse_trees(pages))
    assert {tuple(page(result, i)[0].tolist()) for i in range(4)} == {tuple(page(result, 0)[0].tolist())}


def test_a_shop_page_of_10_items_equals_one_of_200():
    menu = "<nav>" + "<a></a>" * 40 + "</nav>"
    shop = f"<header>{menu}</header><main>{{}}</main><footer><p></p></footer>"
    item = "<div><img><h2></h2><p></p><span></span></div>"
    pages = parse_trees([shop.format(item * n).encode() for n in (10, 200)])
    assert raw_cosine(count_branches(pages)) < 0.95
    assert raw_cosine(count_branches(collapse_repeats(pages))) == pytest.approx(1)


def raw_cosine(shapes):
    rows = [
        dict(zip(shapes.branches[a:b].tolist(), shapes.counts[a:b].tolist(), strict=True))
        for a, b in zip(shapes.indptr[:-1], shapes.indptr[1:], strict=True)
    ]
    dot = sum(n * rows[1].get(branch, 0) for branch, n in rows[0].items())
    return dot / np.prod([sum(n * n for n in row.values()) ** 0.5 for row in rows])


def test_deep_pages_need_no_recursion():
    deep = parse_trees([b"<div>" * 20_000])
    assert len(collapse_repeats(deep).tags) == len(deep.tags)


@pytest.fixture(scope="module")
def shops():
    """60 similar shop templates, 11 pages each with 5 to 200 items: trees and templates."""
    random = Random(5)
    templates = np.repeat(np.arange(60), 11)
    return parse_trees([shop_page(int(t), random.randint(5, 200), random) for t in templates]), templates


def precision_at_10(shapes, templates, weigh):
    """Share of the ten most similar pages, by exact cosine, that have the template of the query."""
    vectors = csr_matrix((weigh(shapes.counts.astype(float)), shapes.branches, shapes.indptr))
    vectors = vectors[:, np.unique(shapes.branches)]
    norms = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel())
    scores = (vectors @ vectors.T).toarray() / np.outer(norms, norms)
    np.fill_diagonal(scores, -1)
    nearest = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    return (templates[nearest] == templates[:, None]).mean()


@pytest.mark.parametrize("weigh", [np.log1p, np.asarray, np.sign], ids=["log counts", "counts", "presence"])
def test_precision_among_similar_shops_does_not_fall(shops, weigh):
    trees_, templates = shops
    plain = precision_at_10(count_branches(trees_), templates, weigh)
    without_repeats = precision_at_10(count_branches(collapse_repeats(trees_)), templates, weigh)
    assert without_repeats >= plain


def test_cosine_of_10_and_200_items_rises():
    """On log counts, the default. A rare kind of item that only the longer page has keeps a pair from being equal."""
    random = Random(1)
    pairs = [parse_trees([shop_page(t, n, random) for n in (10, 200)]) for t in range(60)]
    plain = [log_cosine(count_branches(pair)) for pair in pairs]
    without_repeats = [log_cosine(count_branches(collapse_repeats(pair))) for pair in pairs]
    assert np.mean(without_repeats) > np.mean(plain)
    assert np.median(without_repeats) > 0.99


def log_cosine(shapes):
    return raw_cosine(replace(shapes, counts=np.log1p(shapes.counts)))

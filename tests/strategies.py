"""Hypothesis strategies and builders of test data, shared by all tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from treesim_dask.types import ShapeBatch, TreeBatch, offsets_of

TAGS = ["div", "p", "ul", "li", "a", "span", "table", "section", "b", "x-card"]


@st.composite
def nested_trees(draw, max_children=4, max_depth=5, tags=tuple(TAGS)):
    """A tree as nested (tag, [children]) pairs."""

    def node(depth):
        n_children = draw(st.integers(0, max_children if depth < max_depth else 0))
        return (draw(st.sampled_from(tags)), [node(depth + 1) for _ in range(n_children)])

    return node(0)


def to_html(tree) -> str:
    """Write a nested tree with explicit end tags. Only use tags that HTML5 does not move about."""
    tag, children = tree
    return f"<{tag}>{''.join(map(to_html, children))}</{tag}>"


def shape_batch(rows) -> ShapeBatch:
    """Make a batch out of one {branch: count} dict a row."""
    rows = [dict(sorted(row.items())) for row in rows]
    return ShapeBatch(
        offsets_of(np.array([len(row) for row in rows], np.int64)),
        np.array([branch for row in rows for branch in row], np.uint32),
        np.array([count for row in rows for count in row.values()], np.uint32),
    )


def shape_rows(max_size=30, max_branch=2**30 - 1, max_count=1000):
    """A shape as a {branch: count} dict."""
    return st.dictionaries(st.integers(1, max_branch), st.integers(1, max_count), max_size=max_size)


def tree_batch(trees) -> TreeBatch:
    """Make a batch out of trees given as lists of (tag id, depth)."""
    nodes = [node for tree in trees for node in tree]
    return TreeBatch(
        np.array([tag for tag, _ in nodes], np.uint16),
        np.array([depth for _, depth in nodes], np.int32),
        offsets_of(np.array([len(tree) for tree in trees], np.int64)),
    )

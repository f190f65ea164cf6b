from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import nested_trees, tree_batch

from treesim_dask.dom.branches import _find_slot, binary_branches, branch_key, branch_name, count_branches, count_rows
from treesim_dask.dom.tree import parse_trees
from treesim_dask.dom.vocabulary import tag_id

REPORT_PAGE = b"""
<html>
  <head>
    <meta></meta>
    <meta></meta>
    <meta></meta>
  </head>
  <body>
    <ul>
      <li></li>
      <li></li>
      <li></li>
    </ul>
  </body>
</html>
"""
# The matrix of the tree-similarity report, with its first entry in the order (node, first child, next sibling).
REPORT_TABLE = {
    "html.head.ε": 1,
    "head.meta.body": 1,
    "meta.ε.meta": 2,
    "meta.ε.ε": 1,
    "body.ul.ε": 1,
    "ul.li.ε": 1,
    "li.ε.li": 2,
    "li.ε.ε": 1,
}


def table(shapes, row=0):
    entries = slice(shapes.indptr[row], shapes.indptr[row + 1])
    keys, counts = shapes.branches[entries].tolist(), shapes.counts[entries].tolist()
    return {branch_name(key): count for key, count in zip(keys, counts, strict=True)}


def branches_of(tree, next_sibling=None):
    """The binary branches of a nested tree, by their definition."""
    tag, children = tree
    yield branch_key(tag, children[0][0] if children else None, next_sibling)
    for child, following in zip(children, [*children[1:], None], strict=False):
        yield from branches_of(child, following[0] if following else None)


def flatten(tree, depth=0):
    tag, children = tree
    return [(tag_id(tag), depth), *(node for child in children for node in flatten(child, depth + 1))]


def test_the_worked_example_of_the_report():
    assert table(count_branches(parse_trees([REPORT_PAGE]))) == REPORT_TABLE


@given(st.lists(nested_trees(), max_size=5))
def test_counts_follow_the_definition(nested):
    shapes = count_branches(tree_batch([flatten(tree) for tree in nested]))
    for row, tree in enumerate(nested):
        expected = Counter(branches_of(tree))
        entries = slice(shapes.indptr[row], shapes.indptr[row + 1])
        assert shapes.branches[entries].tolist() == sorted(expected)
        assert shapes.counts[entries].tolist() == [expected[key] for key in sorted(expected)]


@given(nested_trees())
def test_a_tree_has_one_branch_a_node(tree):
    nodes = flatten(tree)
    batch = tree_batch([nodes])
    assert len(binary_branches(batch)) == len(nodes)
    assert int(count_branches(batch).counts.sum()) == len(nodes)


def test_deep_and_long_trees():
    deep = tree_batch([[(1, depth) for depth in range(200_000)]])
    assert sorted(count_branches(deep).counts.tolist()) == [1, 199_999]
    long = tree_batch([[(1, 0), *((2, 1) for _ in range(200_000))]])
    assert sorted(count_branches(long).counts.tolist()) == [1, 1, 199_999]


def test_no_pages_and_pages_without_nodes():
    assert len(count_branches(tree_batch([]))) == 0
    shapes = count_branches(tree_batch([[], [(1, 0)], []]))
    assert np.diff(shapes.indptr).tolist() == [0, 1, 0]


def test_keys_made_to_collide_are_counted_by_sorting():
    # multiples of the inverse of the table's multiplier: all begin at the first slot
    inverse = pow(0x9E3779B1, -1, 2**32)
    colliding = np.array([i * inverse % 2**32 for i in range(120)], np.uint32)
    keys = np.concatenate([[5, 4, 5], np.tile(colliding, 2), [7, 7]]).astype(np.uint32)
    shapes = count_rows(keys, np.array([0, 3, 243, 245]))
    assert shapes.indptr.tolist() == [0, 2, 122, 123]
    assert shapes.branches.tolist() == [4, 5, *np.unique(colliding).tolist(), 7]
    assert shapes.counts.tolist() == [1, 2, *[2] * 120, 2]
    slots = np.zeros(512, np.int64)
    assert {int(_find_slot(slots, keys.astype(np.uint64), key)[0]) for key in colliding} == {0}

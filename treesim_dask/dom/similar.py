"""Sibling subtrees that are equal or nearly so, by the binary branches of their collapsed forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treesim_dask.dom.collapse import digest_subtrees
from treesim_dask.dom.vocabulary import N_IDS, TAG_BITS, tag_id
from treesim_dask.kernels import kernel
from treesim_dask.types import Int32Array, Int64Array, TreeBatch, UInt16Array, UInt64Array

N_RECENT = 8  # labels of a parent that a child is compared with: the ones seen last
_NONE = -1
# items by what their tag says, however different they look inside
_ITEM_TAGS = ("article", "dd", "dt", "li", "option")
# so are, with less similarity than others, rows with the same number of cells and siblings of the same kind;
# larger ones rather are sections of the page
_ROW_TAG = tag_id("tr")
_MAX_ITEM_SIZE = 40


@dataclass(frozen=True, slots=True)
class Subtrees:
    """What is known of each node's subtree.

    Parameters
    ----------
    parents, ends
        Shape (n_nodes,), dtype int64: the parent, -1 for the root; one past the last node of the subtree.
    digests
        Shape (n_nodes,), dtype uint64: equal for equal subtrees.
    skips
        Shape (n_nodes,), dtype int64: 0 for a node that stays when repeated siblings are collapsed; for others the
        node behind it and the repeated siblings that follow it.
    branches
        Shape (n_nodes,), dtype int64: number of the node's binary branch in the collapsed tree, next sibling included.
    stems
        Shape (n_nodes,), dtype int64: number of the branch without the next sibling, for the root of a record.
    kinds
        Shape (n_nodes,), dtype int64: what else is known of a node, such as its class; 0 for nothing.
    sizes
        Shape (n_nodes,), dtype int64: nodes of the collapsed subtree.
    """

    parents: Int64Array
    ends: Int64Array
    digests: UInt64Array
    skips: Int64Array
    branches: Int64Array
    stems: Int64Array
    sizes: Int64Array
    kinds: Int64Array


def survey_subtrees(tags: UInt16Array, depths: Int32Array, *, exact: bool, kinds: Int64Array | None = None) -> Subtrees:
    """Measure the subtrees of one tree, collapsed before they are compared unless `exact`.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> tree = parse_trees([b"<ul><li><a></a><li><a></a><li></ul>"])
    >>> survey_subtrees(tree.tags, tree.depths, exact=False).sizes.tolist()
    [7, 1, 5, 4, 2, 1, 2, 1, 1]
    """
    tree = TreeBatch(tags, depths, np.array([0, len(tags)], np.int64))
    digests, is_first = digest_subtrees(tree, skip_repeats=not exact)
    if exact:
        is_first = np.ones(len(tags), np.bool_)
    parents, ends = _link_nodes(depths)
    keys = _collapsed_branches(tags, parents, ends, is_first)
    numbers = _number_keys(np.concatenate((keys, keys >> TAG_BITS << TAG_BITS)))
    sizes = _collapsed_sizes(parents, is_first)
    kinds = np.zeros(len(tags), np.int64) if kinds is None else kinds
    skips = _skip_repeats(parents, ends, is_first)
    return Subtrees(parents, ends, digests, skips, numbers[: len(tags)], numbers[len(tags) :], sizes, kinds)


def label_siblings(tags: UInt16Array, subtrees: Subtrees, similarity: float) -> Int64Array:
    """Label each node so that siblings alike have the same label: the number of the first of them.

    Parameters
    ----------
    similarity
        Least Dice coefficient of the branches of two collapsed subtrees that are alike; 1 asks for equal digests.

    Returns
    -------
    Int64Array
        Shape (n_nodes,).

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> tree = parse_trees([b"<main><p><a></a></p><p></p><p><a></a></p></main>"])
    >>> label_siblings(tree.tags, survey_subtrees(tree.tags, tree.depths, exact=True), 1).tolist()
    [0, 1, 2, 3, 4, 5, 6, 4, 8]
    """
    is_item = np.zeros(N_IDS, np.bool_)
    if similarity < 1:
        is_item[[tag_id(name) for name in _ITEM_TAGS]] = True
    n_children = np.bincount(subtrees.parents + 1, minlength=len(tags) + 1)[1:]  # the root has no parent
    return _label_siblings(tags, similarity, is_item, subtrees.kinds, n_children, *_columns(subtrees))


def similar_pairs(tags: UInt16Array, subtrees: Subtrees, pairs: Int64Array, similarity: float) -> NDArray[np.bool_]:
    """Tell which pairs of nodes have subtrees alike. `pairs` has shape (n_pairs, 2)."""
    return _similar_pairs(tags, pairs, similarity, *_columns(subtrees))


def _columns(
    subtrees: Subtrees,
) -> tuple[Int64Array, UInt64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
    return (
        subtrees.ends, subtrees.digests, subtrees.skips, subtrees.branches, subtrees.stems, subtrees.sizes,
    )  # fmt: skip


@kernel
def _link_nodes(depths: Int32Array) -> tuple[Int64Array, Int64Array]:
    n = len(depths)
    parents = np.full(n, _NONE, np.int64)
    ends = np.full(n, n, np.int64)
    open_nodes = np.empty(depths.max() + 1 if n else 1, np.int64)
    n_open = 0
    for node in range(n):
        depth = depths[node]
        for level in range(depth, n_open):
            ends[open_nodes[level]] = node
        if depth > 0:
            parents[node] = open_nodes[depth - 1]
        open_nodes[depth] = node
        n_open = depth + 1
    return parents, ends


@kernel
def _collapsed_branches(
    tags: UInt16Array, parents: Int64Array, ends: Int64Array, is_first: NDArray[np.bool_]
) -> Int64Array:
    branches = np.empty(len(tags), np.int64)
    following = np.zeros(
        len(tags) + 1, np.int64
    )  # below each parent (the root's is the last entry): the tag on the right
    for node in range(len(tags) - 1, -1, -1):
        first_child = tags[node + 1] if ends[node] > node + 1 else 0
        branches[node] = (np.int64(tags[node]) << 2 * TAG_BITS) | (np.int64(first_child) << TAG_BITS)
        branches[node] |= following[parents[node]]
        if is_first[node]:
            following[parents[node]] = tags[node]
    return branches


@kernel
def _number_keys(keys: Int64Array) -> Int64Array:
    """Number keys from 0 in the order they come, equal keys alike; a table of slots, since sorting takes longer."""
    mask = (1 << (int(np.log2(len(keys) + 1)) + 2)) - 1
    table = np.full(mask + 1, _NONE, np.int64)
    first_numbers = np.empty(mask + 1, np.int64)
    numbers = np.empty(len(keys), np.int64)
    n_numbers = 0
    for i in range(len(keys)):
        slot = (keys[i] * 0x9E3779B1 >> 16) & mask
        while table[slot] != _NONE and table[slot] != keys[i]:
            slot = (slot + 1) & mask
        if table[slot] == _NONE:
            table[slot] = keys[i]
            first_numbers[slot] = n_numbers
            n_numbers += 1
        numbers[i] = first_numbers[slot]
    return numbers


@kernel
def _collapsed_sizes(parents: Int64Array, is_first: NDArray[np.bool_]) -> Int64Array:
    sizes = np.ones(len(parents), np.int64)
    for node in range(len(parents) - 1, 0, -1):
        if is_first[node]:
            sizes[parents[node]] += sizes[node]
    return sizes


@kernel
def _skip_repeats(parents: Int64Array, ends: Int64Array, is_first: NDArray[np.bool_]) -> Int64Array:
    """Return `Subtrees.skips`: a walk over a collapsed subtree passes over any number of repeats in one step."""
    skips = np.zeros(len(parents), np.int64)
    for node in range(len(parents) - 1, -1, -1):
        if not is_first[node]:
            following = ends[node]
            is_repeat = following < len(parents) and parents[following] == parents[node] and skips[following]
            skips[node] = skips[following] if is_repeat else following
    return skips


@kernel
def _count_subtree(
    root: int, step: int, ends: Int64Array, skips: Int64Array, branches: Int64Array, stems: Int64Array,
    counts: Int64Array,
) -> int:  # fmt: skip
    """Add `step` to the count of each branch of a collapsed subtree, and return how many were above zero before."""
    n_common = 0
    node = root
    while node < ends[root]:
        if node != root and skips[node]:
            node = skips[node]
            continue
        branch = stems[node] if node == root else branches[node]
        n_common += counts[branch] > 0
        counts[branch] += step
        node += 1
    return n_common


@kernel
def _are_similar(
    a: int, b: int, similarity: float, ends: Int64Array, digests: UInt64Array, skips: Int64Array,
    branches: Int64Array, stems: Int64Array, sizes: Int64Array, counts: Int64Array,
) -> bool:  # fmt: skip
    if digests[a] == digests[b]:
        return True
    # too different in size for any overlap to be enough. This also bounds the work: a node is counted again only in
    # a subtree larger by a constant factor, so all comparisons of a page together take O(n log n)
    if 2 * min(sizes[a], sizes[b]) < similarity * (sizes[a] + sizes[b]) or similarity >= 1:
        return False
    _count_subtree(a, 1, ends, skips, branches, stems, counts)
    n_common = _count_subtree(b, -1, ends, skips, branches, stems, counts)
    _count_subtree(b, 1, ends, skips, branches, stems, counts)
    _count_subtree(a, -1, ends, skips, branches, stems, counts)
    return bool(2 * n_common >= similarity * (sizes[a] + sizes[b]))


@kernel
def _similar_pairs(
    tags: UInt16Array, pairs: Int64Array, similarity: float, ends: Int64Array, digests: UInt64Array,
    skips: Int64Array, branches: Int64Array, stems: Int64Array, sizes: Int64Array,
) -> NDArray[np.bool_]:  # fmt: skip
    counts = np.zeros(2 * len(tags), np.int64)
    alike = np.zeros(len(pairs), np.bool_)
    for i in range(len(pairs)):
        a, b = pairs[i, 0], pairs[i, 1]
        alike[i] = tags[a] == tags[b] and _are_similar(
            a, b, similarity, ends, digests, skips, branches, stems, sizes, counts
        )
    return alike


@kernel
def _are_rows(a: int, b: int, tags: UInt16Array, n_children: Int64Array) -> bool:
    """Tell whether two siblings are table rows of the same number of cells."""
    return bool(tags[a] == _ROW_TAG and n_children[a] == n_children[b] > 1)


@kernel
def _are_alike(
    a: int, b: int, tags: UInt16Array, similarity: float, is_item: NDArray[np.bool_], kinds: Int64Array,
    n_children: Int64Array, ends: Int64Array, digests: UInt64Array, skips: Int64Array, branches: Int64Array,
    stems: Int64Array, sizes: Int64Array, counts: Int64Array,
) -> bool:  # fmt: skip
    """Tell whether two siblings are alike, by their tags or by their branches."""
    if tags[a] != tags[b]:
        return False
    if is_item[tags[a]]:
        return True
    enough = similarity
    if similarity < 1 and max(sizes[a], sizes[b]) <= _MAX_ITEM_SIZE:
        if _are_rows(a, b, tags, n_children):
            enough = similarity / 3  # a third will do, for the cells are alike already; none makes the header a record
        elif kinds[a] == kinds[b] != 0:
            enough = similarity / 2
    return _are_similar(a, b, enough, ends, digests, skips, branches, stems, sizes, counts)


@kernel
def _label_siblings(
    tags: UInt16Array, similarity: float, is_item: NDArray[np.bool_], kinds: Int64Array,
    n_children: Int64Array, ends: Int64Array, digests: UInt64Array, skips: Int64Array, branches: Int64Array,
    stems: Int64Array, sizes: Int64Array,
) -> Int64Array:  # fmt: skip
    labels = np.arange(len(tags))
    counts = np.zeros(2 * len(tags), np.int64)
    latest = np.empty(N_RECENT, np.int64)  # the last child of each of the labels seen last, newest first
    for parent in range(len(tags)):
        n_recent = 0
        child = parent + 1
        while child < ends[parent]:
            n_left = 0  # labels the child is not alike; those it is alike become one
            for i in range(n_recent):
                first = _first_of(labels, latest[i])
                is_alike = False
                for other in (latest[i], first):
                    is_alike = is_alike or _are_alike(
                        other, child, tags, similarity, is_item, kinds, n_children,
                        ends, digests, skips, branches, stems, sizes, counts,
                    )  # fmt: skip
                if is_alike:
                    own = _first_of(labels, child)
                    labels[max(own, first)] = min(own, first)
                else:
                    latest[n_left] = latest[i]
                    n_left += 1
            n_recent = min(n_left + 1, N_RECENT)
            for i in range(n_recent - 1, 0, -1):
                latest[i] = latest[i - 1]
            latest[0] = child
            child = ends[child]
    for node in range(len(tags)):
        labels[node] = labels[labels[node]]
    return labels


@kernel
def _first_of(labels: Int64Array, node: int) -> int:
    """Return the first node of those joined to a node: each points at one before it, the first at itself."""
    while labels[node] != node:
        labels[node] = labels[labels[node]]
        node = labels[node]
    return node

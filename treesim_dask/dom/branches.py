"""Trees to shapes: the binary branches of Yang, Kalnis and Tung (2005), counted.

Knuth's left-child/right-sibling transform makes a tree binary: the left child of a node is its first child, the
right child its next sibling. A binary branch is a node with both, ``(tag, first child, next sibling)``, epsilon
where there is none. With 10 bits a tag it is one uint32.
"""

from __future__ import annotations

import numpy as np

from treesim_dask.dom.vocabulary import EPSILON, TAG_BITS, tag_id, tag_name
from treesim_dask.kernels import kernel
from treesim_dask.types import Int32Array, Int64Array, ShapeBatch, TreeBatch, UInt16Array, UInt32Array, UInt64Array

_MASK = (1 << TAG_BITS) - 1
_MOST_PROBES = 8  # a key, on average; chance takes less than 1


def count_branches(trees: TreeBatch) -> ShapeBatch:
    """Count the binary branches of each tree.

    Returns
    -------
    ShapeBatch
        One row a tree; the counts of a row sum to the number of its nodes.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> shapes = count_branches(parse_trees([b"<ul><li><li><li>"]))
    >>> [f"{branch_name(b)}: {n}" for b, n in zip(shapes.branches.tolist(), shapes.counts.tolist())][-2:]
    ['li.ε.li: 2', 'ul.li.ε: 1']
    """
    return count_rows(binary_branches(trees), trees.indptr)


def binary_branches(trees: TreeBatch) -> UInt32Array:
    """Return the binary branch of every node. Shape (n_nodes,), dtype uint32.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> [branch_name(b) for b in binary_branches(parse_trees([b"<p></p>"])).tolist()]
    ['html.head.ε', 'head.ε.body', 'body.p.ε', 'p.ε.ε']
    """
    return _binary_branches(trees.tags, trees.depths, trees.indptr)


def count_rows(keys: UInt32Array, indptr: Int64Array) -> ShapeBatch:
    """Count the distinct keys of each row.

    Examples
    --------
    >>> shapes = count_rows(np.array([9, 4, 9, 4], np.uint32), np.array([0, 3, 4]))
    >>> shapes.branches.tolist(), shapes.counts.tolist()
    ([4, 9, 4], [1, 2, 1])
    """
    return ShapeBatch(*_count_rows(keys, indptr))


def branch_key(tag: str, first_child: str | None, next_sibling: str | None) -> int:
    """Return the key of a branch given by tag names, None standing for epsilon.

    Examples
    --------
    >>> branch_name(branch_key("html", "head", None))
    'html.head.ε'
    """
    first, following = (EPSILON if name is None else tag_id(name) for name in (first_child, next_sibling))
    return tag_id(tag) << 2 * TAG_BITS | first << TAG_BITS | following


def branch_name(key: int) -> str:
    """Write a branch as ``tag.first-child.next-sibling``."""
    return ".".join(tag_name(key >> shift & _MASK) for shift in (2 * TAG_BITS, TAG_BITS, 0))


@kernel
def _binary_branches(tags: UInt16Array, depths: Int32Array, indptr: Int64Array) -> UInt32Array:
    branches = np.empty(len(tags), np.uint32)
    # latest[d]: the last node seen at depth d of this page
    latest = np.zeros(depths.max() + 1 if len(depths) else 1, np.int64)
    for page in range(len(indptr) - 1):
        start = indptr[page]
        for node in range(start, indptr[page + 1]):
            tag = np.uint32(tags[node])
            depth = depths[node]
            branches[node] = tag << np.uint32(20)
            if node > start:
                if depths[node - 1] < depth:  # deeper than the node before: its first child
                    branches[node - 1] |= tag << np.uint32(10)
                else:  # no shallower node lies between: the last node of this depth is the previous sibling
                    branches[latest[depth]] |= tag
            latest[depth] = node
    return branches


@kernel
def _count_rows(keys: UInt32Array, indptr: Int64Array) -> tuple[Int64Array, UInt32Array, UInt32Array]:
    """Count the distinct keys of each row; a hash table first, since a page has a tenth as many of them as nodes."""
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    slots = np.zeros(_table_size(longest), np.int64)  # where in `counted` a key stands, plus 1; 0 if free
    counted = np.empty(len(keys), np.uint64)  # key in the upper half, count in the lower
    row_starts = np.zeros_like(indptr)
    end = 0
    for row in range(len(indptr) - 1):
        start = end
        table = slots[: _table_size(indptr[row + 1] - indptr[row])]
        table[:] = 0
        n_left = _MOST_PROBES * (indptr[row + 1] - indptr[row])
        for i in range(indptr[row], indptr[row + 1]):
            slot, n_probes = _find_slot(table, counted, keys[i])
            n_left -= n_probes
            if n_left < 0:  # keys made to collide
                end = _count_sorted(np.sort(keys[indptr[row] : indptr[row + 1]]), counted, start)
                break
            if table[slot] == 0:
                counted[end] = np.uint64(keys[i]) << np.uint64(32)
                end += 1
                table[slot] = end
            counted[table[slot] - 1] += np.uint64(1)
        counted[start:end].sort()
        row_starts[row + 1] = end
    return row_starts, (counted[:end] >> np.uint64(32)).astype(np.uint32), counted[:end].astype(np.uint32)


@kernel
def _count_sorted(keys: UInt32Array, counted: UInt64Array, end: int) -> int:
    """Append the distinct ones of sorted keys with their counts, and return where they end."""
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[i - 1]:
            counted[end] = np.uint64(keys[i]) << np.uint64(32)
            end += 1
        counted[end - 1] += np.uint64(1)
    return end


@kernel
def _table_size(n_keys: int) -> int:
    """Return a power of two that leaves half of the table free."""
    size = 16
    while size < 2 * n_keys:
        size *= 2
    return size


@kernel
def _find_slot(table: Int64Array, counted: UInt64Array, key: np.uint32) -> tuple[np.int64, int]:
    """Return the slot of a key, or the free one where it belongs, and how many others were looked at."""
    mask = len(table) - 1
    n_probes = 0
    slot = np.int64((key * np.uint32(0x9E3779B1)) >> np.uint32(7)) & mask
    while table[slot] and counted[table[slot] - 1] >> np.uint64(32) != key:
        slot = (slot + 1) & mask
        n_probes += 1
    return slot, n_probes

"""Suffix trees of integer sequences, built from left to right in linear time (Ukkonen 1995).

A node is a row of a few arrays, a transition an entry of one hash table: no object per node, no recursion. The
sequence may be of anything: text, or the tags and depths of a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treesim_dask.kernels import kernel
from treesim_dask.types import Int64Array

_ROOT = 0
_NONE = -1
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads neighbouring keys over the table


@dataclass(frozen=True, slots=True)
class SuffixTree:
    """The suffix tree of a sequence that ends with a symbol found nowhere else.

    Parameters
    ----------
    edge_starts, edge_ends
        Shape (n_nodes,), dtype int64: the label of the edge into a node is ``sequence[start:end]``; the end of a leaf
        is one past the sequence, for the final symbol.
    parents
        Shape (n_nodes,), dtype int64; -1 for the root, which is node 0.
    suffixes
        Shape (n_nodes,), dtype int64: where the suffix of a leaf begins; -1 for inner nodes.
    n_steps
        Operations the construction took: extensions, walks down an edge, and probes of the transition table.
    """

    edge_starts: Int64Array
    edge_ends: Int64Array
    parents: Int64Array
    suffixes: Int64Array
    n_steps: int


@dataclass(frozen=True, slots=True)
class Repeats:
    """Every repeated substring of a sequence: one row an inner node of the suffix tree, parents first.

    Row i stands for the substrings of ``shorter[i] + 1`` to ``lengths[i]`` symbols that begin alike: they occur at the
    same places. The longest of them cannot be made longer to the right without losing an occurrence.

    Parameters
    ----------
    lengths, shorter
        Shape (n_repeats,), dtype int64.
    parents
        Shape (n_repeats,), dtype int64: the row whose substrings are the next shorter ones; -1 for none.
    indptr, positions
        The occurrences of row i are ``positions[indptr[i]:indptr[i] + n_occurrences[i]]``, in no special order;
        those of its longer substrings lie inside.
    n_occurrences
        Shape (n_repeats,), dtype int64: at least 2.
    longest
        Shape (n_symbols,), dtype int64: the row of the longest repeated substring that begins at each position;
        -1 for none.
    """

    lengths: Int64Array
    shorter: Int64Array
    parents: Int64Array
    indptr: Int64Array
    n_occurrences: Int64Array
    positions: Int64Array
    longest: Int64Array

    def __len__(self) -> int:
        return len(self.lengths)

    def occurrences(self, row: int) -> Int64Array:
        """Return where the substrings of a row begin, in ascending order."""
        first = self.indptr[row]
        return np.sort(self.positions[first : first + self.n_occurrences[row]])


def build_suffix_tree(sequence: Sequence[int] | NDArray[np.integer]) -> SuffixTree:
    """Build the suffix tree of any integer sequence.

    Examples
    --------
    >>> tree = build_suffix_tree([1, 2, 1, 2, 3])
    >>> int((tree.suffixes >= 0).sum())
    6
    """
    symbols, ranks = np.unique(np.asarray(sequence, np.int64), return_inverse=True)
    text = np.append(ranks.astype(np.int64) + 1, 0)  # 0, the final symbol, makes every suffix end in a leaf
    starts, ends, parents, suffixes, n_steps = _build(text, len(symbols) + 1)
    return SuffixTree(starts, ends, parents, suffixes, int(n_steps))


def find_repeats(tree: SuffixTree) -> Repeats:
    """List all repeated substrings with their occurrences.

    Examples
    --------
    >>> repeats = find_repeats(build_suffix_tree([1, 2, 1, 2, 3]))
    >>> [(repeats.lengths[i].item(), repeats.occurrences(i).tolist()) for i in range(len(repeats))]
    [(2, [0, 2]), (1, [1, 3])]
    """
    n_symbols = int((tree.suffixes >= 0).sum()) - 1
    return Repeats(*_list_repeats(tree.edge_starts, tree.edge_ends, tree.parents, tree.suffixes, n_symbols))


@kernel
def _find_slot(keys: Int64Array, key: int, steps: Int64Array) -> int:
    """Return the slot of the transition table that holds the key, or the free one where it belongs."""
    mask = len(keys) - 1
    mixed = np.uint64(key) * _SPREAD
    slot = np.int64(mixed ^ (mixed >> np.uint64(32))) & mask
    while keys[slot] != _NONE and keys[slot] != key:
        steps[0] += 1
        slot = (slot + 1) & mask
    steps[0] += 1
    return int(slot)


@kernel
def _set_child(keys: Int64Array, children: Int64Array, key: int, child: int, steps: Int64Array) -> None:
    slot = _find_slot(keys, key, steps)
    keys[slot] = key
    children[slot] = child


@kernel
def _build(text: Int64Array, n_symbols: int) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, int]:
    n = len(text)
    starts = np.zeros(2 * n, np.int64)
    ends = np.full(2 * n, n, np.int64)  # a leaf grows with the text: its label runs to the end from the beginning
    parents = np.full(2 * n, _NONE, np.int64)
    suffixes = np.full(2 * n, _NONE, np.int64)
    links = np.zeros(2 * n, np.int64)
    keys = np.full(1 << (int(np.log2(n)) + 3), _NONE, np.int64)  # at most half full: 2 n nodes
    children = np.empty(len(keys), np.int64)
    steps = np.zeros(1, np.int64)
    ends[_ROOT] = 0
    n_nodes, n_leaves = 1, 0
    # the active point, where the longest suffix that is not yet a leaf ends: node, place of the edge's symbol, length
    node, edge, length = _ROOT, 0, 0
    for place in range(n):
        unlinked = _ROOT  # the inner node made last in this phase, waiting for its suffix link; the root needs none
        while n_leaves <= place:
            steps[0] += 1
            if length == 0:
                edge = place
            key = node * n_symbols + text[edge]
            slot = _find_slot(keys, key, steps)
            above = node
            if keys[slot] == key:
                child = children[slot]
                edge_length = ends[child] - starts[child]
                if length >= edge_length:  # the active point lies below this edge: walk down and look again
                    node, edge, length = child, edge + edge_length, length - edge_length
                    continue
                if text[starts[child] + length] == text[place]:  # already there, and so are all shorter suffixes
                    length += 1
                    links[unlinked] = node
                    break
                above, n_nodes = n_nodes, n_nodes + 1  # split the edge
                starts[above], ends[above], parents[above] = starts[child], starts[child] + length, node
                children[slot] = above
                starts[child], parents[child] = starts[child] + length, above
                _set_child(keys, children, above * n_symbols + text[starts[child]], child, steps)
                key = above * n_symbols + text[place]
            _set_child(keys, children, key, n_nodes, steps)
            starts[n_nodes], parents[n_nodes], suffixes[n_nodes] = place, above, n_leaves
            n_nodes, n_leaves = n_nodes + 1, n_leaves + 1
            links[unlinked] = above
            unlinked = above if above != node else _ROOT
            if node != _ROOT:
                node = links[node]
            elif length > 0:
                edge, length = n_leaves, length - 1
    return starts[:n_nodes].copy(), ends[:n_nodes].copy(), parents[:n_nodes].copy(), suffixes[:n_nodes].copy(), steps[0]


@kernel
def _order_nodes(parents: Int64Array) -> Int64Array:
    """Return the nodes in pre-order, the children of a node in the order they were made."""
    first = np.full(len(parents), _NONE, np.int64)
    following = np.full(len(parents), _NONE, np.int64)
    for node in range(len(parents) - 1, 0, -1):
        following[node] = first[parents[node]]
        first[parents[node]] = node
    order = np.empty(len(parents), np.int64)
    stack = np.empty(len(parents), np.int64)
    stack[0], n_open, n_ordered = _ROOT, 1, 0
    while n_open:
        n_open -= 1
        node = stack[n_open]
        order[n_ordered] = node
        n_ordered += 1
        if following[node] != _NONE:
            stack[n_open] = following[node]
            n_open += 1
        if first[node] != _NONE:
            stack[n_open] = first[node]
            n_open += 1
    return order


@kernel
def _list_repeats(
    starts: Int64Array, ends: Int64Array, parents: Int64Array, suffixes: Int64Array, n_symbols: int
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
    order = _order_nodes(parents)
    rows = np.full(len(parents), _NONE, np.int64)  # the row of an inner node; the root has none
    lengths = np.zeros(len(parents), np.int64)
    shorter = np.zeros(len(parents), np.int64)
    row_parents = np.empty(len(parents), np.int64)
    indptr = np.empty(len(parents), np.int64)
    positions = np.empty(n_symbols + 1, np.int64)
    longest = np.empty(n_symbols + 1, np.int64)
    n_rows, n_placed = 0, 0
    for node in order[1:]:
        row = rows[parents[node]]
        if suffixes[node] >= 0:
            positions[n_placed] = suffixes[node]
            longest[suffixes[node]] = row
            n_placed += 1
        else:
            rows[node] = n_rows
            row_parents[n_rows] = row
            shorter[n_rows] = lengths[row] if row >= 0 else 0
            lengths[n_rows] = shorter[n_rows] + ends[node] - starts[node]
            indptr[n_rows] = n_placed
            n_rows += 1
    counts = np.zeros(n_rows, np.int64)
    for suffix in range(n_symbols):
        if longest[suffix] >= 0:
            counts[longest[suffix]] += 1
    for row in range(n_rows - 1, -1, -1):  # parents come first: from the end, every row is complete when added
        if row_parents[row] >= 0:
            counts[row_parents[row]] += counts[row]
    return (
        lengths[:n_rows].copy(), shorter[:n_rows].copy(), row_parents[:n_rows].copy(), indptr[:n_rows].copy(), counts,
        positions, longest[:n_symbols].copy(),
    )  # fmt: skip

"""Repeated tag sequences of one tree, by the suffix tree of its tags and depths: the reference for ``records``.

The steps are those of the report on repeated data records: the sequence of (tag, depth) in pre-order, its repeated
subsequences, cut at the borders of subtrees, freed of those inside others, and merged where they follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treesim_dask.dom.suffix_tree import Repeats, build_suffix_tree, find_repeats
from treesim_dask.dom.vocabulary import TAG_BITS
from treesim_dask.kernels import kernel
from treesim_dask.types import Int32Array, Int64Array, UInt16Array


@dataclass(frozen=True, slots=True)
class RepeatedSequences:
    """Places of a tree that hold sequences found more than once, none inside or across another.

    Parameters
    ----------
    starts, ends
        Shape (n_places,), dtype int64: node ranges, ascending.
    sequences
        Shape (n_places,), dtype int64: places with the same number hold the same sequence.
    """

    starts: Int64Array
    ends: Int64Array
    sequences: Int64Array

    def __len__(self) -> int:
        return len(self.starts)


def encode_tree(tags: UInt16Array, depths: Int32Array) -> Int64Array:
    """Write each node as one number, its tag with its depth.

    Examples
    --------
    >>> encode_tree(np.array([3, 3], np.uint16), np.array([0, 1], np.int32)).tolist()
    [3, 1027]
    """
    return depths.astype(np.int64) << TAG_BITS | tags


def find_sequences(tags: UInt16Array, depths: Int32Array) -> RepeatedSequences:
    """Find the repeated sequences of one tree, cut at subtree borders, the longest where several overlap.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> tree = parse_trees([b"<ul><li><a></a><li><a></a><li><a></a></ul>"])
    >>> found = find_sequences(tree.tags, tree.depths)
    >>> found.starts.tolist(), found.ends.tolist(), len(set(found.sequences.tolist()))
    ([4, 6, 8], [6, 8, 10], 1)
    """
    repeats = find_repeats(build_suffix_tree(encode_tree(tags, depths)))
    return resolve_containment(repeats, cut_lengths(repeats, tags, depths))


def cut_lengths(repeats: Repeats, tags: UInt16Array, depths: Int32Array) -> Int64Array:
    """Return how much of each repeated sequence is left by the cut. Shape (n_repeats,), dtype int64.

    A sequence ends where the next node is shallower, for there a subtree ends, and where its first node comes again
    at the same depth, for there the next record begins (the report has no list of childless siblings, where
    depth alone never cuts). The cut depends on the sequence alone: it is the same for each occurrence.
    """
    ranks = np.unique(encode_tree(tags, depths), return_inverse=True)[1]
    first = repeats.positions[repeats.indptr]
    return np.minimum(repeats.lengths, _lengths_to_border(ranks, depths)[first])


def resolve_containment(repeats: Repeats, cuts: Int64Array) -> RepeatedSequences:
    """Keep the longest cut sequence at each place, none that lies in another, and only those left more than once."""
    starts, ends, rows = _keep_outermost(repeats.shorter, repeats.parents, repeats.longest, cuts)
    _, sequences, counts = np.unique(rows, return_inverse=True, return_counts=True)
    kept = counts[sequences] > 1
    return RepeatedSequences(starts[kept], ends[kept], sequences[kept].astype(np.int64))


def merge_runs(found: RepeatedSequences) -> Int64Array:
    """Return where runs of one sequence begin: the offsets of runs of places that follow each other.

    Returns
    -------
    Int64Array
        Shape (n_runs + 1,): run i is the places ``offsets[i]:offsets[i + 1]``. A run may be one place only.

    Examples
    --------
    >>> merge_runs(RepeatedSequences(np.array([0, 2, 5]), np.array([2, 4, 7]), np.array([0, 0, 0]))).tolist()
    [0, 2, 3]
    """
    joined = (found.ends[:-1] == found.starts[1:]) & (found.sequences[:-1] == found.sequences[1:])
    inner = np.flatnonzero(~joined) + 1
    return np.concatenate(([0], inner, [len(found)])).astype(np.int64) if len(found) else np.zeros(1, np.int64)


def first_occurrences(found: RepeatedSequences, n_nodes: int) -> NDArray[np.bool_]:
    """Mark the nodes left when each repeated sequence is kept once. Shape (n_nodes,), dtype bool.

    Examples
    --------
    >>> once = RepeatedSequences(np.array([1, 3]), np.array([3, 5]), np.array([0, 0]))
    >>> first_occurrences(once, 6).tolist()
    [True, True, True, False, False, True]
    """
    repeated = np.ones(len(found), bool)
    repeated[np.unique(found.sequences, return_index=True)[1]] = False
    edges = np.zeros(n_nodes + 1, np.int64)
    np.add.at(edges, found.starts[repeated], 1)
    np.add.at(edges, found.ends[repeated], -1)
    is_left: NDArray[np.bool_] = np.cumsum(edges[:-1]) == 0
    return is_left


@kernel
def _lengths_to_border(ranks: Int64Array, depths: Int32Array) -> Int64Array:
    """Return for each node how many nodes lie before the next border; equal nodes have equal ranks."""
    n = len(ranks)
    lengths = np.empty(n, np.int64)
    again = np.full(n, n, np.int64)  # where, from the right, a node of this rank was seen last
    border = n
    for node in range(n - 1, -1, -1):
        if node + 1 < n and depths[node + 1] < depths[node]:
            border = node + 1
        lengths[node] = min(border, again[ranks[node]]) - node
        again[ranks[node]] = node
    return lengths


@kernel
def _keep_outermost(
    shorter: Int64Array, parents: Int64Array, longest: Int64Array, cuts: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    # a sequence cut shorter than its row's shortest belongs to the row above, where all its occurrences are
    owners = np.arange(len(cuts))
    for row in range(len(cuts)):
        if cuts[row] <= shorter[row]:
            owners[row] = owners[parents[row]]
    starts = np.empty(len(longest), np.int64)
    ends = np.empty(len(longest), np.int64)
    rows = np.empty(len(longest), np.int64)
    n_kept, reached = 0, 0
    for place in range(len(longest)):
        row = longest[place]
        if row < 0 or place < reached:
            continue
        starts[n_kept], ends[n_kept], rows[n_kept] = place, place + cuts[row], owners[row]
        reached = place + cuts[row]
        n_kept += 1
    return starts[:n_kept].copy(), ends[:n_kept].copy(), rows[:n_kept].copy()

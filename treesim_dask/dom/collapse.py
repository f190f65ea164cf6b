"""Trees without their repetitions: a page with 10 items and one with 200 become the same tree.

Seen from the leaves up, a subtree that equals an earlier sibling's, both already collapsed, is left out. So records
need not follow each other without a break, a list inside a record may have any length, and of records with an
optional child one of each kind stays. A childless node says little alone: it is left out only if it equals the
sibling before it, or if the same two have followed each other before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treesim_dask.kernels import kernel
from treesim_dask.types import Int32Array, Int64Array, TreeBatch, UInt16Array, UInt64Array

# odd constants of the splitmix64 finaliser
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def collapse_repeats(trees: TreeBatch) -> TreeBatch:
    """Keep the first of equal subtrees of one parent, the subtrees themselves collapsed before they are compared.

    Parameters
    ----------
    trees
        A batch of pages.

    Returns
    -------
    TreeBatch
        The same pages with the nodes that are left.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> few, many = (b"<ul>" + b"<li><a></a>" * n + b"</ul>" for n in (2, 50))
    >>> collapsed = collapse_repeats(parse_trees([few, many]))
    >>> collapsed.indptr.tolist()
    [0, 6, 12]
    """
    _, is_first = digest_subtrees(trees, skip_repeats=True)
    return TreeBatch(*_keep_first(trees.tags, trees.depths, trees.indptr, is_first))


def digest_subtrees(trees: TreeBatch, *, skip_repeats: bool) -> tuple[UInt64Array, NDArray[np.bool_]]:
    """Digest the subtree of every node, so that equal subtrees have equal digests.

    Parameters
    ----------
    trees
        A batch of pages.
    skip_repeats
        Count equal children of a node as one: digests are then those of the collapsed subtrees.

    Returns
    -------
    digests, is_first
        Shape (n_nodes,), dtype uint64 and bool: whether the node stays when repeated siblings are left out.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> tree = parse_trees([b"<ul><li><li></ul><ul><li><li><li></ul>"])
    >>> [len(set(digest_subtrees(tree, skip_repeats=skip)[0].tolist())) for skip in (False, True)]
    [6, 5]
    """
    return _digest(trees.tags, trees.depths, trees.indptr, skip_repeats)


@kernel
def mix_digest(value: np.uint64) -> np.uint64:
    """Spread the bits of a digest: the finaliser of splitmix64."""
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


@kernel
def _is_new(seen: UInt64Array, stamps: Int64Array, key: np.uint64, stamp: int) -> bool:
    """Note a key in the open-addressing table of one page; entries of earlier pages bear another stamp."""
    mask = len(seen) - 1
    slot = np.int64(key & np.uint64(mask))
    while stamps[slot] == stamp:
        if seen[slot] == key:
            return False
        slot = (slot + 1) & mask
    stamps[slot] = stamp
    seen[slot] = key
    return True


@kernel
def _digest(
    tags: UInt16Array, depths: Int32Array, indptr: Int64Array, skip_repeats: bool
) -> tuple[UInt64Array, NDArray[np.bool_]]:
    digests = tags.astype(np.uint64) * _STEP
    is_first = np.ones(len(tags), np.bool_)
    open_nodes = np.empty(depths.max() + 2 if len(depths) else 1, np.int64)
    before = np.zeros(len(open_nodes) + 1, np.uint64)  # the digest of the sibling before, at each depth
    largest = np.diff(indptr).max() if len(indptr) > 1 else 0
    seen = np.empty(1 << (int(np.log2(largest + 1)) + 2), np.uint64)  # at most half full
    stamps = np.full(len(seen), -1, np.int64)
    for page in range(len(indptr) - 1):
        n_open = 0
        for node in range(indptr[page], indptr[page + 1] + 1):
            depth = depths[node] if node < indptr[page + 1] else 0
            while n_open > depth:  # the nodes that end here
                n_open -= 1
                ended = open_nodes[n_open]
                digests[ended] = mix_digest(digests[ended])
                if n_open > 0:
                    above = open_nodes[n_open - 1]
                    key = digests[ended] ^ np.uint64(above) * _STEP
                    if ended == node - 1:  # childless: known only together with the sibling before
                        key += before[n_open] * _SECOND
                    repeats = ended == node - 1 and before[n_open] == digests[ended]
                    is_first[ended] = not repeats and _is_new(seen, stamps, mix_digest(key), page)
                    before[n_open] = digests[ended]
                    if is_first[ended] or not skip_repeats:
                        digests[above] = mix_digest(digests[above] + _STEP) + digests[ended] * _FIRST
            if node < indptr[page + 1]:
                open_nodes[depth] = node
                n_open = depth + 1
                before[n_open] = 0
    return digests, is_first


@kernel
def _keep_first(
    tags: UInt16Array, depths: Int32Array, indptr: Int64Array, is_first: NDArray[np.bool_]
) -> tuple[UInt16Array, Int32Array, Int64Array]:
    kept_tags = np.empty_like(tags)
    kept_depths = np.empty_like(depths)
    kept_indptr = np.zeros_like(indptr)
    n_kept = 0
    for page in range(len(indptr) - 1):
        dropped = np.int32(2**31 - 1)  # the depth of the subtree being left out, deeper than any when there is none
        for node in range(indptr[page], indptr[page + 1]):
            if depths[node] <= dropped:
                dropped = np.int32(2**31 - 1) if is_first[node] else depths[node]
            if depths[node] < dropped:
                kept_tags[n_kept] = tags[node]
                kept_depths[n_kept] = depths[node]
                n_kept += 1
        kept_indptr[page + 1] = n_kept
    return kept_tags[:n_kept].copy(), kept_depths[:n_kept].copy(), kept_indptr

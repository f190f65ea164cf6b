"""Trees to shapes: what is counted on a page. The choice is a parameter of the index.

``branches`` are the binary branches, the default. ``shingles`` are runs of k tags in document order. ``paths`` are the
tags from the root down to each node. ``pqgrams`` (Augsten, Böhlen, Gamper 2005) are a node with its ancestors, p in
all, over q neighbouring children. ``styles`` are tags with one of their classes: how a page looks rather than how it
is built. Names joined by ``+`` count together: ``branches+styles``.

A key is one uint32. Binary branches are spelled out in it; the other features are hashed to 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treesim_dask.config import IndexConfig
from treesim_dask.dom.branches import binary_branches, count_rows
from treesim_dask.errors import ConfigError
from treesim_dask.kernels import kernel
from treesim_dask.mixing import mix64
from treesim_dask.types import (
    Int32Array,
    Int64Array,
    ShapeBatch,
    TreeBatch,
    UInt16Array,
    UInt32Array,
    UInt64Array,
    offsets_of,
    row_entries,
)

Keys = tuple[UInt32Array, Int64Array]  # keys of all pages one after the other, and the CSR offsets of the pages

# each feature starts its hashes elsewhere, so that keys of different features differ
_SHINGLE, _PATH, _GRAM, _STYLE = (np.uint64(number << 32) for number in (1, 2, 3, 4))


@dataclass(frozen=True, slots=True)
class Feature:
    """What is counted on a page.

    Parameters
    ----------
    name
        As in the registry; several joined by ``+``.
    needs_classes
        Whether the trees must come with the classes of their elements.
    parts
        The extractors, one for each name.
    """

    name: str
    needs_classes: bool
    parts: tuple[Callable[[TreeBatch], Keys], ...]

    def count(self, trees: TreeBatch) -> ShapeBatch:
        """Count the keys of each tree. One row a tree."""
        keys, indptr = _join_rows([extract(trees) for extract in self.parts])
        return count_rows(keys, indptr)


FEATURES: dict[str, Callable[[IndexConfig], Callable[[TreeBatch], Keys]]] = {
    "branches": lambda config: lambda trees: (binary_branches(trees), trees.indptr),
    "shingles": lambda config: lambda trees: tag_shingles(trees, config.shingle_length),
    "paths": lambda config: root_paths,
    "pqgrams": lambda config: lambda trees: pq_grams(trees, config.gram_stem, config.gram_base),
    "styles": lambda config: style_tokens,
}


def make_feature(config: IndexConfig) -> Feature:
    """Return the feature an index is built with.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> feature = make_feature(IndexConfig(feature="paths"))
    >>> feature.needs_classes, feature.count(parse_trees([b"<ul><li><li><li>"])).counts.tolist()
    (False, [1, 1, 3, 1, 1])
    """
    names = config.feature.split("+")
    if unknown := [name for name in names if name not in FEATURES]:
        raise ConfigError(f"feature must be one of {', '.join(FEATURES)}, or several joined by +; got {unknown[0]!r}")
    if len(set(names)) < len(names):
        raise ConfigError(f"feature names each kind once, got {config.feature!r}")
    return Feature(config.feature, "styles" in names, tuple(FEATURES[name](config) for name in names))


def tag_shingles(trees: TreeBatch, length: int) -> Keys:
    """Return the runs of `length` tags in document order; a page with fewer tags is one run.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> keys, indptr = tag_shingles(parse_trees([b"<ul><li><li><li>"]), length=2)
    >>> len(keys), len(set(keys.tolist())), indptr.tolist()
    (6, 5, [0, 6])
    """
    sizes = np.diff(trees.indptr)
    indptr = offsets_of(np.maximum(sizes - length + 1, np.minimum(sizes, 1)))
    return _tag_shingles(trees.tags, trees.indptr, indptr, length), indptr


def root_paths(trees: TreeBatch) -> Keys:
    """Return the path of tags from the root to each node.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> keys, indptr = root_paths(parse_trees([b"<div><p><p></div><p>"]))
    >>> len(keys), len(set(keys.tolist()))
    (7, 6)
    """
    return _root_paths(trees.tags, trees.depths, trees.indptr), trees.indptr


def pq_grams(trees: TreeBatch, stem: int, base: int) -> Keys:
    """Return the pq-grams: a node and its `stem` - 1 nearest ancestors, with each run of `base` children.

    Epsilon stands for ancestors above the root and for `base` - 1 places before the first and after the last child;
    a node without children has one gram with epsilon only.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> keys, indptr = pq_grams(parse_trees([b"<ul><li><li><li>"]), stem=2, base=3)
    >>> len(keys), len(set(keys.tolist()))
    (16, 14)
    """
    return _pq_grams(trees.tags, trees.depths, trees.indptr, stem, base)


def style_tokens(trees: TreeBatch) -> Keys:
    """Return each tag with each of its classes, and tags without a class alone.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> keys, indptr = style_tokens(parse_trees([b"<p class='a b'><p class=b><p>"], with_classes=True))
    >>> len(keys), len(set(keys.tolist()))
    (7, 6)
    """
    if trees.classes is None:
        raise ConfigError("the feature 'styles' needs classes; parse with with_classes=True")
    return _style_tokens(trees.tags, trees.indptr, trees.classes.indptr, trees.classes.tokens)


def _join_rows(parts: list[Keys]) -> Keys:
    """Put the rows of several key lists side by side."""
    if len(parts) == 1:
        return parts[0]
    n_pages = len(parts[0][1]) - 1
    lengths = np.stack([np.diff(indptr) for _, indptr in parts], axis=1)
    # rows of all parts one after the other, then taken in the order page by page
    stacked = offsets_of(np.concatenate([np.diff(indptr) for _, indptr in parts]))
    order = np.arange(len(parts) * n_pages).reshape(len(parts), n_pages).T.ravel()
    keys = np.concatenate([keys for keys, _ in parts])[row_entries(stacked, order)]
    return keys, offsets_of(lengths.sum(axis=1))


@kernel
def _extend(state: np.uint64, value: np.uint64) -> np.uint64:
    """Hash a sequence further by one value."""
    return mix64(np.uint64(state * np.uint64(0x9E3779B97F4A7C15)) ^ value)


@kernel
def _key(state: np.uint64) -> np.uint32:
    return np.uint32(state >> np.uint64(32))


@kernel
def _tag_shingles(tags: UInt16Array, nodes: Int64Array, indptr: Int64Array, length: int) -> UInt32Array:
    keys = np.empty(indptr[-1], np.uint32)
    for page in range(len(indptr) - 1):
        for i in range(indptr[page + 1] - indptr[page]):
            first = nodes[page] + i
            state = _SHINGLE
            for node in range(first, min(first + length, nodes[page + 1])):
                state = _extend(state, np.uint64(tags[node]))
            keys[indptr[page] + i] = _key(state)
    return keys


@kernel
def _root_paths(tags: UInt16Array, depths: Int32Array, indptr: Int64Array) -> UInt32Array:
    keys = np.empty(len(tags), np.uint32)
    # above[d]: the hash of the open path down to depth d - 1
    above = np.full(depths.max() + 2 if len(depths) else 1, _PATH, np.uint64)
    for node in range(len(tags)):
        state = _extend(above[depths[node]], np.uint64(tags[node]))
        above[depths[node] + 1] = state
        keys[node] = _key(state)
    return keys


@kernel
def _pq_grams(
    tags: UInt16Array, depths: Int32Array, indptr: Int64Array, stem: int, base: int
) -> tuple[UInt32Array, Int64Array]:
    keys = np.empty(len(tags) * (base + 1), np.uint32)
    starts = np.zeros_like(indptr)
    n_levels = depths.max() + 1 if len(depths) else 1
    path = np.zeros(n_levels, np.uint16)  # tags of the open nodes
    stems = np.zeros(n_levels, np.uint64)  # hash of an open node and its ancestors
    windows = np.zeros(n_levels, np.uint64)  # the last children of an open node, 10 bits each
    n_keys = 0
    for page in range(len(indptr) - 1):
        n_open = 0
        for node in range(indptr[page], indptr[page + 1]):
            depth = depths[node]
            n_keys = _close_nodes(keys, n_keys, stems, windows, depth, n_open, base)
            n_open = depth + 1
            path[depth] = tags[node]
            stems[depth] = _stem(path, depth, stem)
            windows[depth] = 0
            if depth > 0:
                windows[depth - 1] = _shift_in(windows[depth - 1], np.uint64(tags[node]), base)
                keys[n_keys] = _key(_extend(stems[depth - 1], windows[depth - 1]))
                n_keys += 1
        n_keys = _close_nodes(keys, n_keys, stems, windows, 0, n_open, base)
        starts[page + 1] = n_keys
    return keys[:n_keys].copy(), starts


@kernel
def _stem(path: UInt16Array, depth: int, stem: int) -> np.uint64:
    """Hash an open node with its ancestors, the farthest first, epsilon above the root."""
    state = _GRAM
    for level in range(depth - stem + 1, depth + 1):
        state = _extend(state, np.uint64(path[level] if level >= 0 else 0))
    return state


@kernel
def _shift_in(window: np.uint64, tag: np.uint64, base: int) -> np.uint64:
    mask = (np.uint64(1) << np.uint64(10 * base)) - np.uint64(1)
    return np.uint64(((window << np.uint64(10)) | tag) & mask)


@kernel
def _close_nodes(
    keys: UInt32Array, n_keys: int, stems: UInt64Array, windows: UInt64Array, depth: int, n_open: int, base: int
) -> int:
    """Write the last grams of all open nodes at `depth` or deeper: epsilon moves in from the right."""
    for level in range(n_open - 1, depth - 1, -1):
        if windows[level] == 0:  # no children at all
            keys[n_keys] = _key(_extend(stems[level], np.uint64(0)))
            n_keys += 1
            continue
        for _ in range(base - 1):
            windows[level] = _shift_in(windows[level], np.uint64(0), base)
            keys[n_keys] = _key(_extend(stems[level], windows[level]))
            n_keys += 1
    return n_keys


@kernel
def _style_tokens(
    tags: UInt16Array, indptr: Int64Array, class_indptr: Int64Array, tokens: UInt32Array
) -> tuple[UInt32Array, Int64Array]:
    keys = np.empty(len(tags) + len(tokens), np.uint32)
    starts = np.zeros_like(indptr)
    n_keys = 0
    for page in range(len(indptr) - 1):
        for node in range(indptr[page], indptr[page + 1]):
            state = _extend(_STYLE, np.uint64(tags[node]))
            first, end = class_indptr[node], class_indptr[node + 1]
            if first == end:
                keys[n_keys] = _key(state)
                n_keys += 1
            for i in range(first, end):
                keys[n_keys] = _key(_extend(state, np.uint64(tokens[i])))
                n_keys += 1
        starts[page + 1] = n_keys
    return keys[:n_keys].copy(), starts

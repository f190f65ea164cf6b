"""HTML to trees: the element tags of a page in document order, with their depths.

Parsing is lexbor's (HTML5 rules); the walk and the splicing are iterative, so depth is no limit to them. The content
of ``<template>`` is no part of the tree and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from selectolax.lexbor import LexborHTMLParser

from treesim_dask.dom.classes import ClassCollector
from treesim_dask.dom.structs import can_walk_structs, walk_structs
from treesim_dask.dom.vocabulary import N_IDS, tag_id
from treesim_dask.dom.walk import ElementBuffer, walk_objects
from treesim_dask.kernels import kernel
from treesim_dask.types import ClassBatch, Int32Array, Int64Array, TreeBatch, UInt16Array, offsets_of, row_entries


def parse_trees(pages: Iterable[bytes], spliced_tags: Sequence[str] = (), *, with_classes: bool = False) -> TreeBatch:
    """Parse pages and keep their element tags, without the spliced ones.

    Parameters
    ----------
    pages
        HTML as ASCII-compatible bytes.
    spliced_tags
        Tags to leave out; their children become children of the parent.
    with_classes
        Also keep the classes of each element; costs a second walk.

    Returns
    -------
    TreeBatch
        One tree a page.

    Examples
    --------
    >>> trees = parse_trees([b"<p>one <b>two <a>three</a></b>"], spliced_tags=["b"])
    >>> from treesim_dask.dom.vocabulary import tag_name
    >>> [(tag_name(t), d) for t, d in zip(trees.tags.tolist(), trees.depths.tolist())]
    [('html', 0), ('head', 1), ('body', 1), ('p', 2), ('a', 3)]
    """
    elements = ElementBuffer()
    styles = ClassCollector() if with_classes else None
    try_structs = can_walk_structs()
    for page in pages:
        parser = LexborHTMLParser(page)
        if not (try_structs and walk_structs(parser, elements)):
            walk_objects(parser, elements)
        elements.end_page()
        if styles is not None and parser.root is not None:
            styles.add(parser.root)
    whole = replace(elements.to_trees(), classes=None if styles is None else styles.batch())
    return splice(whole, spliced_tags) if spliced_tags else whole


def splice(trees: TreeBatch, spliced_tags: Sequence[str]) -> TreeBatch:
    """Leave some tags out of the trees; their children move up to the parent.

    Examples
    --------
    >>> trees = parse_trees([b"<ul><li><b><a></a></b>"])
    >>> len(trees.tags), len(splice(trees, ["b", "li"]).tags)
    (7, 5)
    """
    dropped = np.zeros(N_IDS, np.bool_)
    dropped[[tag_id(tag) for tag in spliced_tags]] = True
    classes = trees.classes
    if classes is not None:
        kept = np.flatnonzero(~dropped[trees.tags])
        lengths = np.diff(classes.indptr)[kept]
        classes = ClassBatch(offsets_of(lengths), classes.tokens[row_entries(classes.indptr, kept)])
    return TreeBatch(*_splice(trees.tags, trees.depths, trees.indptr, dropped), classes)


@kernel
def _splice(
    tags: UInt16Array, depths: Int32Array, indptr: Int64Array, dropped: np.ndarray
) -> tuple[UInt16Array, Int32Array, Int64Array]:
    kept_tags = np.empty_like(tags)
    kept_depths = np.empty_like(depths)
    kept_indptr = np.zeros_like(indptr)
    # lost[d]: how many of the open ancestors at depth <= d were left out
    lost = np.zeros(depths.max() + 2 if len(depths) else 1, np.int32)
    n_kept = 0
    for page in range(len(indptr) - 1):
        for node in range(indptr[page], indptr[page + 1]):
            depth = depths[node]
            above = lost[depth]
            if dropped[tags[node]]:
                lost[depth + 1] = above + 1
            else:
                lost[depth + 1] = above
                kept_tags[n_kept] = tags[node]
                kept_depths[n_kept] = depth - above
                n_kept += 1
        kept_indptr[page + 1] = n_kept
    return kept_tags[:n_kept].copy(), kept_depths[:n_kept].copy(), kept_indptr

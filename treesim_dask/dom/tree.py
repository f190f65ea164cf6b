"""HTML to trees: the element tags of a page in document order, with their depths.

Parsing is lexbor's (HTML5 rules); the walk and the splicing are iterative, so depth is no limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from selectolax.lexbor import LexborHTMLParser, LexborNode

from treesim_dask.dom.classes import ClassCollector
from treesim_dask.dom.vocabulary import EPSILON, N_IDS, tag_id
from treesim_dask.kernels import kernel
from treesim_dask.types import ClassBatch, Int32Array, Int64Array, TreeBatch, UInt16Array, offsets_of, row_entries

# lexbor numbers the tags it knows from a small fixed table; larger numbers are addresses, good for one page only.
_LEXBOR_KNOWN = 1000
_known_ids: dict[int, int] = {}


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
    tags: list[int] = []
    depths: list[int] = []
    sizes: list[int] = []
    styles = ClassCollector() if with_classes else None
    for page in pages:
        before = len(tags)
        root = LexborHTMLParser(page).root
        if root is not None:
            _walk(root, tags, depths)
            if styles is not None:
                styles.add(root)
        sizes.append(len(tags) - before)
    whole = TreeBatch(
        np.array(tags, np.uint16),
        np.array(depths, np.int32),
        offsets_of(np.array(sizes, np.int64)),
        None if styles is None else styles.batch(),
    )
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


def _walk(root: LexborNode, tags: list[int], depths: list[int]) -> None:
    """Append the elements of one page in document order."""
    depth_of: dict[int, int] = {}
    unknown: dict[int, int] = {}
    for node in root.traverse():
        lexbor_id = node.tag_id
        ids = _known_ids if lexbor_id < _LEXBOR_KNOWN else unknown
        number = ids.get(lexbor_id)
        if number is None:
            number = ids[lexbor_id] = _element_id(node.tag)
        if number == EPSILON:
            continue
        parent = node.parent
        depth = 0 if parent is None else depth_of.get(parent.mem_id, -1) + 1
        depth_of[node.mem_id] = depth
        tags.append(number)
        depths.append(depth)


def _element_id(tag: str | None) -> int:
    """Return the vocabulary id of an element, epsilon for comments and the like (lexbor names those ``-comment``)."""
    return EPSILON if tag is None or tag.startswith("-") else tag_id(tag)


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

"""A parsed page to its elements, through selectolax: slow, and right wherever selectolax runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from selectolax.lexbor import LexborHTMLParser

from treesim_dask.dom.vocabulary import EPSILON, tag_id
from treesim_dask.types import Int32Array, TreeBatch, UInt16Array, UInt64Array

# lexbor numbers the tags it knows from a small fixed table; larger numbers are addresses, good for one page only.
N_KNOWN = 1000
_FIRST_CAPACITY = 2**16
_MOST_UNKNOWN = 1024  # distinct unknown tags of a page

# The vocabulary id of each number of lexbor's table, once a page has shown it; epsilon until then.
known_ids: UInt16Array = np.zeros(N_KNOWN, np.uint16)


class ElementBuffer:
    """The elements of some pages, in arrays that grow: ``tags[:n_nodes]`` and ``depths[:n_nodes]`` are filled.

    ``unknown`` is room for the addresses of names that a walk meets in one page.
    """

    def __init__(self) -> None:
        self.tags: UInt16Array = np.empty(_FIRST_CAPACITY, np.uint16)
        self.depths: Int32Array = np.empty(_FIRST_CAPACITY, np.int32)
        self.n_nodes = 0
        self.unknown: UInt64Array = np.empty(_MOST_UNKNOWN, np.uint64)
        self._page_ends: list[int] = [0]

    def grow(self, n_more: int = 1) -> None:
        """Make room for `n_more` elements at least."""
        capacity = max(2 * len(self.tags), self.n_nodes + n_more)
        self.tags = np.resize(self.tags, capacity)
        self.depths = np.resize(self.depths, capacity)

    def extend(self, tags: Sequence[int], depths: Sequence[int]) -> None:
        """Append elements."""
        new_tags, new_depths = np.array(tags, np.uint16), np.array(depths, np.int32)
        end = self.n_nodes + len(new_tags)
        if end > len(self.tags):
            self.grow(len(new_tags))
        self.tags[self.n_nodes : end] = new_tags
        self.depths[self.n_nodes : end] = new_depths
        self.n_nodes = end

    def end_page(self) -> None:
        """Say that the next element belongs to another page."""
        self._page_ends.append(self.n_nodes)

    def to_trees(self) -> TreeBatch:
        """Return what was collected. The buffer must not be used afterwards."""
        indptr = np.array(self._page_ends, np.int64)
        return TreeBatch(self.tags[: self.n_nodes], self.depths[: self.n_nodes], indptr)


def walk_objects(parser: LexborHTMLParser, elements: ElementBuffer) -> None:
    """Append the elements of a page in document order, making a Python object of every node."""
    if parser.root is None:
        return
    tags: list[int] = []
    depths: list[int] = []
    depth_of: dict[int, int] = {}
    ids: dict[int, int] = {}
    for node in parser.root.traverse():
        lexbor_id = node.tag_id
        number = ids.get(lexbor_id)
        if number is None:
            number = ids[lexbor_id] = _element_id(node.tag)
            if lexbor_id < N_KNOWN:
                known_ids[lexbor_id] = number
        if number == EPSILON:
            continue
        parent = node.parent
        depth = 0 if parent is None else depth_of.get(parent.mem_id, -1) + 1
        depth_of[node.mem_id] = depth
        tags.append(number)
        depths.append(depth)
    elements.extend(tags, depths)


def _element_id(tag: str | None) -> int:
    """Return the vocabulary id of an element, epsilon for comments and the like (lexbor names those ``-comment``)."""
    return EPSILON if tag is None or tag.startswith("-") else tag_id(tag)

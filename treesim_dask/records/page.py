"""A page as lexbor's elements in document order, with the way back from the spliced tree to them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from selectolax.lexbor import LexborHTMLParser

from treesim_dask.crawl.charset import to_utf8
from treesim_dask.dom.cost import check_cost
from treesim_dask.dom.vocabulary import tag_id
from treesim_dask.errors import PageError
from treesim_dask.kernels import kernel
from treesim_dask.types import Int32Array, Int64Array, UInt16Array

_CLASS = re.compile(r"[^ \t\n\r\f]+")  # HTML separates class names by these alone
_TEXT, _NO_ELEMENT = "-text", "-"  # lexbor's name of a text node, and how names begin of all that is no element
# Their text is not seen on the page; of a frame it is what browsers without frames would show.
_SILENT = frozenset({"iframe", "noembed", "noframes", "noscript", "script", "style", "template", "title"})


@dataclass(frozen=True, slots=True)
class Page:
    """The elements of one page, numbered in document order, and the spliced tree made of them.

    Parameters
    ----------
    parser
        Lexbor's document; keeps `elements` alive.
    elements
        Lexbor's nodes.
    names, attributes, classes
        Tag, attributes and class names of each element.
    numbers
        Number of each element by lexbor's address of it.
    parents, ends, positions
        Parent of each element, -1 for the root; one past the last element below it; its place among its siblings,
        counted from 1.
    kept
        Shape (n_kept,), dtype int64: the element behind each node of the spliced tree.
    tags, depths
        The spliced tree.
    texts
        The text of each element, that of spliced elements inside it included; empty for most.
    words, word_owners, word_places
        The pieces of text in document order; the element each belongs to; how many elements began before it.
    """

    parser: LexborHTMLParser
    elements: list[Any]
    names: list[str]
    attributes: list[dict[str, str | None]]
    classes: Sequence[Sequence[str]]
    numbers: dict[int, int]
    parents: list[int]
    ends: list[int]
    positions: list[int]
    kept: Int64Array
    tags: UInt16Array
    depths: Int32Array
    texts: list[str]
    words: list[str]
    word_owners: list[int]
    word_places: list[int]


def read_page(html: bytes, spliced_tags: Sequence[str]) -> Page:
    """Parse a page and number its elements.

    Examples
    --------
    >>> page = read_page(b"<p>one <b>two</b></p>", ["b"])
    >>> [element.tag for element in page.elements], page.kept.tolist(), page.texts[3]
    (['html', 'head', 'body', 'p', 'b'], [0, 1, 2, 3], 'one two')
    """
    check_cost("the page", html)
    parser = LexborHTMLParser(html)
    if parser.root is None:
        raise PageError("the page holds no HTML element; give a page with content")
    elements: list[Any] = []
    names: list[str] = []
    parents: list[int] = []
    words: list[str] = []
    word_parents: list[int] = []
    word_places: list[int] = []
    numbers: dict[int, int] = {}
    nodes: Iterable[Any] = parser.root.traverse(include_text=True)
    for node in nodes:
        name = node.tag
        parent = numbers.get(node.parent.mem_id, -1)
        if name == _TEXT:
            if parent >= 0 and names[parent] not in _SILENT:
                words.append(node.text_content or "")
                word_parents.append(parent)
                word_places.append(len(elements))
        elif name and name[0] != _NO_ELEMENT:  # a processing instruction has no name
            numbers[node.mem_id] = len(elements)
            elements.append(node)
            names.append(name)
            parents.append(parent)
    attributes = [element.attributes for element in elements]
    classes = [_CLASS.findall(found["class"] or "") if "class" in found else () for found in attributes]
    spliced = frozenset(spliced_tags)
    links = _link_elements(np.array(parents, np.int64), np.array([name in spliced for name in names]))
    owners, ends, positions, depths = links
    kept = np.flatnonzero(owners == np.arange(len(owners)))
    ids = {name: tag_id(name) for name in set(names)}
    tags = np.array([ids[name] for name in names], np.uint16)[kept]
    word_owners = owners[word_parents].tolist() if word_parents else []
    return Page(
        parser, elements, names, attributes, classes, numbers, parents, ends.tolist(), positions.tolist(),
        kept, tags, depths[kept], _join_words(len(elements), words, word_owners), words, word_owners, word_places,
    )  # fmt: skip


def to_markup(html: bytes | str) -> bytes:
    """Return a page in UTF-8, as the parser takes it; bytes are decoded as a browser would.

    Examples
    --------
    >>> to_markup("<p>é".encode("latin-1")) == to_markup("<p>é")
    True
    """
    return html.encode("utf-8", "replace") if isinstance(html, str) else to_utf8(html)


def text_of(page: Page, start: int, end: int) -> str:
    """Return the text of a span of elements in document order, white space collapsed.

    Examples
    --------
    >>> text_of(read_page(b"<p>one <a>two</a> three</p><p>four</p>", []), 3, 5)
    'one two three'
    """
    first, last = bisect_left(page.word_places, start + 1), bisect_right(page.word_places, end)
    inside = (page.words[i] for i in range(first, last) if start <= page.word_owners[i] < end)
    return " ".join(" ".join(inside).split())


def _join_words(n_elements: int, words: list[str], owners: list[int]) -> list[str]:
    pieces: dict[int, list[str]] = {}
    for word, owner in zip(words, owners, strict=True):
        pieces.setdefault(owner, []).append(word)
    texts = [""] * n_elements
    for owner, parts in pieces.items():
        texts[owner] = " ".join("".join(parts).split())
    return texts


@kernel
def _link_elements(
    parents: Int64Array, is_spliced: NDArray[np.bool_]
) -> tuple[Int64Array, Int64Array, Int64Array, Int32Array]:
    """Return for each element which one stays in its place, where it ends, its position, and its depth when spliced."""
    n = len(parents)
    owners = np.arange(n)
    ends = np.arange(1, n + 1)
    positions = np.ones(n, np.int64)
    depths = np.zeros(n, np.int32)
    n_children = np.zeros(n, np.int64)
    for element in range(n):
        parent = parents[element]
        if parent >= 0:
            n_children[parent] += 1
            positions[element] = n_children[parent]
            if is_spliced[element]:
                owners[element] = owners[parent]
            depths[element] = depths[parent] + (owners[element] == element)
    for element in range(n - 1, 0, -1):
        if parents[element] >= 0:
            ends[parents[element]] = max(ends[parents[element]], ends[element])
    return owners, ends, positions, depths

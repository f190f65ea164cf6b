"""A page as lexbor's elements in document order, with the way back from the spliced tree to them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from selectolax.lexbor import LexborHTMLParser

from treesim_dask.crawl.charset import to_utf8
from treesim_dask.dom.vocabulary import tag_id
from treesim_dask.errors import PageError
from treesim_dask.types import Int32Array, Int64Array, UInt16Array

_CLASS = re.compile(r"[^ \t\n\r\f]+")  # HTML separates class names by these alone
_SILENT = frozenset({"noscript", "script", "style", "template", "title"})  # their text is not seen on the page


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
    lone_names
        Ids (``#name``) and classes (``.name``) in lower case that one element of the page has.
    words, word_owners, word_places
        The pieces of text in document order; the element each belongs to; how many elements began before it.
    """

    parser: LexborHTMLParser
    elements: list[Any]
    names: list[str]
    attributes: list[dict[str, str | None]]
    classes: list[list[str]]
    numbers: dict[int, int]
    parents: list[int]
    ends: list[int]
    positions: list[int]
    kept: Int64Array
    tags: UInt16Array
    depths: Int32Array
    texts: list[str]
    lone_names: frozenset[str]
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
    parser = LexborHTMLParser(html)
    if parser.root is None:
        raise PageError("the page holds no HTML element; give a page with content")
    elements: list[Any] = []
    parents: list[int] = []
    owners: list[int] = []  # the element, itself or above, that stays in the spliced tree
    words: list[str] = []
    word_owners: list[int] = []
    word_places: list[int] = []
    numbers: dict[int, int] = {}
    spliced = frozenset(spliced_tags)
    for node in parser.root.traverse(include_text=True):
        parent = numbers.get(node.parent.mem_id, -1) if node.parent is not None else -1
        if node.is_element_node:
            number = numbers[node.mem_id] = len(elements)
            elements.append(node)
            parents.append(parent)
            owners.append(number if node.tag not in spliced or parent < 0 else owners[parent])
        elif node.is_text_node and parent >= 0 and elements[parent].tag not in _SILENT:
            words.append(node.text_content or "")
            word_owners.append(owners[parent])
            word_places.append(len(elements))
    names = [element.tag for element in elements]
    attributes = [element.attributes for element in elements]
    classes = [_CLASS.findall(found.get("class") or "") for found in attributes]
    kept = np.array([number for number, owner in enumerate(owners) if owner == number], np.int64)
    tags = np.array([tag_id(names[number]) for number in kept], np.uint16)
    return Page(
        parser, elements, names, attributes, classes, numbers,
        parents, _subtree_ends(parents), _positions(parents), kept, tags, _spliced_depths(parents, owners)[kept],
        _join_words(len(elements), words, word_owners), _lone_names(attributes, classes),
        words, word_owners, word_places,
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


def _lone_names(attributes: list[dict[str, str | None]], classes: list[list[str]]) -> frozenset[str]:
    counts: Counter[str] = Counter()
    for found, names in zip(attributes, classes, strict=True):
        if names:
            counts.update({f".{name.lower()}" for name in names})
        if found.get("id"):
            counts[f"#{str(found['id']).lower()}"] += 1
    return frozenset(name for name, count in counts.items() if count == 1)


def _join_words(n_elements: int, words: list[str], owners: list[int]) -> list[str]:
    pieces: list[list[str]] = [[] for _ in range(n_elements)]
    for word, owner in zip(words, owners, strict=True):
        pieces[owner].append(word)
    return [" ".join("".join(parts).split()) for parts in pieces]


def _spliced_depths(parents: list[int], owners: list[int]) -> Int32Array:
    """Return the depth of each element in the tree of those that stay."""
    depths = np.zeros(len(parents), np.int32)
    for number, parent in enumerate(parents):
        if parent >= 0:
            depths[number] = depths[parent] + (owners[number] == number)
    return depths


def _subtree_ends(parents: list[int]) -> list[int]:
    ends = list(range(1, len(parents) + 1))
    for number in range(len(parents) - 1, 0, -1):
        ends[parents[number]] = max(ends[parents[number]], ends[number])
    return ends


def _positions(parents: list[int]) -> list[int]:
    n_children = [0] * (len(parents) + 1)  # the last entry counts the root
    positions = []
    for parent in parents:
        n_children[parent] += 1
        positions.append(n_children[parent])
    return positions

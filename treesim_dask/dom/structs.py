"""A parsed page to its elements, read from the parser's own memory: ten times as fast as through its objects.

selectolax makes a Python object of every node one looks at, which costs half as much as the parsing itself. Behind
each object is a C struct of lexbor, and `mem_id` is its address; a compiled loop that follows the pointers from
there costs next to nothing. Where the pointers lie in a struct is part of no interface, so the loop is used only on
platforms and versions of selectolax it was tried on, and only after it agreed, in this very process, with the walk
through objects on a page that has every kind of node. Everywhere else pages are walked through objects.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache, lru_cache
from importlib.metadata import version

import numpy as np
from selectolax.lexbor import LexborHTMLParser

from treesim_dask.dom.vocabulary import EPSILON, N_IDS, TAG_NAMES, tag_id
from treesim_dask.dom.walk import N_KNOWN, ElementBuffer, known_ids, walk_objects
from treesim_dask.kernels import kernel, load_word
from treesim_dask.types import Int32Array, UInt16Array, UInt64Array

TESTED_VERSIONS = frozenset({"1.0.2"})

# lxb_dom_node_t: event target, LOCAL NAME, prefix, namespace, document, NEXT, previous, PARENT, FIRST CHILD, last
# child, user data (8 bytes each), TYPE (4 bytes, padded to 8)
_LOCAL_NAME, _NEXT, _PARENT, _FIRST_CHILD, _TYPE = 8, 40, 56, 64, 88
_TYPE_MASK = 0xFFFFFFFF
_ELEMENT = 1
# The local name is a number of lexbor's table of known tags, or else the address of a lxb_tag_data_t: the NAME, in
# place or behind a pointer, its LENGTH, a link, and the local name itself (ITSELF)
_LENGTH, _ITSELF = 24, 40
_LONGEST_IN_PLACE = 16
_LONGEST_REMEMBERED = 64

_NO_ROOM, _NOT_KNOWN = -1, -2


def walk_structs(parser: LexborHTMLParser, elements: ElementBuffer) -> bool:
    """Append the elements of a page in document order; False, with nothing appended, where that is not possible.

    It is not where `known_ids` lacks a tag, which the walk through objects then adds, and where a page has more than a
    thousand unknown tags. The memory read belongs to `parser`, which the caller holds until this returns.
    """
    root = parser.root
    if root is None:
        return True
    unknown, start = elements.unknown, elements.n_nodes
    while True:
        end, n_unknown = _follow_pointers(root.mem_id, known_ids, elements.tags, elements.depths, start, unknown)
        if end != _NO_ROOM:
            break
        elements.grow()
    if end == _NOT_KNOWN:
        return False
    if n_unknown:
        ids = [_unknown_id(_read_name(address)) for address in unknown[:n_unknown].tolist()]
        _name_unknown(elements.tags[start:end], np.array(ids, np.uint16))
    elements.n_nodes = end
    return True


@cache
def can_walk_structs() -> bool:
    """Tell whether `walk_structs` may be used: a platform and version it was tried on, and a self-test that passed."""
    is_tried = (
        version("selectolax") in TESTED_VERSIONS
        and platform.python_implementation() == "CPython"
        and sys.platform in ("linux", "darwin")
        and sys.byteorder == "little"
        and ctypes.sizeof(ctypes.c_void_p) == 8
    )
    return is_tried and _agrees_with_objects()


def _agrees_with_objects() -> bool:
    """Walk a page with every kind of node both ways; that also fills `known_ids` with almost all tags there are."""
    parser = LexborHTMLParser(_every_kind_of_node())
    expected, found = ElementBuffer(), ElementBuffer()
    walk_objects(parser, expected)
    if not _looks_as_expected(parser) or not walk_structs(parser, found):
        return False
    n_nodes = expected.n_nodes
    return (
        found.n_nodes == n_nodes
        and bool((found.tags[:n_nodes] == expected.tags[:n_nodes]).all())
        and bool((found.depths[:n_nodes] == expected.depths[:n_nodes]).all())
    )


def _looks_as_expected(parser: LexborHTMLParser) -> bool:
    """Compare the words of some structs with what selectolax says of them, before any pointer is followed."""
    nodes = [] if parser.root is None else list(parser.root.traverse(include_text=True))
    return bool(nodes) and all(
        _word_at(node.mem_id + _LOCAL_NAME) == node.tag_id
        and (_word_at(node.mem_id + _TYPE) & _TYPE_MASK == _ELEMENT) == (not (node.tag or "-").startswith("-"))
        and all(
            _word_at(node.mem_id + offset) == (0 if relative is None else relative.mem_id)
            for offset, relative in ((_NEXT, node.next), (_PARENT, node.parent), (_FIRST_CHILD, node.first_child))
        )
        and (node.tag_id < N_KNOWN or _is_name_of(node.tag_id, node.tag or ""))
        for node in nodes
    )


def _is_name_of(address: int, tag: str) -> bool:
    """Tell whether a struct is that of an unknown tag: it holds its own address, and the length of the name."""
    return _word_at(address + _ITSELF) == address and _word_at(address + _LENGTH) == len(tag.encode())


def _every_kind_of_node() -> bytes:
    names = [name for name in TAG_NAMES if name]
    lines = ["<!-- before --><!DOCTYPE html><html><head><title>t</title><?target pi?></head><body>text<!-- c -->"]
    lines += [f"<{name}>x</{name}>" for name in names if name not in ("frameset", "plaintext")]
    lines += ["<template><p>content</p></template><br><hr/><p>open<p>open<table><tr><td>x<td><b><i>y</b></i></table>"]
    lines += ["<svg viewBox='0 0 1 1'>", *(f"<{name}>" for name in names), "</svg><math><mi>x<mo>+</math>"]
    lines += [f"<x-{'long' * n}>&amp;<![CDATA[c]]></x-{'long' * n}>" for n in range(12)]
    lines += ["<x234567890123456></x234567890123456><x-é></x-é>", "<div>" * 600, "deep", "</body></html><!-- after -->"]
    return "".join(lines).encode() + b"<x-\xff\xe9>"


def _read_name(address: int) -> bytes:
    """Return the name of an unknown tag."""
    struct = ctypes.string_at(address, _ITSELF)
    length = int.from_bytes(struct[_LENGTH : _LENGTH + 8], "little")
    if length <= _LONGEST_IN_PLACE:
        return struct[:length]
    return ctypes.string_at(int.from_bytes(struct[:8], "little"), length)


def _unknown_id(name: bytes) -> int:
    """Return the id of an unknown tag. A crawl has few that are common; long ones are none, and would fill memory."""
    return _short_id(name) if len(name) <= _LONGEST_REMEMBERED else tag_id(name.decode("utf-8", "replace"))


@lru_cache(maxsize=4096)
def _short_id(name: bytes) -> int:
    return tag_id(name.decode("utf-8", "replace"))


def _word_at(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


@kernel
def _follow_pointers(
    root: int,
    known: UInt16Array,
    tags: UInt16Array,
    depths: Int32Array,
    start: int,
    unknown: UInt64Array,
) -> tuple[int, int]:
    """Fill `tags` and `depths` from `start` on; return where they end and the number of unknown tags.

    The i-th unknown tag stands as ``N_IDS + i`` in `tags`, and the address of its name in `unknown`.
    """
    top = np.uint64(root)
    node = top
    depth = 0
    end = start
    n_unknown = 0
    while True:
        if load_word(node + np.uint64(_TYPE)) & np.uint64(_TYPE_MASK) == np.uint64(_ELEMENT):
            if end == len(tags):
                return _NO_ROOM, 0
            name = load_word(node + np.uint64(_LOCAL_NAME))
            if name < np.uint64(N_KNOWN):
                tag = int(known[name])
                if tag == EPSILON:
                    return _NOT_KNOWN, 0
            else:
                number = 0
                while number < n_unknown and unknown[number] != name:
                    number += 1
                if number == len(unknown):
                    return _NOT_KNOWN, 0
                if number == n_unknown:
                    unknown[number] = name
                    n_unknown += 1
                tag = N_IDS + number
            tags[end] = tag
            depths[end] = depth
            end += 1
        following = load_word(node + np.uint64(_FIRST_CHILD))
        if following:
            depth += 1
        else:
            while node != top:
                following = load_word(node + np.uint64(_NEXT))
                if following:
                    break
                node = load_word(node + np.uint64(_PARENT))
                depth -= 1
            if node == top:
                return end, n_unknown
        node = following


@kernel
def _name_unknown(tags: UInt16Array, ids: UInt16Array) -> None:
    for node in range(len(tags)):
        if tags[node] >= N_IDS:
            tags[node] = ids[tags[node] - N_IDS]

"""What a page would cost the HTML parser, judged by its bytes before it is parsed.

A page is refused if its tags times the elements that may be open at a time are more steps than a parser should take, or
if its tags times the formatting elements that may be open (`b`, `font`: made anew, with all attributes, in each block
that follows) are more nodes than the memory should hold. What may be open is counted, start tags less end tags, not
followed through the rules of HTML; where that is unsure, elements count as open.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treesim_dask.errors import PageError
from treesim_dask.kernels import kernel
from treesim_dask.types import Int32Array, Int64Array, PageBatch, SkippedLog, UInt64Array

_Bytes = NDArray[np.uint8]
_Flags = NDArray[np.bool_]

# Of 2,053 real pages none comes nearer, looked at closely, than a thirtieth of the steps and a twentieth of the copies;
# of 17,381 more, a quarter and a third. The worst that were found to pass take 9 s (50,000 attributes in one tag; 5 s
# otherwise) or 0.8 GB.
_MOST_STEPS = 400_000_000  # of 3 to 15 ns each
_MOST_COPIES = 4_000_000  # elements and attributes, some 200 bytes each
_MANY_ATTRIBUTES = 40_000  # in one tag: each is compared with all before
_FEW_BYTES = 4_000  # no such page costs much

_FORMATS = "a b big code em font i nobr s small strike strong tt u"
# None of these is open within itself with nothing between: all end each other, or hold nothing.
_NEVER_NESTED = "p li dd dt br img hr embed meta head body"
# The same outside of drawings and formulas, where they are names like any other.
_NESTED_IF_FOREIGN = (
    "html td th tr tbody thead tfoot caption colgroup col area base basefont bgsound input link param source track wbr "
    "frame keygen"
)
# Kinds of elements; those that nest have 0, formats the numbers from 1 on.
_NESTS, _NEVER, _IF_FOREIGN, _OPENS_FOREIGN, _OPTION, _LINK = 0, -1, -2, -3, -4, 1
_LOW_BITS = 0x0101010101010101  # of each of eight bytes the lowest
_NAME_FACTOR, _N_PLACES = 0x100000001B3, 4095


def _name_code(name: str) -> int:
    code = 0
    for byte in name.encode():
        code = (code ^ byte) * _NAME_FACTOR & 0xFFFFFFFFFFFFFFFF
    return code


def _kinds_by_place() -> tuple[UInt64Array, Int64Array]:
    """Return the codes of all names that are told apart and their kinds, each in the place its last bits say."""
    kinds = {name: kind for kind, name in enumerate(_FORMATS.split(), _LINK)}
    kinds |= {"svg": _OPENS_FOREIGN, "math": _OPENS_FOREIGN, "option": _OPTION}
    kinds |= dict.fromkeys(_NEVER_NESTED.split(), _NEVER) | dict.fromkeys(_NESTED_IF_FOREIGN.split(), _IF_FOREIGN)
    codes_by_place, kinds_by_place = np.zeros(_N_PLACES, np.uint64), np.zeros(_N_PLACES, np.int64)
    for name, kind in kinds.items():
        place = _name_code(name) % _N_PLACES
        assert not codes_by_place[place], name
        codes_by_place[place], kinds_by_place[place] = _name_code(name), kind
    return codes_by_place, kinds_by_place


_CODES, _KINDS = _kinds_by_place()
_INITIALS = np.isin(np.arange(256) | 32, [ord(name[0]) for name in _FORMATS.split()])


def is_affordable(page: bytes) -> bool:
    """Tell whether the parser can be given a page: it would neither stall nor fill the memory.

    Examples
    --------
    >>> is_affordable(b"<ul><li>one<li>two</ul>"), is_affordable(b"<div>" * 10_000)
    (True, True)
    >>> is_affordable(b"<div>" * 100_000)
    False
    """
    if len(page) <= _FEW_BYTES:
        return True
    content = np.frombuffer(page, np.uint8)
    places = _find_tags(content)
    is_plain = len(page) <= 5 * _MANY_ATTRIBUTES or _count_breaks(content) <= _MANY_ATTRIBUTES
    for closely in (False, True) if is_plain else (True,):
        steps, copies = _measure(content, places, _CODES, _KINDS, _INITIALS, closely)
        if steps <= _MOST_STEPS and copies <= _MOST_COPIES:
            return True
    return False


def check_cost(name: str, page: bytes) -> None:
    """Refuse a page that the parser cannot be given."""
    if not is_affordable(page):
        raise PageError(
            f"{name} would take the HTML parser too much time or memory: thousands of its tags are never closed, or of "
            "its attributes are in one tag; give a page without them"
        )


def affordable_pages(pages: PageBatch, skipped: SkippedLog, reason: str, least_bytes: int = 0) -> PageBatch:
    """Return a batch without the pages that the parser cannot be given; those are noted with the reason.

    Pages of less than `least_bytes` are not looked at.

    Examples
    --------
    >>> pages, skipped = PageBatch(), SkippedLog()
    >>> pages.append(b"<div>" * 100_000, "http://a.example/", None, 200, "a.warc", 70, 900, None)
    >>> len(affordable_pages(pages, skipped, "too-costly")), skipped.offset
    (0, [70])
    """
    kept = [len(page) < least_bytes or is_affordable(page) for page in pages.html]
    if all(kept):
        return pages
    for warc, offset, is_kept in zip(pages.warc, pages.offset, kept, strict=True):
        if not is_kept:
            skipped.add(reason, warc, offset)
    return pages.select(kept)


@kernel
def _find_tags(page: _Bytes) -> Int32Array:
    """Return where each "<" is, but for the last bytes; eight bytes are compared at a time."""
    words = page[: (len(page) - 3) // 8 * 8].view(np.uint64)
    found, n_found = np.empty(len(words), np.int32), 0
    for i in range(len(words)):
        found[n_found] = i
        n_found += _mark_tags(words[i]) != 0
    places, n_tags = np.empty(8 * n_found + 1, np.int32), 0
    for i in found[:n_found]:
        marks = _mark_tags(words[i])
        while marks:
            below = (marks - np.uint64(1)) & ~marks & np.uint64(_LOW_BITS)  # a bit of each byte up to the first mark
            at = 8 * np.int64(i) + np.int64((below * np.uint64(_LOW_BITS)) >> np.uint64(56)) - 1
            places[n_tags] = at
            n_tags += page[at] == 60
            marks &= marks - np.uint64(1)
    return places[:n_tags]


@kernel
def _mark_tags(word: np.uint64) -> np.uint64:
    """Return the highest bit of each byte that is "<", and perhaps of bytes behind such a one."""
    differing = word ^ np.uint64(60 * _LOW_BITS)
    return (differing - np.uint64(_LOW_BITS)) & ~differing & np.uint64(128 * _LOW_BITS)


@kernel
def _count_breaks(page: _Bytes) -> np.int32:
    """Return how many attributes there are at most: white space, a slash or a value stands before each."""
    n_breaks = np.int32(0)
    for i in range(len(page)):
        n_breaks += np.int32((page[i] <= 32) | (page[i] == 47) | (page[i] == 61))  # / =
    return n_breaks


@kernel
def _measure(
    page: _Bytes, places: Int32Array, codes: UInt64Array, kinds: Int64Array, initials: _Flags, closely: bool
) -> tuple[int, int]:
    """Return at most how many steps the parser takes, and how many nodes it makes anew.

    At first sight no element ends, and only the tags of formats are read. Looked at closely, all tags are read, and
    those end tags count that are no part of another tag or of a comment.
    """
    depth, deepest, n_foreign, attribute_steps, hidden_to = 0, 0, 0, 0, 0
    n_open, most_open, heaviest, n_bare = np.zeros((4, 32), np.int64)
    weights = 0  # of all formats that have attributes
    for at in places:
        first = page[at + 1]
        is_end = first == 47  # /
        if closely and first == 33 and at >= hidden_to:  # !
            hidden_to = _end_of_comment(page, at)
        if attribute_steps > _MOST_STEPS or (is_end and (not closely or at < hidden_to)):
            continue
        if not closely:
            depth = deepest = depth + 1
            if not initials[first]:
                continue
        code, end = _read_name(page, at + 1 + is_end)
        place = code % np.uint64(_N_PLACES)
        kind = kinds[place] if codes[place] == code else _NESTS
        change = -1 if is_end else 1
        if closely:
            n_foreign = max(0, n_foreign + change * (kind == _OPENS_FOREIGN))
            if (
                kind != _NEVER
                and kind != _LINK
                and (kind != _IF_FOREIGN or n_foreign)
                and not (is_end and kind == _OPTION)
            ):
                depth = max(0, depth + change)
                deepest = max(deepest, depth)
        if kind >= _LINK:
            n_open[kind] = max(0, n_open[kind] + change)
            most_open[kind] = max(most_open[kind], n_open[kind])
        if is_end or (kind < _LINK and not closely):
            continue
        n_attributes, hidden = _read_attributes(page, end)
        attribute_steps += n_attributes * n_attributes // 2 + hidden - end
        hidden_to = max(hidden_to, hidden)
        if kind >= _LINK:
            weight = 1 + n_attributes + (hidden - end) // 200
            heaviest[kind] = max(heaviest[kind], weight)
            n_bare[kind] = max(n_bare[kind], min(3, n_open[kind]))
            weights += weight * (n_attributes > 0 and kind != _LINK)
    # a link ends the one before it, and of formats without attributes three of a name are made anew
    n_bare[_LINK], most_open[_LINK] = heaviest[_LINK], min(1, most_open[_LINK])
    n_copies = weights + n_bare.sum()
    if closely:
        n_copies = min(n_copies, (most_open * heaviest).sum())
    # the end of a format may go through all that is open and, for each, through all formats: 25 of these are a step
    return max(len(places) * deepest * (1 + n_copies // 25), attribute_steps), len(places) * n_copies


@kernel
def _read_name(page: _Bytes, at: int) -> tuple[np.uint64, int]:
    """Return the code of a tag's name, without regard to case, and where the name ends."""
    code = np.uint64(0)
    while at < len(page) and page[at] > 32 and page[at] != 47 and page[at] != 62:  # / >
        code = (code ^ np.uint64(page[at] | 32 if 65 <= page[at] <= 90 else page[at])) * np.uint64(_NAME_FACTOR)
        at += 1
    return code, at


@kernel
def _read_attributes(page: _Bytes, at: int) -> tuple[int, int]:
    """Return how many attributes follow the name of a tag, at most, and where the tag ends."""
    n_attributes, last = 0, len(page) - 1
    while at < last and page[at] != 62:  # >
        if page[at] <= 32 or page[at] == 47:  # /
            at += 1
            continue
        n_attributes += 1
        at += 1
        while at < last and page[at] > 32 and page[at] != 47 and page[at] != 61 and page[at] != 62:
            at += 1
        while at < last and page[at] <= 32:
            at += 1
        if page[at] != 61:  # =
            continue
        at += 1
        while at < last and page[at] <= 32:
            at += 1
        quote = page[at]
        if quote == 34 or quote == 39:
            at += 1
            while at < last and page[at] != quote:
                at += 1
            at += 1
        else:
            while at < last and page[at] > 32 and page[at] != 62:
                at += 1
    return n_attributes, min(at, last)


@kernel
def _end_of_comment(page: _Bytes, at: int) -> int:
    """Return where a comment or a declaration ends."""
    is_comment = at + 3 < len(page) and page[at + 2] == 45 and page[at + 3] == 45  # --
    at += 4 if is_comment else 2
    while at < len(page) and not (page[at] == 62 and (not is_comment or (page[at - 1] == 45 and page[at - 2] == 45))):
        at += 1
    return at

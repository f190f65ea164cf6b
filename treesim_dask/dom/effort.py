"""What a page would cost the HTML parser, estimated before it is parsed.

HTML5 lets a few kilobytes ask for gigabytes and for hours: a formatting element left open is made anew in every
block that follows, and many tags make the parser walk all open elements. The estimate follows the rules of the
standard for open elements and for open formatting elements, roughly, and rather counts too much than too little.
Depth alone costs nothing. No ordinary page comes near the limits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from treesim_dask.kernels import kernel
from treesim_dask.types import Int32Array, Int64Array, UInt64Array

UInt8Array = NDArray[np.uint8]
BoolArray = NDArray[np.bool_]

# steps of the parser over open elements, about 10 ns each; and elements made anew, about 500 bytes each
_MOST_STEPS = 100_000_000
_MOST_COPIES = 500_000
# fewer tags than this, and shorter than this, a page cannot reach either limit
_FEW_TAGS = 1_000
_SHORT = 20_000

_VOID, _SPECIAL, _FORMATTING, _RAW, _SCOPE, _MARKER, _ENDS_P, _IGNORED, _CELL = (1 << bit for bit in range(9))
_BREAKOUT = 1 << 9  # ends an <svg> or <math> it stands in
_FOREIGN, _INTEGRATION = 1 << 10, 1 << 11  # <svg>, <math>; and what holds HTML inside of them

_KINDS = {
    _VOID: "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr",
    _SPECIAL: "address applet article aside blockquote button caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr li listing main marquee menu nav object "
    "ol p pre search section select summary table tbody td template tfoot th thead tr ul foreignobject",
    _FORMATTING: "a b big code em font i nobr s small strike strong tt u",
    _RAW: "script style textarea title xmp iframe noembed noframes plaintext",
    _SCOPE: "applet caption html table td th marquee object template select foreignobject",
    _MARKER: "applet caption marquee object td th template",
    _ENDS_P: "address article aside blockquote center details dialog dir div dl dt dd fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p pre search section summary "
    "table ul xmp",
    _IGNORED: "html head body",
    _CELL: "caption colgroup tbody td tfoot th thead tr",
    _BREAKOUT: "b big blockquote center code dd div dl dt em h1 h2 h3 h4 h5 h6 i li listing menu nobr ol p pre ruby s "
    "small span strong strike sub sup table tt u ul var",
    _FOREIGN: "svg math",
    _INTEGRATION: "foreignobject desc title annotation-xml mi mo mn ms mtext",
}


def _name_code(name: str) -> int:
    code = 0
    for byte in name.encode():
        code = (code << 8 | byte) & 0xFFFFFFFFFFFFFFFF
        code = code * 0x100000001B3 & 0x7FFFFFFFFFFFFFFF if code >= 1 << 56 else code
    return code


def _kinds_by_name() -> tuple[UInt64Array, Int64Array]:
    flags: dict[int, int] = {}
    for kind, names in _KINDS.items():
        for name in names.split():
            flags[_name_code(name)] = flags.get(_name_code(name), 0) | kind
    codes = sorted(flags)
    return np.array(codes, np.uint64), np.array([flags[code] for code in codes], np.int64)


_NAMES, _FLAGS = _kinds_by_name()
_P, _LI, _DD, _DT, _A, _OPTION, _SELECT, _TABLE, _BUTTON, _PLAINTEXT, _TD, _TH = (
    _name_code(name)
    for name in ("p", "li", "dd", "dt", "a", "option", "select", "table", "button", "plaintext", "td", "th")
)
_LOOSE = tuple(_name_code(name) for name in ("address", "div", "p"))

# places of the counters in `state`
_DEPTH, _LISTED, _STEPS, _COPIES, _N_FOREIGN, _N_INTEGRATION, _N_TABLES, _N_OPTIONS = range(8)


def is_parsable(page: bytes) -> bool:
    """Tell whether the parser can be trusted with a page: it would neither stall nor fill the memory.

    Examples
    --------
    >>> is_parsable(b"<ul><li>one<li>two</ul>"), is_parsable(b"<span>" * 100_000)
    (True, True)
    >>> is_parsable(b"<div>" * 100_000)
    False
    """
    n_tags = page.count(b"<")
    if n_tags < _FEW_TAGS and len(page) < _SHORT:
        return True
    return bool(_estimate(np.frombuffer(page, np.uint8), n_tags, _NAMES, _FLAGS))


def parsable_pages(pages: Iterable[bytes]) -> BoolArray:
    """Tell of each page whether it can be parsed. Shape (n_pages,), dtype bool; see `is_parsable`.

    Examples
    --------
    >>> parsable_pages([b"<p>", b"<div>" * 100_000]).tolist()
    [True, False]
    """
    return np.array([is_parsable(page) for page in pages], np.bool_)


@kernel
def _estimate(page: UInt8Array, n_tags: int, names: UInt64Array, flags: Int64Array) -> bool:
    """Read the tags of a page and follow the open elements; False as soon as a limit is passed."""
    # an open element is a tag or the one open copy of a formatting tag, so three times the tags have room
    stack, kinds = np.empty(3 * n_tags + 8, np.uint64), np.empty(3 * n_tags + 8, np.int64)
    entries = np.empty(3 * n_tags + 8, np.int32)  # of a formatting element or a marker: its place in the list
    listed, looks = np.empty(2 * n_tags + 8, np.uint64), np.empty(2 * n_tags + 8, np.uint64)
    is_open = np.zeros(2 * n_tags + 8, np.bool_)
    state = np.zeros(8, np.int64)
    at, text_from = 0, 0
    while at < len(page):
        if page[at] != 60:  # <
            at += 1
            continue
        if at > text_from:
            _reconstruct(stack, kinds, entries, listed, is_open, state)
        is_end = at + 1 < len(page) and page[at + 1] == 47  # /
        start = at + 2 if is_end else at + 1
        if start >= len(page) or not _is_letter(page[start]):
            text_from = at
            at = _skip_other(page, at)
            text_from = at if at > text_from + 1 else text_from
            continue
        code, after_name = _read_name(page, start)
        at, n_attributes, closes_itself = _read_attributes(page, after_name)
        text_from = at
        state[_STEPS] += n_attributes * n_attributes // 2
        found = np.searchsorted(names, code)
        kind = flags[found] if found < len(names) and names[found] == code else 0
        if is_end:
            _end(code, kind, stack, kinds, entries, listed, is_open, state)
        elif kind & _RAW and state[_N_FOREIGN] == 0:
            if code == _PLAINTEXT:
                break
            if kind & _ENDS_P:
                _end(np.uint64(_P), _SPECIAL, stack, kinds, entries, listed, is_open, state)
            at = text_from = _skip_raw(page, at, page[start:after_name])
        else:
            look = _hash_look(page, after_name, at) if kind & _FORMATTING else code
            in_place = closes_itself and kind == 0 and state[_N_FOREIGN] > state[_N_INTEGRATION]
            _start(code, kind, look, in_place, stack, kinds, entries, listed, looks, is_open, state)
        if state[_STEPS] > _MOST_STEPS or state[_COPIES] > _MOST_COPIES:
            return False
    return True


@kernel
def _start(
    code: np.uint64,
    kind: int,
    look: np.uint64,
    in_place: bool,
    stack: UInt64Array,
    kinds: Int64Array,
    entries: Int32Array,
    listed: UInt64Array,
    looks: UInt64Array,
    is_open: BoolArray,
    state: Int64Array,
) -> None:
    """Open an element, after ending those that may not be open around it."""
    if kind & _IGNORED or (kind & _CELL and state[_N_TABLES] == 0):
        return
    _end_before(code, kind, stack, kinds, entries, listed, is_open, state)
    if not kind & _SPECIAL:
        _reconstruct(stack, kinds, entries, listed, is_open, state)
    if kind & _VOID or in_place:
        return
    if code == np.uint64(_SELECT):
        state[_N_OPTIONS] = 0
    if code == np.uint64(_OPTION):
        state[_N_OPTIONS] += 1
        state[_STEPS] += 2 * state[_N_OPTIONS]
    entry = -1
    if kind & _FORMATTING:
        entry = _list_formatting(code, look, listed, looks, state)
        is_open[entry] = True
    elif kind & _MARKER:
        entry = state[_LISTED]
        listed[entry] = np.uint64(0)
        state[_LISTED] += 1
    _push(code, kind, entry, stack, kinds, entries, state)


@kernel
def _end_before(
    code: np.uint64,
    kind: int,
    stack: UInt64Array,
    kinds: Int64Array,
    entries: Int32Array,
    listed: UInt64Array,
    is_open: BoolArray,
    state: Int64Array,
) -> None:
    """End what the start of an element ends: the item before an item, the paragraph before a block."""
    if kind & _BREAKOUT and state[_N_FOREIGN] > state[_N_INTEGRATION]:
        place = _find(np.uint64(0), _FOREIGN, _SPECIAL, stack, kinds, state)
        _pop_to(place, stack, kinds, entries, listed, is_open, state)
    if kind & _CELL:
        if code == np.uint64(_TD) or code == np.uint64(_TH):
            place = _find_before_table(np.uint64(_TD), np.uint64(_TH), stack, state)
        else:
            place = _find_before_table(code, code, stack, state)
        _pop_to(place, stack, kinds, entries, listed, is_open, state)
    elif kind & _ENDS_P:
        if code == np.uint64(_LI):
            place = _find_item(code, code, stack, kinds, state)
            _pop_to(place, stack, kinds, entries, listed, is_open, state)
        elif code == np.uint64(_DD) or code == np.uint64(_DT):
            place = _find_item(np.uint64(_DD), np.uint64(_DT), stack, kinds, state)
            _pop_to(place, stack, kinds, entries, listed, is_open, state)
        _end(np.uint64(_P), _SPECIAL, stack, kinds, entries, listed, is_open, state)
    elif code == np.uint64(_A):
        _end(code, kind, stack, kinds, entries, listed, is_open, state)
    elif code == np.uint64(_OPTION) and state[_DEPTH] and stack[state[_DEPTH] - 1] == code:
        _pop_to(state[_DEPTH] - 1, stack, kinds, entries, listed, is_open, state)


@kernel
def _end(
    code: np.uint64,
    kind: int,
    stack: UInt64Array,
    kinds: Int64Array,
    entries: Int32Array,
    listed: UInt64Array,
    is_open: BoolArray,
    state: Int64Array,
) -> None:
    """End the innermost open element of a name, and all inside of it, where it can be reached."""
    if kind & _FORMATTING:
        entry = state[_LISTED] - 1
        while entry >= 0 and listed[entry] != code and listed[entry] != np.uint64(0):
            entry -= 1
        state[_STEPS] += state[_LISTED] - entry
        if entry >= 0 and listed[entry] == code:
            listed[entry] = np.uint64(1)  # a dead entry
            while state[_LISTED] and listed[state[_LISTED] - 1] == np.uint64(1):
                state[_LISTED] -= 1
            if is_open[entry]:
                _end_listed(entry, stack, kinds, entries, listed, is_open, state)
            return
    if kind & _CELL:
        place = _find_before_table(code, code, stack, state)
    elif kind & _SPECIAL:
        place = _find(code, 0, _SCOPE, stack, kinds, state)
    else:
        place = _find(code, 0, _SPECIAL, stack, kinds, state)
    _pop_to(place, stack, kinds, entries, listed, is_open, state)


@kernel
def _end_listed(
    entry: int,
    stack: UInt64Array,
    kinds: Int64Array,
    entries: Int32Array,
    listed: UInt64Array,
    is_open: BoolArray,
    state: Int64Array,
) -> None:
    """End a formatting element: with all inside of it, or alone where a block stays open inside of it."""
    place = state[_DEPTH] - 1
    holds_block = False
    while entries[place] != entry or not kinds[place] & _FORMATTING:
        holds_block = holds_block or kinds[place] & _SPECIAL != 0
        place -= 1
    state[_STEPS] += state[_DEPTH] - place
    is_open[entry] = False
    if holds_block:
        state[_COPIES] += 4
        kinds[place], stack[place], entries[place] = 0, np.uint64(1), -1
    else:
        _pop_to(place, stack, kinds, entries, listed, is_open, state)


@kernel
def _reconstruct(
    stack: UInt64Array,
    kinds: Int64Array,
    entries: Int32Array,
    listed: UInt64Array,
    is_open: BoolArray,
    state: Int64Array,
) -> None:
    """Make the formatting elements anew that were ended by the end of a block around them, not by their own."""
    first = state[_LISTED]
    while first and listed[first - 1] != np.uint64(0) and not is_open[first - 1]:
        first -= 1
    state[_STEPS] += state[_LISTED] - first
    for entry in range(first, state[_LISTED]):
        if listed[entry] != np.uint64(1):
            state[_COPIES] += 1
            is_open[entry] = True
            _push(listed[entry], _FORMATTING, entry, stack, kinds, entries, state)


@kernel
def _list_formatting(
    code: np.uint64, look: np.uint64, listed: UInt64Array, looks: UInt64Array, state: Int64Array
) -> int:
    """Put a formatting element into the list, which holds at most three that look alike: the first of them goes."""
    n_alike, earliest = 0, -1
    entry = int(state[_LISTED]) - 1
    while entry >= 0 and listed[entry] != np.uint64(0):
        if listed[entry] == code and looks[entry] == look:
            n_alike, earliest = n_alike + 1, entry
        entry -= 1
    state[_STEPS] += 4 * (state[_LISTED] - entry)
    if n_alike >= 3:
        listed[earliest] = np.uint64(1)
    entry = int(state[_LISTED])
    listed[entry], looks[entry] = code, look
    state[_LISTED] += 1
    return entry


@kernel
def _push(
    code: np.uint64,
    kind: int,
    entry: int,
    stack: UInt64Array,
    kinds: Int64Array,
    entries: Int32Array,
    state: Int64Array,
) -> None:
    depth = state[_DEPTH]
    stack[depth], kinds[depth], entries[depth] = code, kind, entry
    state[_DEPTH] = depth + 1
    state[_N_FOREIGN] += kind & _FOREIGN != 0
    state[_N_INTEGRATION] += kind & _INTEGRATION != 0
    state[_N_TABLES] += code == np.uint64(_TABLE)


@kernel
def _pop_to(
    place: int,
    stack: UInt64Array,
    kinds: Int64Array,
    entries: Int32Array,
    listed: UInt64Array,
    is_open: BoolArray,
    state: Int64Array,
) -> None:
    """Close the open elements from a place on; -1 closes none."""
    if place < 0:
        return
    for i in range(state[_DEPTH] - 1, place - 1, -1):
        if kinds[i] & _MARKER:
            state[_LISTED] = min(state[_LISTED], entries[i])
        elif kinds[i] & _FORMATTING:
            is_open[entries[i]] = False
        state[_N_FOREIGN] -= kinds[i] & _FOREIGN != 0
        state[_N_INTEGRATION] -= kinds[i] & _INTEGRATION != 0
        state[_N_TABLES] -= stack[i] == np.uint64(_TABLE)
    state[_DEPTH] = place


@kernel
def _find(code: np.uint64, kind: int, boundary: int, stack: UInt64Array, kinds: Int64Array, state: Int64Array) -> int:
    """Return the place of the innermost open element of a name or kind that no boundary hides, or -1."""
    place = int(state[_DEPTH]) - 1
    while place >= 0 and stack[place] != code and not kinds[place] & kind:
        if kinds[place] & boundary or (stack[place] == np.uint64(_BUTTON) and code == np.uint64(_P)):
            state[_STEPS] += state[_DEPTH] - place
            return -1
        place -= 1
    state[_STEPS] += state[_DEPTH] - place
    return place


@kernel
def _find_item(code: np.uint64, other: np.uint64, stack: UInt64Array, kinds: Int64Array, state: Int64Array) -> int:
    """Return the place of the open item that a next item ends, or -1."""
    place = int(state[_DEPTH]) - 1
    while place >= 0 and stack[place] != code and stack[place] != other:
        is_loose = stack[place] == _LOOSE[0] or stack[place] == _LOOSE[1] or stack[place] == _LOOSE[2]
        if kinds[place] & _SPECIAL and not is_loose:
            state[_STEPS] += state[_DEPTH] - place
            return -1
        place -= 1
    state[_STEPS] += state[_DEPTH] - place
    return place


@kernel
def _find_before_table(code: np.uint64, other: np.uint64, stack: UInt64Array, state: Int64Array) -> int:
    """Return the place of an open part of the innermost table, or -1."""
    place = int(state[_DEPTH]) - 1
    while place >= 0 and stack[place] != code and stack[place] != other and stack[place] != np.uint64(_TABLE):
        place -= 1
    state[_STEPS] += state[_DEPTH] - place
    return place if place >= 0 and stack[place] != np.uint64(_TABLE) else -1


@kernel
def _is_letter(byte: int) -> bool:
    return 97 <= byte | 32 <= 122


@kernel
def _is_space(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 10 or byte == 12 or byte == 13


@kernel
def _read_name(page: UInt8Array, at: int) -> tuple[np.uint64, int]:
    """Return the code of a tag name, as `_name_code` gives it, and where the name ends."""
    code = np.uint64(0)
    while at < len(page) and page[at] != 62 and page[at] != 47 and not _is_space(page[at]):
        byte = page[at] | 32 if 65 <= page[at] <= 90 else page[at]
        code = code << np.uint64(8) | np.uint64(byte)
        if code >= np.uint64(1 << 56):
            code = code * np.uint64(0x100000001B3) & np.uint64(0x7FFFFFFFFFFFFFFF)
        at += 1
    return code, at


@kernel
def _read_attributes(page: UInt8Array, at: int) -> tuple[int, int, bool]:
    """Return where a tag ends, its number of attributes, and whether it ends in a slash."""
    n_attributes = 0
    is_apart, may_quote = True, False  # after a space or slash; after = and perhaps spaces, where a quote opens a value
    while at < len(page):
        byte = page[at]
        at += 1
        if byte > 62:  # >, and above it what names and most values are made of
            n_attributes += is_apart
            is_apart = may_quote = False
        elif byte == 62:
            return at, n_attributes, page[at - 2] == 47
        elif byte == 47 or _is_space(byte):
            is_apart = True
            may_quote = may_quote and byte != 47
        elif may_quote and (byte == 34 or byte == 39):
            while at < len(page) and page[at] != byte:
                at += 1
            at += 1
            is_apart, may_quote = True, False
        else:
            n_attributes += is_apart
            is_apart, may_quote = False, byte == 61
    return at, n_attributes, False


@kernel
def _hash_look(page: UInt8Array, at: int, end: int) -> np.uint64:
    """Hash the attributes of a tag as they are written."""
    look = np.uint64(14695981039346656037)
    for i in range(at, end):
        look = (look ^ np.uint64(page[i])) * np.uint64(0x100000001B3)
    return look


@kernel
def _skip_other(page: UInt8Array, at: int) -> int:
    """Return where a comment or other declaration ends, or the next place where there is none."""
    if at + 1 >= len(page) or not (page[at + 1] == 33 or page[at + 1] == 63 or page[at + 1] == 47):  # ! ? /
        return at + 1
    is_comment = at + 3 < len(page) and page[at + 1] == 33 and page[at + 2] == 45 and page[at + 3] == 45
    end = at + 4 if is_comment else at + 2
    while end < len(page):
        if page[end] == 62:  # >
            if not is_comment or (page[end - 1] == 45 and page[end - 2] == 45):
                return end + 1
            if page[end - 1] == 33 and page[end - 2] == 45 and page[end - 3] == 45:
                return end + 1
        end += 1
    return end


@kernel
def _skip_raw(page: UInt8Array, at: int, name: UInt8Array) -> int:
    """Return where the end tag of an element begins whose content is no markup, or the end of the page."""
    while at + 1 < len(page):
        if page[at] == 60 and page[at + 1] == 47 and at + 2 + len(name) <= len(page):
            i = 0
            while i < len(name) and page[at + 2 + i] | 32 == name[i] | 32:
                i += 1
            if i == len(name):
                return at
        at += 1
    return len(page)

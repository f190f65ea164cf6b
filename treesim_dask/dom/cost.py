"""What a page would cost the HTML parser, judged by its bytes before it is parsed.

HTML5 lets some kilobytes ask for gigabytes and for hours: a formatting element left open is made anew in every block
that follows, and many tags have the parser search all open elements. A page with few tags and attributes cannot ask for
much, and almost all pages have few: they are counted and no more. In the others the open elements are followed through
the rules of the standard, and the steps of the parser are added up. Where rules are left out here, elements stay open
for longer than in the parser. Depth alone costs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treesim_dask.errors import PageError
from treesim_dask.kernels import kernel
from treesim_dask.types import Int64Array, PageBatch, SkippedLog, UInt64Array

_Bytes = NDArray[np.uint8]
_Flags = NDArray[np.bool_]

# With fewer tags, and fewer bytes or attributes, no page takes more than some ten seconds and 1.5 GB.
_FEW_TAGS, _FEW_BYTES, _FEW_ATTRIBUTES = 4_000, 256_000, 64_000
# Steps of the parser, 6 to 10 ns each; elements and attributes made anew, 400 bytes each; elements open at a time.
_MOST_STEPS, _MOST_COPIES, _DEEPEST = 400_000_000, 2_000_000, 2**18

_KINDS = tuple(1 << bit for bit in range(15))
(
    _VOID, _SPECIAL, _FORMATTING, _RAW, _SCOPE, _MARKER, _ENDS_P, _IGNORED, _TABLE_PART, _FOREIGN, _ITEM, _LOOSE,
    _OPTION, _TABLE, _CELL,
) = _KINDS  # fmt: skip

_TAGS_OF_KIND = {
    _VOID: "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr",
    _SPECIAL: "address applet article aside blockquote button caption center colgroup dd desc details dialog dir div "
    "dl dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 header hgroup li listing main marquee "
    "menu nav object ol p pre search section select summary table tbody td template tfoot th thead tr ul foreignobject",
    _FORMATTING: "a b big code em font i nobr s small strike strong tt u",
    _RAW: "script style textarea title xmp iframe noembed noframes",
    _SCOPE: "applet caption table td th marquee object template select foreignobject desc",
    _MARKER: "applet caption marquee object td th template",
    _ENDS_P: "address article aside blockquote center details dialog dir div dl dt dd fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p pre search section summary table "
    "ul xmp",
    _IGNORED: "html head body",
    _TABLE_PART: "caption colgroup tbody td tfoot th thead tr",
    _FOREIGN: "svg math select",  # what else is markup or text inside of these is told by other rules
    _ITEM: "li dd dt",
    _LOOSE: "address div p",
    _OPTION: "option",
    _TABLE: "table",
    _CELL: "td th",
}

_HASH_START, _HASH_FACTOR = 0xCBF29CE484222325, 0x100000001B3  # FNV-1a


def _name_code(name: str) -> int:
    code = _HASH_START
    for byte in name.encode():
        code = (code ^ byte) * _HASH_FACTOR & 0xFFFFFFFFFFFFFFFF
    return code


def _kinds_by_code() -> tuple[UInt64Array, Int64Array]:
    kinds: dict[int, int] = {}
    for kind, names in _TAGS_OF_KIND.items():
        for name in names.split():
            kinds[_name_code(name)] = kinds.get(_name_code(name), 0) | kind
    codes = sorted(kinds)
    return np.array(codes, np.uint64), np.array([kinds[code] for code in codes], np.int64)


_CODES, _KINDS_OF_CODES = _kinds_by_code()
_P, _A, _LI, _TR, _FORM, _BUTTON, _SELECT = map(_name_code, ("p", "a", "li", "tr", "form", "button", "select"))
_ENDED, _MARK = 0, 1  # in the place of names: what no end tag ends any more; what hides the formats listed before it

# Places in `state`: how many elements are open and listed for being made anew, and what was counted.
_DEPTH, _LISTED, _STEPS, _COPIES, _N_FOREIGN, _N_OPTIONS = range(6)


def is_affordable(page: bytes) -> bool:
    """Tell whether the parser can be given a page: it would neither stall nor fill the memory.

    Examples
    --------
    >>> is_affordable(b"<ul><li>one<li>two</ul>"), is_affordable(b"<span>" * 100_000)
    (True, True)
    >>> is_affordable(b"<div>" * 100_000)
    False
    """
    if len(page) <= _FEW_TAGS:
        return True
    content = np.frombuffer(page, np.uint8)
    if _count_tags(content) <= _FEW_TAGS and (len(page) <= _FEW_BYTES or _count_breaks(content) <= _FEW_ATTRIBUTES):
        return True
    return bool(_follow_tags(content, _CODES, _KINDS_OF_CODES))


def check_cost(name: str, page: bytes) -> None:
    """Refuse a page that the parser cannot be given."""
    if not is_affordable(page):
        raise PageError(
            f"{name} would take the HTML parser too much time or memory: thousands of its tags are never closed, or of "
            "its attributes are in one tag; give a page without them"
        )


def affordable_pages(pages: PageBatch, skipped: SkippedLog, reason: str) -> PageBatch:
    """Return a batch without the pages that the parser cannot be given; those are noted with the reason.

    Examples
    --------
    >>> pages, skipped = PageBatch(), SkippedLog()
    >>> pages.append(b"<div>" * 100_000, "http://a.example/", None, 200, "a.warc", 70, 900, None)
    >>> len(affordable_pages(pages, skipped, "too-costly")), skipped.offset
    (0, [70])
    """
    kept = [is_affordable(page) for page in pages.html]
    if all(kept):
        return pages
    for warc, offset, is_kept in zip(pages.warc, pages.offset, kept, strict=True):
        if not is_kept:
            skipped.add(reason, warc, offset)
    return pages.select(kept)


@kernel
def _count_tags(page: _Bytes) -> np.int32:
    """Return how many tags there are at most. A 32-bit sum of nothing else takes eight bytes at a time and more."""
    n_tags = np.int32(0)
    for i in range(len(page)):
        n_tags += np.int32(page[i] == 60)  # <
    return n_tags


@kernel
def _count_breaks(page: _Bytes) -> np.int32:
    """Return how many attributes there are at most: white space, a slash or a value stands before each."""
    n_breaks = np.int32(0)
    for i in range(len(page)):
        byte = page[i]
        n_breaks += np.int32((byte <= 32) | (byte == 47) | (byte == 61))
    return n_breaks


@kernel
def _follow_tags(page: _Bytes, codes: UInt64Array, kinds_of_codes: Int64Array) -> bool:
    """Read the tags of a page and follow the open elements; False as soon as a bound is passed."""
    capacity = min(_DEEPEST, 2 * int(_count_tags(page)) + 8)  # what was ended alone may stay beside what is open
    names, kinds = np.empty(capacity, np.uint64), np.empty(capacity, np.int64)
    entries = np.empty(capacity, np.int64)  # of a formatting element or a marker: its place in the list
    listed, looks = np.empty(capacity, np.uint64), np.empty(capacity, np.uint64)
    weights, is_open = np.empty(capacity, np.int64), np.empty(capacity, np.bool_)
    state = np.zeros(6, np.int64)
    at = 0
    while at < len(page):
        start = at
        while at < len(page) and page[at] != 60:
            at += 1
        if at > start:
            _make_anew(names, kinds, entries, listed, weights, is_open, state)
        is_end = at + 1 < len(page) and page[at + 1] == 47
        first = at + 2 if is_end else at + 1
        if first >= len(page) or not 97 <= page[first] | 32 <= 122:
            at = _skip_other(page, at)
            continue
        code, n_attributes, closes_itself, at = _read_tag(page, first)
        state[_STEPS] += n_attributes * n_attributes // 2
        found = np.searchsorted(codes, code)
        kind = kinds_of_codes[found] if found < len(codes) and codes[found] == code else 0
        if is_end:
            _end(code, kind, names, kinds, entries, listed, is_open, state)
        elif not kind & _IGNORED:
            if not _end_before(code, kind, names, kinds, entries, listed, is_open, state):
                continue
            if kind & _RAW and state[_N_FOREIGN] == 0:
                at = _skip_raw(page, at, first)
                continue
            if not kind & _SPECIAL or code == np.uint64(_BUTTON) or kind & (_FOREIGN | _MARKER):
                _make_anew(names, kinds, entries, listed, weights, is_open, state)
            if kind & _VOID or (closes_itself and kind == 0 and state[_N_FOREIGN]):
                continue
            entry = -1
            if kind & (_FORMATTING | _MARKER):
                look = _hash_bytes(page[first:at]) if kind & _FORMATTING else code
                entry = _list(code if kind & _FORMATTING else np.uint64(_MARK), look, listed, looks, state)
                weights[entry], is_open[entry] = 1 + n_attributes, True
            _push(code, kind, entry, names, kinds, entries, state)
        if state[_STEPS] > _MOST_STEPS or state[_COPIES] > _MOST_COPIES or state[_LISTED] > capacity - 2:
            return False
    return True


@kernel
def _end_before(
    code: np.uint64,
    kind: int,
    names: UInt64Array,
    kinds: Int64Array,
    entries: Int64Array,
    listed: UInt64Array,
    is_open: _Flags,
    state: Int64Array,
) -> bool:
    """End what the start of an element ends; False where it starts nothing: parts of a table stand in one."""
    if kind & _TABLE_PART:
        place, part = state[_DEPTH] - 1, -1
        while place >= 0 and not kinds[place] & _TABLE:
            if names[place] == code or kinds[place] & kind & _CELL or (kinds[place] & _CELL and code == np.uint64(_TR)):
                part = place
            place -= 1
        state[_STEPS] += state[_DEPTH] - place
        if part >= 0:
            _pop_to(part, kinds, entries, listed, is_open, state)
        return bool(place >= 0)
    if kind & _OPTION:
        state[_N_OPTIONS] += 1
        state[_STEPS] += 2 * state[_N_OPTIONS]
        if state[_DEPTH] and names[state[_DEPTH] - 1] == code:
            _pop_to(state[_DEPTH] - 1, kinds, entries, listed, is_open, state)
    if code == np.uint64(_SELECT):
        state[_N_OPTIONS] = 0
    if kind & _ITEM:
        place = state[_DEPTH] - 1
        while place >= 0 and (kinds[place] & _LOOSE or not kinds[place] & _SPECIAL):
            place -= 1
        state[_STEPS] += state[_DEPTH] - place
        if place >= 0 and kinds[place] & _ITEM and (names[place] == np.uint64(_LI)) == (code == np.uint64(_LI)):
            _pop_to(place, kinds, entries, listed, is_open, state)
    if kind & _ENDS_P:
        _end(np.uint64(_P), _SPECIAL, names, kinds, entries, listed, is_open, state)
    if code == np.uint64(_A):
        _end_listed(code, names, kinds, entries, listed, is_open, state)
    return True


@kernel
def _end(
    code: np.uint64,
    kind: int,
    names: UInt64Array,
    kinds: Int64Array,
    entries: Int64Array,
    listed: UInt64Array,
    is_open: _Flags,
    state: Int64Array,
) -> None:
    """End the innermost open element of a name, and all inside of it, where no boundary hides it."""
    if kind & _FORMATTING and _end_listed(code, names, kinds, entries, listed, is_open, state):
        return
    if kind & (_TABLE | _TABLE_PART):
        boundary = _TABLE
    elif kind & (_SPECIAL | _RAW):
        boundary = _SCOPE
    else:
        boundary = _SPECIAL
    place = state[_DEPTH] - 1
    while place >= 0 and names[place] != code:
        if kinds[place] & boundary or (names[place] == np.uint64(_BUTTON) and code == np.uint64(_P)):
            state[_STEPS] += state[_DEPTH] - place
            return
        place -= 1
    state[_STEPS] += state[_DEPTH] - place
    if place >= 0 and code == np.uint64(_FORM) and place < state[_DEPTH] - 1:
        names[place], kinds[place] = np.uint64(_ENDED), 0  # what is open inside of it stays so
    elif place >= 0:
        _pop_to(place, kinds, entries, listed, is_open, state)


@kernel
def _end_listed(
    code: np.uint64,
    names: UInt64Array,
    kinds: Int64Array,
    entries: Int64Array,
    listed: UInt64Array,
    is_open: _Flags,
    state: Int64Array,
) -> bool:
    """End a formatting element, alone where a block is open inside of it; False where none of that name is listed."""
    entry = state[_LISTED] - 1
    while entry >= 0 and listed[entry] != code and listed[entry] != np.uint64(_MARK):
        entry -= 1
    state[_STEPS] += state[_LISTED] - entry
    if entry < 0 or listed[entry] != code:
        return False
    if is_open[entry]:
        place, n_blocks = state[_DEPTH] - 1, 0
        while entries[place] != entry:
            if kinds[place] & _SCOPE:
                return True
            n_blocks += kinds[place] & _SPECIAL != 0
            place -= 1
        if n_blocks == 0:
            state[_STEPS] += state[_DEPTH] - place
            _pop_to(place, kinds, entries, listed, is_open, state)
        else:  # the adoption agency goes through all inside of it, eight times at most, and makes four anew each time
            state[_STEPS] += min(n_blocks, 8) * (state[_DEPTH] - place) * (1 + state[_LISTED])
            state[_COPIES] += 4 * min(n_blocks, 8)
            if n_blocks > 8:
                return True
            names[place], kinds[place], entries[place], is_open[entry] = np.uint64(_ENDED), 0, -1, False
    listed[entry] = np.uint64(_ENDED)
    while state[_LISTED] and listed[state[_LISTED] - 1] == np.uint64(_ENDED):
        state[_LISTED] -= 1
    return True


@kernel
def _make_anew(
    names: UInt64Array,
    kinds: Int64Array,
    entries: Int64Array,
    listed: UInt64Array,
    weights: Int64Array,
    is_open: _Flags,
    state: Int64Array,
) -> None:
    """Open those formatting elements again that the end of a block ended, not an end tag of their own."""
    first = state[_LISTED]
    while first and listed[first - 1] != np.uint64(_MARK) and not is_open[first - 1]:
        first -= 1
    for entry in range(first, state[_LISTED]):
        if listed[entry] != np.uint64(_ENDED):
            state[_COPIES] += weights[entry]
            is_open[entry] = True
            _push(listed[entry], _FORMATTING, entry, names, kinds, entries, state)


@kernel
def _list(name: np.uint64, look: np.uint64, listed: UInt64Array, looks: UInt64Array, state: Int64Array) -> int:
    """List a formatting element or a marker; of formats that look alike three stay, and the first of four goes."""
    end = int(state[_LISTED])
    if name != np.uint64(_MARK):
        n_alike, n_listed, earliest, entry = 0, 0, -1, end - 1
        while entry >= 0 and listed[entry] != np.uint64(_MARK):
            n_listed += listed[entry] != np.uint64(_ENDED)
            if listed[entry] == name and looks[entry] == look:
                n_alike, earliest = n_alike + 1, entry
            entry -= 1
        state[_STEPS] += (
            3 * n_listed + (end - entry) // 8
        )  # what is ended is gone from the parser's list, not from this
        if n_alike >= 3:
            listed[earliest] = np.uint64(_ENDED)
    listed[end], looks[end] = name, look
    state[_LISTED] += 1
    return end


@kernel
def _push(
    name: np.uint64,
    kind: int,
    entry: int,
    names: UInt64Array,
    kinds: Int64Array,
    entries: Int64Array,
    state: Int64Array,
) -> None:
    depth = state[_DEPTH]
    if depth == len(names):
        state[_STEPS] += _MOST_STEPS + 1
        return
    names[depth], kinds[depth], entries[depth] = name, kind, entry
    state[_DEPTH] += 1
    state[_N_FOREIGN] += kind & _FOREIGN != 0


@kernel
def _pop_to(
    place: int, kinds: Int64Array, entries: Int64Array, listed: UInt64Array, is_open: _Flags, state: Int64Array
) -> None:
    """Close the open elements from a place on, and with a marker what was listed after it."""
    for i in range(state[_DEPTH] - 1, place - 1, -1):
        if kinds[i] & _MARKER:
            state[_LISTED] = min(state[_LISTED], entries[i])
        elif entries[i] >= 0:
            is_open[entries[i]] = False
        state[_N_FOREIGN] -= kinds[i] & _FOREIGN != 0
    state[_DEPTH] = place


@kernel
def _hash_bytes(content: _Bytes) -> np.uint64:
    code = np.uint64(_HASH_START)
    for byte in content:
        code = (code ^ np.uint64(byte)) * np.uint64(_HASH_FACTOR)
    return code


@kernel
def _read_tag(page: _Bytes, at: int) -> tuple[np.uint64, int, bool, int]:
    """Return the code of a tag's name, how many attributes it has, whether it closes itself, and where it ends."""
    code = np.uint64(_HASH_START)
    while at < len(page) and page[at] > 32 and page[at] != 47 and page[at] != 62:
        byte = np.uint64(page[at] | 32 if 65 <= page[at] <= 90 else page[at])
        code = (code ^ byte) * np.uint64(_HASH_FACTOR)
        at += 1
    n_attributes = 0
    while at < len(page) and page[at] != 62:
        if page[at] <= 32 or page[at] == 47:
            at += 1
            continue
        n_attributes += 1
        at += 1
        while at < len(page) and page[at] > 32 and page[at] != 47 and page[at] != 62 and page[at] != 61:
            at += 1
        after = at
        while after < len(page) and page[after] <= 32:
            after += 1
        if after < len(page) and page[after] == 61:
            at = _skip_value(page, after + 1)
    return code, n_attributes, page[min(at, len(page)) - 1] == 47, at + 1


@kernel
def _skip_value(page: _Bytes, at: int) -> int:
    """Return where the value of an attribute ends."""
    while at < len(page) and page[at] <= 32:
        at += 1
    if at < len(page) and (page[at] == 34 or page[at] == 39):
        quote = page[at]
        at += 1
        while at < len(page) and page[at] != quote:
            at += 1
        return at + 1
    while at < len(page) and page[at] > 32 and page[at] != 62:
        at += 1
    return at


@kernel
def _skip_other(page: _Bytes, at: int) -> int:
    """Return where a comment, an instruction or a doctype ends, or where to go on after a "<" that is text."""
    following = page[at + 1] if at + 1 < len(page) else 0
    if following == 33 and at + 3 < len(page) and page[at + 2] == 45 and page[at + 3] == 45:  # !--
        at += 4
        if at < len(page) and page[at] == 62:
            return at + 1
        while at < len(page):
            if page[at] == 62 and page[at - 1] == 45 and page[at - 2] == 45:
                break
            if page[at] == 62 and page[at - 1] == 33 and page[at - 2] == 45 and page[at - 3] == 45:
                break
            at += 1
    elif following == 33 or following == 47 or following == 63:  # ! / ?
        while at < len(page) and page[at] != 62:
            at += 1
    return at + 1


@kernel
def _skip_raw(page: _Bytes, at: int, name: int) -> int:
    """Return where the end tag begins of an element whose content is text; `name` is where its name begins."""
    length = 0
    while 97 <= page[name + length] | 32 <= 122:
        length += 1
    while at + length + 2 < len(page):
        if page[at] == 60 and page[at + 1] == 47:
            same = 0
            while same < length and page[at + 2 + same] | 32 == page[name + same] | 32:
                same += 1
            if same == length:
                after = page[at + 2 + length]
                if after <= 32 or after == 47 or after == 62:
                    return at
        at += 1
    return len(page)

"""How likely some records are the list a person would name: by what they cover, and how much like records they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treesim_dask.records.page import Page
from treesim_dask.types import FloatArray, Int64Array

_MENU_TAGS = frozenset({"a", "button", "nav", "select"})
_MENU_WEIGHT = 0.1  # of a letter in a link against one outside: menus are nothing but links
_FEW = 3  # so many records count half: columns and parts of a page come in twos, threes and fours
_LARGE = 50  # elements of a record: one of so many counts half, since it rather is a part of the page
_EQUAL = 0.7  # share of the table that is filled where records are so alike that lists inside them come after them
_PROSE_WEIGHT = 0.2  # of plain paragraphs: text that runs on


def in_menu(page: Page) -> NDArray[np.bool_]:
    """Tell which elements lie in links, buttons and choices. Shape (n_elements,).

    Examples
    --------
    >>> from treesim_dask.records.page import read_page
    >>> in_menu(read_page(b"<p>one <a>two <i>three</i></a> four</p>", [])).tolist()
    [False, False, False, False, True, True]
    """
    begun = [element for element, name in enumerate(page.names) if name in _MENU_TAGS]
    ended = [page.ends[element] for element in begun]
    n = len(page.names) + 1
    n_around = np.cumsum(np.bincount(begun, minlength=n) - np.bincount(ended, minlength=n))
    is_inside: NDArray[np.bool_] = n_around[:-1] > 0
    return is_inside


def worth(
    coverage: FloatArray,
    n_records: Int64Array,
    n_elements: Int64Array,
    n_siblings: Int64Array,
    text_share: FloatArray,
    share_filled: FloatArray,
    is_prose: NDArray[np.bool_],
) -> FloatArray:
    """Weigh the coverage of regions by what tells records from menus, parts of the page and running text.

    Parameters
    ----------
    coverage
        Share of the page in the records of each region.
    n_records, n_elements
        How many they are, and of how many elements altogether.
    n_siblings
        Most elements of one record side by side: several are a pattern that may be chance.
    text_share
        Share of their text outside links, 0 for no text at all.
    share_filled
        Share of the cells of their table that have a value: few if the records differ.
    is_prose
        Whether they are paragraphs.

    Examples
    --------
    >>> items, columns = worth(
    ...     coverage=np.array([0.3, 0.7]), n_records=np.array([20, 3]), n_elements=np.array([90, 210]),
    ...     n_siblings=np.array([1, 1]), text_share=np.array([0.8, 0.7]), share_filled=np.array([0.9, 0.2]),
    ...     is_prose=np.array([False, False]),
    ... ).tolist()
    >>> items > columns
    True
    """
    is_text = _MENU_WEIGHT + (1 - _MENU_WEIGHT) * text_share
    are_many = n_records / (n_records + _FEW)
    are_alike = np.sqrt(share_filled / n_siblings)
    are_small = 1 / (1 + (n_elements / n_records / _LARGE) ** 2)
    return coverage * is_text * are_many * are_alike * are_small * np.where(is_prose, _PROSE_WEIGHT, 1)


def put_parts_behind(worths: FloatArray, outer: Int64Array, share_filled: FloatArray) -> FloatArray:
    """Return the worths so that no list inside records all alike is worth more than those: they are the records.

    Parameters
    ----------
    worths, share_filled
        Of each region; one that holds others comes before them.
    outer
        The region whose records hold this one, or -1.

    Examples
    --------
    >>> put_parts_behind(np.array([0.2, 0.3]), np.array([-1, 0]), np.array([0.9, 1.0])).tolist()
    [0.2, 0.2]
    """
    worths = worths.copy()
    for region in np.flatnonzero(outer >= 0):
        if share_filled[outer[region]] >= _EQUAL:
            worths[region] = min(worths[region], worths[outer[region]])
    return worths

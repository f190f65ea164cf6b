"""The values that vary from record to record: a column per leaf, a row per record.

Values of different records belong to one column if their elements have the same path of tags and classes below the
record, and the same number among those of the same path. Classes found in one record only name that record, not a
column, and do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treesim_dask.kernels import kernel
from treesim_dask.mixing import mix64
from treesim_dask.records.page import Page
from treesim_dask.types import Int64Array, UInt64Array, offsets_of

_KINDS = ("", "href", "src")  # the text of an element, or an attribute
_MAX_CLASSES = 3  # of an element: the ones after these seldom say what it is
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Fields:
    """The table of some records.

    Parameters
    ----------
    columns
        Column name to one value a record, empty where a record has none; only those not the same in all records.
        They come in document order.
    share_filled
        Of all cells of the table, columns that do not vary included, those with a value: how alike the records are.
    """

    columns: dict[str, list[str]]
    share_filled: float


class FieldReader:
    """All values of a page, and the classes of its elements by number; made once for all regions of the page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        pair_numbers: dict[tuple[str, str], int] = {}
        self._pairs: dict[int, list[int]] = {
            element: [
                pair_numbers.setdefault((page.names[element], name), len(pair_numbers))
                for name in classes[:_MAX_CLASSES]
            ]
            for element, classes in enumerate(page.classes)
            if classes
        }
        self._n_pairs = len(pair_numbers)
        self._flat_pairs = np.array([pair for pairs in self._pairs.values() for pair in pairs], np.int64)
        n_pairs = np.zeros(len(page.names), np.int64)
        n_pairs[list(self._pairs)] = [len(pairs) for pairs in self._pairs.values()]
        self._pair_indptr = offsets_of(n_pairs)
        tag_numbers = {name: number for number, name in enumerate(dict.fromkeys(page.names))}
        self._tags = np.array([tag_numbers[name] for name in page.names], np.int64)
        self._parents = np.array(page.parents, np.int64)
        found = [(element, 0, text) for element, text in enumerate(page.texts) if text]
        for kind, attribute in enumerate(_KINDS[1:], start=1):
            found += [
                (element, kind, value)
                for element, attributes in enumerate(page.attributes)
                if attribute in attributes and (value := (attributes[attribute] or "").strip())
            ]
        found.sort()
        self._owners = [element for element, _, _ in found]
        self._kinds = [kind for _, kind, _ in found]
        self._values = np.array([value for _, _, value in found], object)
        numbers: dict[str, int] = {}
        self._value_numbers = np.array([numbers.setdefault(value, len(numbers)) for _, _, value in found], np.int64)
        self._value_kinds = np.array(self._kinds, np.int64)
        self._value_indptr = offsets_of(np.bincount(np.array(self._owners, np.int64), minlength=len(page.names)))

    def read(self, spans: Int64Array) -> Fields:
        """Read texts, link targets and image sources out of records given as element ranges, shape (n_records, 2)."""
        rows, columns, values, heads, is_varying, is_shared = _tabulate(
            spans, self._parents, self._tags, self._pair_indptr, self._flat_pairs, self._n_pairs,
            self._value_indptr, self._value_kinds, self._value_numbers,
        )  # fmt: skip
        varying = np.flatnonzero(is_varying)
        table = np.full((len(heads), len(spans)), "", object)
        table[columns, rows] = self._values[values]
        names = self._column_names(heads[varying].tolist(), set(np.flatnonzero(is_shared).tolist()))
        share_filled = len(values) / max(1, len(heads) * len(spans))
        return Fields(dict(zip(names, table[varying].tolist(), strict=True)), share_filled)

    def _column_names(self, heads: Sequence[int], shared: set[int]) -> list[str]:
        """Name each column by its element, a link's attribute, and a number where names would be the same."""
        used: dict[str, int] = {}
        names = []
        for value in heads:
            element = self._owners[value]
            name = self._page.names[element]
            if element in self._pairs:
                classes = zip(self._page.classes[element], self._pairs[element], strict=False)
                name += "".join(f".{name}" for name, pair in classes if pair in shared)
            if self._kinds[value]:
                name = f"{name} {_KINDS[self._kinds[value]]}"
            used[name] = number = used.get(name, 0) + 1
            names.append(name if number == 1 else f"{name} {number}")
        return names


def record_fields(page: Page, spans: Sequence[tuple[int, int]]) -> dict[str, list[str]]:
    """Read what varies out of the records of one region.

    Examples
    --------
    >>> from treesim_dask.records.page import read_page
    >>> record_fields(read_page(b"<p>one <a href=1>more</a><p>two <a href=2>more</a>", []), [(3, 5), (5, 7)])
    {'p': ['one', 'two'], 'a href': ['1', '2']}
    """
    return FieldReader(page).read(np.array(spans, np.int64).reshape(-1, 2)).columns


@kernel
def _tabulate(
    spans: Int64Array, parents: Int64Array, tags: Int64Array, pair_indptr: Int64Array, pairs: Int64Array,
    n_pairs: int, value_indptr: Int64Array, value_kinds: Int64Array, value_numbers: Int64Array,
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, NDArray[np.bool_], NDArray[np.bool_]]:  # fmt: skip
    """Return row, column and value of each cell; the first value of each column, whether it varies; shared classes."""
    is_shared = _shared_pairs(spans, pair_indptr, pairs, n_pairs)
    n_elements, n_values = 0, 0
    for start, end in spans:
        n_elements += end - start
        n_values += value_indptr[end] - value_indptr[start]
    rows, columns, values = np.empty((3, n_values), np.int64)
    heads = np.empty(n_values, np.int64)
    n_filled = np.zeros(n_values, np.int64)
    is_varying = np.zeros(n_values, np.bool_)
    size = 4 << int(np.log2(n_elements + n_values + 1))  # of the tables: at most half full
    path_keys, path_counts = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    column_keys, column_numbers = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    paths = np.empty(n_elements, np.uint64)
    n_paths, n_cells, n_columns = 0, 0, 0
    for row in range(len(spans)):
        start, end = spans[row]
        for element in range(start, end):
            path = np.uint64(0) if parents[element] < start else paths[n_paths + parents[element] - start]
            path = mix64(path * np.uint64(31) + np.uint64(tags[element]) + _ONE)
            for i in range(pair_indptr[element], pair_indptr[element + 1]):
                if is_shared[pairs[i]]:
                    path = mix64(path + np.uint64(pairs[i]) + _ONE)
            paths[n_paths + element - start] = path
            slot = _find_slot(path_keys, mix64(path ^ (np.uint64(row) << np.uint64(32))))
            path_counts[slot] += 1
            for value in range(value_indptr[element], value_indptr[element + 1]):
                key = mix64(path + np.uint64(3 * path_counts[slot] + value_kinds[value]))
                place = _find_slot(column_keys, key)
                if column_numbers[place] == 0:
                    heads[n_columns] = value
                    n_columns += 1
                    column_numbers[place] = n_columns
                column = column_numbers[place] - 1
                is_varying[column] |= value_numbers[value] != value_numbers[heads[column]]
                n_filled[column] += 1
                rows[n_cells], columns[n_cells], values[n_cells] = row, column, value
                n_cells += 1
        n_paths += end - start
    is_varying |= n_filled < len(spans)
    return rows, columns, values, heads[:n_columns], is_varying[:n_columns], is_shared


@kernel
def _shared_pairs(spans: Int64Array, pair_indptr: Int64Array, pairs: Int64Array, n_pairs: int) -> NDArray[np.bool_]:
    """Tell which pairs of tag and class are found in several records."""
    first_rows = np.full(n_pairs, -1, np.int64)
    is_shared = np.zeros(n_pairs, np.bool_)
    for row in range(len(spans)):
        for i in range(pair_indptr[spans[row, 0]], pair_indptr[spans[row, 1]]):
            if first_rows[pairs[i]] < 0:
                first_rows[pairs[i]] = row
            is_shared[pairs[i]] |= first_rows[pairs[i]] != row
    return is_shared


@kernel
def _find_slot(keys: UInt64Array, key: np.uint64) -> int:
    """Return where a key stands in an open-addressing table, putting it there if it is new; 0 marks a free slot."""
    mask = len(keys) - 1
    slot = np.int64(key & np.uint64(mask))
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    keys[slot] = key
    return int(slot)

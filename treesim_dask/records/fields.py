"""The values that vary from record to record: a column per leaf, a row per record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from treesim_dask.records.page import Page

_LINKS = ("href", "src")


def record_fields(page: Page, spans: Sequence[tuple[int, int]]) -> dict[str, list[str]]:
    """Read texts, link targets and image sources out of the records; leave out what is the same in all.

    Values of different records belong to one column if their elements have the same path of tags and classes below
    the record, and the same number among those of the same path.

    Parameters
    ----------
    page
        The page.
    spans
        Shape (n_records, 2): element ranges.

    Returns
    -------
    dict
        Column name to one value a record, empty where a record has none. Columns come in document order.
    """
    shared = _shared_classes(page, spans)
    rows = [dict(_read_record(page, span, shared)) for span in spans]
    columns: dict[tuple[tuple[str, ...], int, str], None] = {}
    for row in rows:
        columns.update(dict.fromkeys(row))
    varying = [column for column in columns if len({row.get(column, "") for row in rows}) > 1]
    names = _column_names(varying)
    return {name: [row.get(column, "") for row in rows] for column, name in zip(varying, names, strict=True)}


def _shared_classes(page: Page, spans: Sequence[tuple[int, int]]) -> set[tuple[str, str]]:
    """Return the (tag, class) pairs found in several records: others name one record, not a column."""
    counts: Counter[tuple[str, str]] = Counter()
    for start, end in spans:
        counts.update({pair for element in range(start, end) for pair in _tag_classes(page, element)})
    return {pair for pair, count in counts.items() if count > 1}


def _tag_classes(page: Page, element: int) -> list[tuple[str, str]]:
    return [(page.names[element], name) for name in page.classes[element]]


def _read_record(
    page: Page, span: tuple[int, int], shared: set[tuple[str, str]]
) -> Iterator[tuple[tuple[tuple[str, ...], int, str], str]]:
    """Yield (path, number among equal paths, kind) and value of each leaf of one record."""
    start, end = span
    paths: dict[int, tuple[str, ...]] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for element in range(start, end):
        label = page.names[element]
        label += "".join(f".{name}" for tag, name in _tag_classes(page, element)[:3] if (tag, name) in shared)
        above = paths.get(page.parents[element])
        path = paths[element] = (label,) if above is None else (*above, label)
        seen[path] += 1
        attributes = page.attributes[element]
        values = {"": page.texts[element], **{kind: (attributes.get(kind) or "").strip() for kind in _LINKS}}
        for kind, value in values.items():
            if value:
                yield (path, seen[path], kind), value


def _column_names(columns: Sequence[tuple[tuple[str, ...], int, str]]) -> list[str]:
    """Name each column by its element, a link's attribute, and a number where names would be the same."""
    used: Counter[str] = Counter()
    names = []
    for path, _, kind in columns:
        name = f"{path[-1]} {kind}".strip()
        used[name] += 1
        names.append(name if used[name] == 1 else f"{name} {used[name]}")
    return names

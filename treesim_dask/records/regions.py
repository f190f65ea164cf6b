"""The repeated records of a page for a person to see: where they are, how to select them, what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treesim_dask.config import DEFAULT_SPLICED_TAGS
from treesim_dask.dom.records import RecordRegions, find_regions
from treesim_dask.dom.vocabulary import tag_id
from treesim_dask.records.fields import record_fields
from treesim_dask.records.page import Page, read_page, text_of
from treesim_dask.records.selectors import select_exactly
from treesim_dask.types import Int64Array

SAMPLE_LENGTH = 80
_CELL_TAGS = (tag_id("td"), tag_id("th"))
_MIN_CELL_SIZE = 3  # elements: a cell with an image and a caption is an item of a grid, not a field of a row


@dataclass(frozen=True, slots=True)
class RecordRegion:
    """Repeated records of one kind.

    Parameters
    ----------
    n_records
        How many.
    css, xpath
        Each selects the first element of every record and nothing else; the whole record where a record is one
        element. The XPath is for the HTML5 tree of the page, as browsers build it.
    coverage
        Share of the page's elements, spliced ones not counted, that lie in the records.
    n_siblings
        Most elements that stand side by side in one record: 1 where each record is one element.
    sample
        Beginning of the text of the first record that has any.
    spans
        Shape (n_records, 2): the elements of each record, first and one past the last, in document order.
    outer
        Number of the region, in the same list, whose records hold this one; None for none.
    fields
        What varies from record to record, a value per record: texts, link targets and image sources.
    """

    n_records: int
    css: str
    xpath: str
    coverage: float
    n_siblings: int
    sample: str
    spans: tuple[tuple[int, int], ...]
    outer: int | None
    fields: dict[str, list[str]]


def find_records(
    html: bytes,
    *,
    min_records: int = 3,
    similarity: float = 0.6,
    min_coverage: float = 0.01,
    spliced_tags: Sequence[str] = DEFAULT_SPLICED_TAGS,
) -> list[RecordRegion]:
    """Find the repeated records of a page, the regions that cover most of it first.

    Parameters
    ----------
    html
        The page, as bytes an HTML parser reads.
    min_records
        Records a region has at least.
    similarity
        How similar two records must be, from above 0 to 1: the Dice coefficient of their binary branches.
    min_coverage
        Share of the page that a region covers at least.
    spliced_tags
        Tags that do not count as structure.

    Examples
    --------
    >>> [region] = find_records(b"<ul><li><a href=/1>One</a><li><a href=/2>Two</a><li><a href=/3>Three</a></ul>")
    >>> region.n_records, region.css, region.xpath, region.sample
    (3, 'body > ul:nth-child(1) > li', '//body/*[1][self::ul]/li', 'One')
    >>> region.fields
    {'a': ['One', 'Two', 'Three'], 'a href': ['/1', '/2', '/3']}
    """
    page = read_page(html, spliced_tags)
    found = find_regions(
        page.tags, page.depths, min_records=min_records, similarity=similarity, kinds=_class_numbers(page)
    )
    body = int(np.argmax(page.tags == tag_id("body")))  # links and metadata in the head are nothing to look at
    chosen: dict[int, RecordRegion] = {}
    for number in range(len(found)):
        in_body = found.starts[found.indptr[number]] >= body
        covers = found.n_covered[number] >= min_coverage * len(page.tags)
        if in_body and covers and not _are_cells(page, found, number):
            outer = _nearest_chosen(found, number, chosen)
            region = _describe(page, found, number, outer)
            if region is not None:
                chosen[number] = region
    return list(chosen.values())


def _class_numbers(page: Page) -> Int64Array:
    """Number the nodes of the spliced tree by the first class that is no name of a single element, 0 for none."""
    numbers: dict[str, int] = {"": 0}
    kinds = np.zeros(len(page.kept), np.int64)
    for node, element in enumerate(page.kept.tolist()):
        names = (page.elements[element].attributes.get("class") or "").split()
        name = next((name for name in names if not any(character.isdigit() for character in name)), "")
        kinds[node] = numbers.setdefault(name, len(numbers))
    return kinds


def _nearest_chosen(found: RecordRegions, number: int, chosen: dict[int, RecordRegion]) -> int | None:
    """Return the place in the list of the innermost chosen region around this one."""
    outer = int(found.outer[number])
    while outer >= 0 and outer not in chosen:
        outer = int(found.outer[outer])
    return list(chosen).index(outer) if outer >= 0 else None


def _are_cells(page: Page, found: RecordRegions, number: int) -> bool:
    """Tell whether a region is the cells of a table whose rows are records: fields rather than records."""
    first, last = found.indptr[number], found.indptr[number + 1]
    is_cell = page.tags[found.starts[first]] in _CELL_TAGS
    return bool(found.outer[number] >= 0 and is_cell and found.n_covered[number] < _MIN_CELL_SIZE * (last - first))


def _describe(page: Page, found: RecordRegions, number: int, outer: int | None) -> RecordRegion | None:
    """Make a region out of node ranges; None where its records hold nothing to read or follow."""
    records = range(found.indptr[number], found.indptr[number + 1])
    tops = [_top_elements(page, found.starts[i], found.ends[i]) for i in records]
    spans = tuple((top[0], page.ends[top[-1]]) for top in tops)
    fields = record_fields(page, spans)
    if not fields:
        return None
    selector = select_exactly(page, [start for start, _ in spans])
    return RecordRegion(
        n_records=len(spans),
        css=selector.css(),
        xpath=selector.xpath(),
        coverage=float(found.n_covered[number] / len(page.tags)),
        n_siblings=max(len(top) for top in tops),
        sample=next((text for text in (text_of(page, *span) for span in spans) if text), "")[:SAMPLE_LENGTH],
        spans=spans,
        outer=outer,
        fields=fields,
    )


def _top_elements(page: Page, start: int, end: int) -> list[int]:
    """Return the elements of a record that lie in no other element of it."""
    tops = np.flatnonzero(page.depths[start:end] == page.depths[start]) + start
    return [int(number) for number in page.kept[tops]]

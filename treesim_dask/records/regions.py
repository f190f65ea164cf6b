"""The repeated records of a page for a person to see: where they are, how to select them, what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treesim_dask.config import DEFAULT_SPLICED_TAGS
from treesim_dask.dom.records import RecordRegions, find_regions
from treesim_dask.dom.vocabulary import tag_id
from treesim_dask.kernels import kernel
from treesim_dask.records.fields import FieldReader, Fields
from treesim_dask.records.page import Page, read_page, text_of, to_markup
from treesim_dask.records.paths import Paths
from treesim_dask.records.selectors import select_exactly
from treesim_dask.types import Int64Array, offsets_of

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
        Share of the page's elements (spliced ones not counted) or of its text that lies in the records, whichever is
        larger: a menu has many elements, a list of reviews much text.
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
    html: bytes | str,
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
        The page; bytes are decoded as a browser would, by what the page itself declares.
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
    page = read_page(to_markup(html), spliced_tags)
    found = find_regions(
        page.tags, page.depths, min_records=min_records, similarity=similarity, kinds=_class_numbers(page)
    )
    body = int(np.argmax(page.tags == tag_id("body")))
    letters = offsets_of(np.array([len(text) for text in page.texts], np.int64))
    element_ends = np.array(page.ends, np.int64)
    spans = {
        i: _element_spans(page, found, i, element_ends)
        for i in range(len(found))
        if _is_worth_a_look(page, found, i, body)
    }
    coverage = {i: max(found.n_covered[i] / len(page.tags), _text_share(letters, spans[i])) for i in spans}
    reader = FieldReader(page)
    fields = {i: reader.read(spans[i]) for i in spans if coverage[i] >= min_coverage}
    paths = Paths(page)
    chosen = sorted((i for i in fields if fields[i].columns), key=lambda i: -coverage[i])
    return [
        _describe(page, spans[i], coverage[i], fields[i], paths, _place_of_outer(found, i, chosen)) for i in chosen
    ]


def _describe(
    page: Page, spans: Int64Array, coverage: float, fields: Fields, paths: Paths, outer: int | None
) -> RecordRegion:
    pairs = tuple((start, end) for start, end in spans.tolist())
    selector = select_exactly(page, [start for start, _ in pairs], paths)
    return RecordRegion(
        n_records=len(pairs),
        css=selector.css(),
        xpath=selector.xpath(),
        coverage=float(coverage),
        n_siblings=max(_count_siblings(page, *span) for span in pairs),
        sample=next((text for text in (text_of(page, *span) for span in pairs) if text), "")[:SAMPLE_LENGTH],
        spans=pairs,
        outer=outer,
        fields=fields.columns,
    )


def _class_numbers(page: Page) -> Int64Array:
    """Number the nodes of the spliced tree by the first class that is no name of a single element, 0 for none."""
    numbers: dict[str, int] = {}
    n_kinds = 1
    kinds = np.zeros(len(page.names), np.int64)
    for element, classes in enumerate(page.classes):
        for name in classes:
            if name not in numbers:
                is_common = not any(character.isdigit() for character in name)
                numbers[name] = n_kinds if is_common else 0
                n_kinds += is_common
            if numbers[name]:
                kinds[element] = numbers[name]
                break
    return kinds[page.kept]


def _is_worth_a_look(page: Page, found: RecordRegions, number: int, body: int) -> bool:
    """Leave out what stands before the body, and the cells of a table whose rows are records."""
    first, last = found.indptr[number], found.indptr[number + 1]
    if found.starts[first] < body:
        return False
    is_cell = page.tags[found.starts[first]] in _CELL_TAGS
    is_small = found.n_covered[number] < _MIN_CELL_SIZE * (last - first)
    return not (found.outer[number] >= 0 and is_cell and is_small)


def _element_spans(page: Page, found: RecordRegions, number: int, element_ends: Int64Array) -> Int64Array:
    """Turn the node ranges of a region into ranges of the page's elements. Shape (n_records, 2)."""
    records = slice(found.indptr[number], found.indptr[number + 1])
    return _to_elements(found.starts[records], found.ends[records], page.kept, element_ends)


@kernel
def _to_elements(starts: Int64Array, ends: Int64Array, kept: Int64Array, element_ends: Int64Array) -> Int64Array:
    spans = np.empty((len(starts), 2), np.int64)
    for i in range(len(starts)):
        spans[i, 0] = kept[starts[i]]
        spans[i, 1] = element_ends[kept[starts[i] : ends[i]]].max()
    return spans


def _text_share(letters: Int64Array, spans: Int64Array) -> float:
    """Return the share of the page's letters in the records; `letters` are offsets of the elements' own texts."""
    return float((letters[spans[:, 1]] - letters[spans[:, 0]]).sum() / max(1, letters[-1]))


def _place_of_outer(found: RecordRegions, number: int, chosen: list[int]) -> int | None:
    """Return the place among the chosen of the innermost region around this one."""
    outer = int(found.outer[number])
    while outer >= 0 and outer not in chosen:
        outer = int(found.outer[outer])
    return chosen.index(outer) if outer >= 0 else None


def _count_siblings(page: Page, start: int, end: int) -> int:
    """Return how many elements of a record stand side by side."""
    n_siblings = 0
    while start < end:
        n_siblings += 1
        start = page.ends[start]
    return n_siblings

"""The repeated records of a page for a person to see: where they are, how to select them, what they hold."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treesim_dask.config import DEFAULT_SPLICED_TAGS
from treesim_dask.dom.records import RecordRegions, find_regions
from treesim_dask.dom.vocabulary import tag_id
from treesim_dask.kernels import kernel
from treesim_dask.records.fields import FieldReader
from treesim_dask.records.page import Page, read_page, text_of, to_markup
from treesim_dask.records.paths import Paths
from treesim_dask.records.ranking import in_menu, put_parts_behind, worth
from treesim_dask.records.selectors import select_exactly
from treesim_dask.types import FloatArray, Int64Array, offsets_of

SAMPLE_LENGTH = 80
_DIGIT = re.compile(r"\d")
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
    min_coverage: float = 0.003,
    spliced_tags: Sequence[str] = DEFAULT_SPLICED_TAGS,
) -> list[RecordRegion]:
    """Find the repeated records of a page, the regions most worth a look first (see `worth`).

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
    element_ends = np.array(page.ends, np.int64)
    spans = _to_elements(found.starts, found.ends, page.kept, element_ends)
    coverage, text_share = _measure(page, found, spans)
    n_siblings = np.maximum.reduceat(_count_siblings(spans, element_ends), found.indptr[:-1])
    records = [spans[start:end] for start, end in itertools.pairwise(found.indptr)]
    looked_at = np.flatnonzero(_are_worth_a_look(page, found) & (coverage >= min_coverage)).tolist()
    reader, paths = FieldReader(page), Paths(page)
    fields = {i: reader.read(records[i]) for i in looked_at}
    share_filled = np.zeros(len(found))
    share_filled[looked_at] = [fields[i].share_filled for i in looked_at]
    is_prose = page.tags[found.starts[found.indptr[:-1]]] == tag_id("p")
    n_records = np.diff(found.indptr)
    worths = worth(coverage, n_records, found.n_covered, n_siblings, text_share, share_filled, is_prose)
    worths = put_parts_behind(worths, found.outer, share_filled)
    chosen = sorted((i for i in looked_at if fields[i].columns), key=lambda i: -worths[i])
    outer = _places_of_outer(found, chosen)
    return [
        RecordRegion(
            n_records=len(records[i]),
            **_describe(page, records[i], paths),
            coverage=float(coverage[i]),
            n_siblings=int(n_siblings[i]),
            outer=outer[i],
            fields=fields[i].columns,
        )
        for i in chosen
    ]


def _describe(page: Page, spans: Int64Array, paths: Paths) -> dict[str, Any]:
    """Return where some records are, how they are selected, and the beginning of their text."""
    pairs = tuple((start, end) for start, end in spans.tolist())
    selector = select_exactly(page, [start for start, _ in pairs], paths)
    sample = next((text for text in (text_of(page, *span) for span in pairs) if text), "")[:SAMPLE_LENGTH]
    return {"css": selector.css(), "xpath": selector.xpath(), "sample": sample, "spans": pairs}


def _class_numbers(page: Page) -> Int64Array:
    """Number the nodes of the spliced tree by the first class that is no name of a single element, 0 for none."""
    numbers: dict[str, int] = {}
    n_kinds = 1
    kinds = np.zeros(len(page.names), np.int64)
    for element, classes in enumerate(page.classes):
        for name in classes:
            if name not in numbers:
                is_common = _DIGIT.search(name) is None
                numbers[name] = n_kinds if is_common else 0
                n_kinds += is_common
            if numbers[name]:
                kinds[element] = numbers[name]
                break
    return kinds[page.kept]


def _are_worth_a_look(page: Page, found: RecordRegions) -> NDArray[np.bool_]:
    """Leave out what stands before the body, and the cells of a table whose rows are records."""
    heads = found.starts[found.indptr[:-1]]
    are_cells = np.isin(page.tags[heads], _CELL_TAGS) & (found.outer >= 0)
    are_small = found.n_covered < _MIN_CELL_SIZE * np.diff(found.indptr)
    return (heads >= np.argmax(page.tags == tag_id("body"))) & ~(are_cells & are_small)


def _measure(page: Page, found: RecordRegions, spans: Int64Array) -> tuple[FloatArray, FloatArray]:
    """Return for each region its coverage and the share of its text outside links and the like."""
    lengths = np.array([len(text) for text in page.texts], np.int64)
    letters, in_menus = (
        np.add.reduceat(counts[spans[:, 1]] - counts[spans[:, 0]], found.indptr[:-1])
        for counts in (offsets_of(lengths), offsets_of(np.where(in_menu(page), lengths, 0)))
    )
    coverage = np.maximum(found.n_covered / len(page.tags), letters / max(1, lengths.sum()))
    return coverage, (letters - in_menus) / np.maximum(1, letters)


@kernel
def _to_elements(starts: Int64Array, ends: Int64Array, kept: Int64Array, element_ends: Int64Array) -> Int64Array:
    spans = np.empty((len(starts), 2), np.int64)
    for i in range(len(starts)):
        spans[i, 0] = kept[starts[i]]
        spans[i, 1] = element_ends[kept[starts[i] : ends[i]]].max()
    return spans


def _places_of_outer(found: RecordRegions, chosen: list[int]) -> dict[int, int | None]:
    """Return for each chosen region the place among the chosen of the innermost one around it."""
    places = {number: place for place, number in enumerate(chosen)}
    outer = {}
    for number in chosen:
        around = int(found.outer[number])
        while around >= 0 and around not in places:
            around = int(found.outer[around])
        outer[number] = places.get(around)
    return outer


@kernel
def _count_siblings(spans: Int64Array, element_ends: Int64Array) -> Int64Array:
    """Return how many elements of each record stand side by side."""
    n_siblings = np.zeros(len(spans), np.int64)
    for i in range(len(spans)):
        element = spans[i, 0]
        while element < spans[i, 1]:
            n_siblings[i] += 1
            element = element_ends[element]
    return n_siblings

"""Regions of records as text: a table to read, JSON for programs, CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from treesim_dask.errors import PageError
from treesim_dask.records.regions import RecordRegion

_LONGEST_SHOWN = 400


def format_regions(regions: Sequence[RecordRegion]) -> str:
    """Write one paragraph a region: count, coverage, sample of text, selectors.

    Examples
    --------
    >>> from treesim_dask.records import find_records
    >>> print(format_regions(find_records(b"<ul><li>One<li>Two<li>Three</ul>")))
    1  3 records, 100 % of the page: One
       css    body > ul:nth-child(1) > li
       xpath  //body/*[1][self::ul]/li
    """
    if not regions:
        return "no repeated records found"
    return "\n".join(_format_region(number, region) for number, region in enumerate(regions, start=1))


def _format_region(number: int, region: RecordRegion) -> str:
    inside = "" if region.outer is None else f", inside the records of {region.outer + 1}"
    side_by_side = "" if region.n_siblings == 1 else f", up to {region.n_siblings} elements each"
    indent = " " * (len(str(number)) + 2)
    return (
        f"{number}  {region.n_records} records, {region.coverage:.0%} of the page{side_by_side}{inside}: ".replace(
            "%", " %"
        )
        + f"{region.sample}\n{indent}css    {_shorten(region.css)}\n{indent}xpath  {_shorten(region.xpath)}"
    )


def _shorten(selector: str) -> str:
    """Cut what nobody reads: a selector that lists scattered records one by one."""
    if len(selector) <= _LONGEST_SHOWN:
        return selector
    return f"{selector[:_LONGEST_SHOWN]}... ({len(selector):,} characters: see --json)"


def regions_to_json(regions: Sequence[RecordRegion]) -> str:
    """Write all regions with the values of their records as JSON.

    Examples
    --------
    >>> from treesim_dask.records import find_records
    >>> [region] = json.loads(regions_to_json(find_records(b"<ul><li>One<li>Two<li>Three</ul>")))
    >>> region["n_records"], region["records"][0]
    (3, {'li': 'One'})
    """
    return json.dumps(
        [_to_plain(number, region) for number, region in enumerate(regions, 1)], indent=2, ensure_ascii=False
    )


def _to_plain(number: int, region: RecordRegion) -> dict[str, Any]:
    return {
        "region": number,
        "n_records": region.n_records,
        "coverage": round(region.coverage, 4),
        "css": region.css,
        "xpath": region.xpath,
        "n_siblings": region.n_siblings,
        "inside": None if region.outer is None else region.outer + 1,
        "sample": region.sample,
        "records": [dict(zip(region.fields, values, strict=True)) for values in _rows(region)],
    }


def region_to_csv(regions: Sequence[RecordRegion], number: int = 1) -> str:
    """Write the records of one region as CSV: a row a record, a column for each text, link or image that varies.

    Parameters
    ----------
    regions
        What `find_records` returned.
    number
        Which region, counted from 1.

    Examples
    --------
    >>> from treesim_dask.records import find_records
    >>> print(region_to_csv(find_records(b"<ul><li><a href=/1>One</a><li><a href=/2>Two</a><li>Three</ul>")))
    a,a href,li
    One,/1,
    Two,/2,
    ,,Three
    """
    if not 1 <= number <= len(regions):
        raise PageError(f"the page has {len(regions)} regions of records, got region {number}; give a number from 1")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(regions[number - 1].fields)
    writer.writerows(_rows(regions[number - 1]))
    return text.getvalue().rstrip("\n")


def _rows(region: RecordRegion) -> list[tuple[str, ...]]:
    return list(zip(*region.fields.values(), strict=True))

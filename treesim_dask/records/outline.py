"""A page with its records outlined: one file that loads nothing, to look at in a browser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from treesim_dask.records.page import read_page, to_markup
from treesim_dask.records.regions import RecordRegion

_COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#e377c2", "#8c564b")
# nothing from outside and no script runs, whatever the page holds: it may come from anywhere
_POLICY = (
    '<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
)
_BODY_TAG = re.compile(r"""<body(?:[^>"]|"[^"]*")*>""")
_STYLE = """
[data-region] { outline: 3px solid var(--region) !important; outline-offset: -2px; }
[data-record]::before { content: attr(data-record); background: var(--region); color: #fff;
  font: bold 11px/1.3 sans-serif; padding: 0 4px; margin-right: 4px; }
tr[data-record]::before { display: table-cell; }
#treesim-legend { all: initial; display: block; font: 13px/1.5 sans-serif; background: #fff; color: #000;
  border-bottom: 3px solid #000; padding: 8px; }
#treesim-legend div { all: initial; display: block; font: inherit; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
"""


def outline_records(html: bytes | str, regions: Sequence[RecordRegion], *, n_regions: int = 16) -> str:
    """Return the page as one HTML file with the records of its first `n_regions` regions outlined and numbered.

    Scripts are taken out, and a content security policy keeps the file from loading anything.

    Examples
    --------
    >>> from treesim_dask.records import find_records
    >>> page = b"<ul><li>One<li>Two<li>Three</ul>"
    >>> outline_records(page, find_records(page)).count('data-record="1.')
    3
    """
    page = read_page(to_markup(html), ())
    for number, region in reversed(list(enumerate(regions[:n_regions]))):
        for place, (start, end) in enumerate(region.spans):
            for element in _top_elements(page.parents, start, end):
                attributes = page.elements[element].attrs
                attributes["data-region"] = str(number + 1)
                attributes["style"] = f"--region:{_colour(number)};{attributes.get('style') or ''}"
            page.elements[start].attrs["data-record"] = f"{number + 1}.{place + 1}"
    for node in page.parser.css("script, base, meta[http-equiv], noscript, link, iframe"):
        node.decompose()
    body = page.parser.body
    return _insert(page.parser.html or "", (body and body.html) or "", _legend(regions[:n_regions]))


def _top_elements(parents: Sequence[int], start: int, end: int) -> list[int]:
    """Return the elements of a span whose parents lie outside it."""
    return [element for element in range(start, end) if parents[element] < start]


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _legend(regions: Sequence[RecordRegion]) -> str:
    lines = [
        f'<div><span style="background:{_colour(i)};color:#fff;padding:0 4px">{i + 1}</span> '
        f"{region.n_records} records, {region.coverage:.0%} of the page: <code>{escape(region.css)}</code></div>"
        for i, region in enumerate(regions)
    ]
    return f'<div id="treesim-legend">{"".join(lines) or "No repeated records found."}</div>'


def _insert(html: str, body: str, legend: str) -> str:
    """Put policy and style before all that comes from the page, and the legend at the top of its body."""
    start = html.rfind(body) if body else len(html)
    opening = _BODY_TAG.match(html, start)
    place = opening.end() if opening else start
    return f"<!DOCTYPE html>{_POLICY}<style>{_STYLE}</style>{html[:place]}{legend}{html[place:]}"

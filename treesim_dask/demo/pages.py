"""Synthetic pages: page `number` of a crawl depends on the seed and its number alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import escape
from random import Random

from treesim_dask.demo.sites import N_SITES, Site, make_site
from treesim_dask.demo.tables import N_ROWS, text_columns
from treesim_dask.demo.templates import Filling
from treesim_dask.demo.themes import Template, load_theme

_CRAWL_START = datetime(2026, 1, 5, tzinfo=UTC)
_PAGES_PER_SECOND = 5

# Pages with as many items and the same blocks as others of their site: lists cut at a fixed length, for instance.
_STANDARD_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class DemoPage:
    """A synthetic page as a server sends it.

    Parameters
    ----------
    number
        Its place in the crawl.
    url
        No two pages of a crawl have the same.
    template
        The label of its template: pages of one template are built the same way, on whatever site.
    site
        The website it belongs to.
    html
        The bytes of the page in its charset.
    content_type
        The HTTP header: it may name the charset or leave that to the page.
    date
        When it was fetched.
    """

    number: int
    url: str
    template: str
    site: Site
    html: bytes
    content_type: str
    date: datetime

    @property
    def charset(self) -> str:
        """A Python codec that decodes `html`, byte order mark included."""
        return self.site.charset


@dataclass(frozen=True, slots=True)
class PagePlan:
    """What is known of a page before it is rendered: where it belongs and what it is filled with from which row on."""

    number: int
    url: str
    site: Site
    template: Template
    row: int
    filling: Filling


def plan_page(seed: int, number: int) -> PagePlan:
    """Choose site, template and URL of a page: a small part of the work of making it.

    Examples
    --------
    >>> plan_page(1, 7).url == demo_page(1, 7).url
    True
    """
    rng = Random(seed << 64 | number)
    # The square makes few sites large and most of them small, as in a real crawl.
    site = make_site(seed, int(N_SITES * rng.random() ** 2))
    templates = load_theme(site.theme, site.habit)
    template = templates[int(rng.random() * len(templates))]
    row = int(rng.random() * N_ROWS)
    layout = Random(f"layout of {template.label} on {site.host}") if rng.random() < _STANDARD_SHARE else rng
    constants = {**site.constants, "page.number": str(number)}
    filling = Filling(text_columns(site.language), constants, layout.random, rng.random, site.draws)
    (path,) = template.path.render(filling, row, 1)
    return PagePlan(number, f"https://{site.host}{path}", site, template, row, filling)


def demo_page(seed: int, number: int) -> DemoPage:
    """Make page `number` of the crawl with this seed.

    Examples
    --------
    >>> page = demo_page(seed=1, number=7)
    >>> page == demo_page(seed=1, number=7), page.html == demo_page(seed=2, number=7).html
    (True, False)
    """
    plan = plan_page(seed, number)
    site = plan.site
    declared = f"; charset={site.charset_label}" if site.declares_charset else ""
    return DemoPage(
        number=number,
        url=plan.url,
        template=plan.template.label,
        site=site,
        html=site.encode(_render(plan), big_endian=plan.row % 2 == 1),
        content_type=f"text/html{declared}",
        date=page_date(number),
    )


def page_date(number: int) -> datetime:
    """Return when a page was fetched: the synthetic crawler takes five a second."""
    return _CRAWL_START + timedelta(seconds=number // _PAGES_PER_SECOND)


def _render(plan: PagePlan) -> str:
    columns, title = plan.filling.columns, plan.template.title
    known = plan.filling.constants
    constants = {
        **known,
        "page.url": escape(plan.url),
        "page.day": page_date(plan.number).strftime("%d.%m.%Y"),
        "page.title": columns[title][plan.row] if title in columns else known[title],
    }
    (text,) = plan.template.html.render(replace(plan.filling, constants=constants), plan.row, 1)
    return text

"""Synthetic pages: page `number` of a crawl depends on the seed and its number alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from random import Random

from treesim_dask.demo.sites import N_SITES, Site, make_site
from treesim_dask.demo.tables import N_ROWS, text_columns
from treesim_dask.demo.templates import Filling
from treesim_dask.demo.themes import Template, load_theme

_CRAWL_START = datetime(2026, 1, 5, tzinfo=UTC)
_PAGES_PER_SECOND = 5


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
    """What is known of a page before it is rendered, and the random numbers to go on with."""

    number: int
    url: str
    site: Site
    template: Template
    row: int
    rng: Random


def plan_page(seed: int, number: int) -> PagePlan:
    """Choose site, template and URL of a page: a hundredth of the work of making it.

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
    constants = {**site.constants, "page.number": str(number)}
    (path,) = template.path.render(Filling(text_columns(site.language), constants, rng.random, site.draws), row, 1)
    return PagePlan(number, f"https://{site.host}{path}", site, template, row, rng)


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
    date = page_date(number)
    text = _render(plan, date)
    declared = f"; charset={site.charset_label}" if site.declares_charset else ""
    return DemoPage(
        number=number,
        url=plan.url,
        template=plan.template.label,
        site=site,
        html=site.encode(text, big_endian=plan.row % 2 == 1),
        content_type=f"text/html{declared}",
        date=date,
    )


def page_date(number: int) -> datetime:
    """Return when a page was fetched: the synthetic crawler takes five a second."""
    return _CRAWL_START + timedelta(seconds=number // _PAGES_PER_SECOND)


def _render(plan: PagePlan, date: datetime) -> str:
    columns = text_columns(plan.site.language)
    constants = {
        **plan.site.constants,
        "page.number": str(plan.number),
        "page.url": escape(plan.url),
        "page.day": date.strftime("%d.%m.%Y"),
    }
    title = plan.template.title
    constants["page.title"] = columns[title][plan.row] if title in columns else constants[title]
    filling = Filling(columns, constants, plan.rng.random, plan.site.draws)
    return plan.template.html.render(filling, plan.row, 1)[0]

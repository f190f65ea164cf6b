"""What is asked for: how many matches, by which metric, and which pages may be among them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from treesim_dask.config import check_count, check_pattern, distinct_hosts
from treesim_dask.errors import ConfigError
from treesim_dask.query.metrics import DEFAULT_METRIC, Metric, find_metric


@dataclass(frozen=True, slots=True)
class Conditions:
    """Which pages may be matches. They hold before the best k are taken, not after.

    Parameters
    ----------
    hosts
        Only pages of these hosts and their subdomains; empty for all.
    url_pattern
        Only pages whose URL matches this regular expression somewhere.
    since, until
        Only pages fetched at or after, and before, these moments; pages without a date then never match.
    min_nodes
        Only pages with at least this many elements.
    other_hosts
        Only pages of another host than the query's.

    Examples
    --------
    >>> Conditions(hosts=("Example.org",)).accepts({"url": "https://www.example.org/", "date": None, "n_nodes": 9})
    True
    """

    hosts: tuple[str, ...] = ()
    url_pattern: str = ""
    since: datetime | None = None
    until: datetime | None = None
    min_nodes: int = 0
    other_hosts: bool = False

    def __post_init__(self) -> None:
        check_pattern(self.url_pattern)
        check_count("min_nodes", self.min_nodes, least=0)
        for name in ("since", "until"):
            _check_moment(name, getattr(self, name))
        object.__setattr__(self, "hosts", distinct_hosts(self.hosts))

    def __bool__(self) -> bool:
        return self != Conditions()

    def accepts(self, page: dict[str, Any], query_host: str | None = None) -> bool:
        """Tell whether a row of the page table may be a match."""
        if page["n_nodes"] < self.min_nodes:
            return False
        if (self.since or self.until) and not self._accepts_date(page["date"]):
            return False
        if self.url_pattern and not re.search(self.url_pattern, page["url"]):
            return False
        host = host_of(page["url"]) if self.hosts or self.other_hosts else ""
        if self.other_hosts and host == query_host:
            return False
        return not self.hosts or any(host == wanted or host.endswith("." + wanted) for wanted in self.hosts)

    def _accepts_date(self, date: datetime | None) -> bool:
        if date is None or (self.since is not None and date < self.since):
            return False
        return self.until is None or date < self.until


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to answer queries. Plain values: it travels to the workers as it is.

    Parameters
    ----------
    k
        How many matches.
    metric
        What orders them; see `treesim_dask.query.metrics.METRICS`.
    with_self
        Whether the query page itself may be among them.
    conditions
        Which pages may be.
    one_per
        At most one page of a ``"host"``, or of a registered ``"domain"`` such as example.co.uk: the best.
    bucket_cap
        Take at most this many shapes of a bucket in a segment; None for all.
    fill
        With fewer than k matches, take shapes that agree in the first rows of a band, in as many as give enough. This
        looks at all signatures.
    storage_options
        For reading archives again, where an index was built without vectors.
    n_agree
        Take shapes that agree in this many rows of a band, instead of those that share a bucket: how `fill` goes on.
    bands_and_rows
        Of the index, if its family is MinHash: matches then carry the probability of being found.
    """

    k: int = 10
    metric: str = DEFAULT_METRIC
    with_self: bool = True
    conditions: Conditions = field(default_factory=Conditions)
    one_per: Literal["host", "domain"] | None = None
    bucket_cap: int | None = None
    fill: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)  # may hold passwords
    n_agree: int | None = None
    bands_and_rows: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_count("k", self.k)
        if self.one_per not in (None, "host", "domain"):
            raise ConfigError(f"one_per must be host, domain or None, got {self.one_per!r}")
        for name in ("bucket_cap", "n_agree"):
            if (value := getattr(self, name)) is not None:
                check_count(name, value)
        find_metric(self.metric)

    @property
    def ordering(self) -> Metric:
        """The metric that orders the matches."""
        return find_metric(self.metric)

    @property
    def needs_pages(self) -> bool:
        """True if the page table decides which pages may be matches."""
        return bool(self.conditions) or self.one_per is not None

    def site_of(self, url: str) -> str:
        """Return what at most one match may have in common: the host or the domain."""
        return host_of(url) if self.one_per == "host" else domain_of(url)


def _check_moment(name: str, moment: datetime | None) -> None:
    """Refuse what cannot be compared with the date of a page."""
    if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
        hint = "datetime(2026, 2, 1, tzinfo=UTC)"
        raise ConfigError(f"{name} must be a datetime with a time zone, got {moment!r}; write {hint}", name)


def read_date(text: str) -> datetime:
    """Read a day or a moment; without a zone it is UTC.

    Examples
    --------
    >>> read_date("2026-02-01").isoformat()
    '2026-02-01T00:00:00+00:00'
    """
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"a date looks like 2026-02-01 or 2026-02-01T12:00:00, got {text!r}") from None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def host_of(url: str) -> str:
    """Return the host of a URL, empty where there is none.

    Examples
    --------
    >>> host_of("https://Example.org:8080/a"), host_of("page.html")
    ('example.org', '')
    """
    try:
        return (urlsplit(url).hostname or "").strip(".")
    except ValueError:  # such as an unclosed bracket
        return ""


def domain_of(url: str) -> str:
    """Return the domain that was registered for a URL's host, by the public suffix list.

    A host that is a public suffix itself, an address or a single name stands for itself.

    Examples
    --------
    >>> domain_of("https://shop.example.co.uk/"), domain_of("http://127.0.0.1/")
    ('example.co.uk', '127.0.0.1')
    """
    host = host_of(url)
    if not host or ":" in host or host.replace(".", "").isdecimal():
        return host
    return _suffixes().privatesuffix(host) or host


def is_public_suffix(host: str) -> bool:
    """Tell whether anybody may register names below a host, as below co.uk; single names count as such.

    Examples
    --------
    >>> is_public_suffix("co.uk"), is_public_suffix("example.co.uk"), is_public_suffix("127.0.0.1")
    (True, False, False)
    """
    is_address = ":" in host or host.replace(".", "").isdecimal()
    return not is_address and bool(_suffixes().publicsuffix(host) == host)


@lru_cache(maxsize=1)
def _suffixes() -> Any:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()

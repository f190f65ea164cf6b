"""The parameters of an index: checked once, stored with it, compared by fingerprint."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral
from typing import Any
from urllib.parse import urlsplit

from treesim_dask.errors import ConfigError

FORMAT_VERSION = 1

# Text-level tags say how words look, not how the page is built; scripts and styles hold no elements at all.
DEFAULT_SPLICED_TAGS = (
    "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "del", "dfn", "em", "font", "i", "ins",
    "kbd", "mark", "q", "s", "samp", "script", "small", "strike", "strong", "style", "sub", "sup", "tt", "u",
    "var", "wbr",
)  # fmt: skip

# The registries of families, features and metrics load NumPy and Numba; these are their names for those who only
# list them.
FAMILY_NAMES = ("minhash", "weighted-minhash", "hyperplanes", "bits", "projections")
FEATURE_NAMES = ("branches", "shingles", "paths", "pqgrams", "styles")
METRIC_NAMES = ("log-cosine", "cosine", "jaccard", "dice", "weighted-jaccard", "bdist")
WEIGHTINGS = ("log", "count", "presence")
_RANGES = {
    "n_bands": (1, 1024),
    "n_rows": (1, 1024),
    "seed": (0, 2**32 - 1),
    "bits_per_hash": (1, 24),
    "log2_rows": (0, 24),
    "shingle_length": (1, 16),
    "gram_stem": (1, 8),
    "gram_base": (1, 6),
}


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """What makes two indexes comparable. Equal configs give equal bits for equal pages.

    Parameters
    ----------
    n_bands, n_rows
        The signature has ``n_bands * n_rows`` hashes; pages that agree in all rows of a band are candidates.
        At 25 bands of 5 rows the S-curve rises at (1/25)**(1/5) = 0.53, so that pairs at Jaccard 0.7 become
        candidates with probability 0.99: recall first, since the exact rerank removes what does not belong.
    family
        The LSH family, see ``hashing.family``.
    seed
        Seeds the hash functions.
    bits_per_hash
        Families "hyperplanes" and "bits": how many bits make one hash.
    log2_rows
        Family "bits": a column has ``2**log2_rows`` bits; 0 folds each column to medium density.
    width
        Family "projections": length of a segment.
    weighting
        Families "hyperplanes" and "projections": the vectors hashed, of "log" counts, of "count" or of "presence".
    feature
        What is counted on a page, see ``dom.features``.
    shingle_length
        Feature "shingles": tags to a shingle.
    gram_stem, gram_base
        Feature "pqgrams": p nodes upwards, q children abreast.
    spliced_tags
        Tags left out of the tree; their children move up to the parent.
    collapse_repeats
        Reduce the repeated records of a page to one before its branches are counted, so that a list of 10 items
        and one of 200 look the same.

    Examples
    --------
    >>> IndexConfig(n_bands=16, n_rows=8).n_hashes
    128
    """

    n_bands: int = 25
    n_rows: int = 5
    family: str = "minhash"
    seed: int = 1
    bits_per_hash: int = 4
    log2_rows: int = 8
    width: float = 20.0
    weighting: str = "log"
    feature: str = "branches"
    shingle_length: int = 4
    gram_stem: int = 2
    gram_base: int = 3
    spliced_tags: tuple[str, ...] = DEFAULT_SPLICED_TAGS
    collapse_repeats: bool = False
    format_version: int = FORMAT_VERSION
    vocabulary_version: int = 1

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ConfigError(f"{name} must be a whole number from {least} to {most}, got {value!r}", name)
        if not isinstance(self.width, (int, float)) or not 2**-6 <= self.width <= 2**16:
            raise ConfigError(f"width must be a number from {2**-6} to {2**16}, got {self.width!r}", "width")
        object.__setattr__(self, "width", float(self.width))
        if self.weighting not in WEIGHTINGS:
            raise ConfigError(f"weighting must be one of {', '.join(WEIGHTINGS)}, got {self.weighting!r}", "weighting")
        tags = check_strings("spliced_tags", self.spliced_tags)
        object.__setattr__(self, "spliced_tags", tuple(sorted({tag.lower() for tag in tags})))

    @property
    def n_hashes(self) -> int:
        """Length of a signature."""
        return self.n_bands * self.n_rows

    @property
    def fingerprint(self) -> str:
        """Short digest of all parameters: indexes with equal fingerprints can be merged and compared."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as plain JSON values."""
        return {**asdict(self), "spliced_tags": list(self.spliced_tags)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> IndexConfig:
        """Rebuild a config from `to_dict`; unknown or missing names are an error."""
        names = {f.name for f in fields(cls)}
        if values.keys() != names:
            odd = ", ".join(sorted(values.keys() ^ names))
            raise ConfigError(f"index parameters do not fit this version: unknown or missing {odd}")
        return cls(**{**values, "spliced_tags": tuple(values["spliced_tags"])})

    def refuse_other(self, other: IndexConfig, what: str, advice: str) -> None:
        """Raise an error that says which parameters differ, if any does: `what` has those of this config."""
        mine, theirs = self.to_dict(), other.to_dict()
        names = [name for name in mine if mine[name] != theirs[name]]
        if names:
            differences = ", ".join(f"{name} {mine[name]} and {theirs[name]}" for name in names)
            raise ConfigError(f"{what} with other parameters: {differences}; {advice}", *names)


@dataclass(frozen=True, slots=True)
class PageFilter:
    """Which pages of a crawl are indexed.

    Parameters
    ----------
    min_bytes, max_bytes
        Length of the decoded body.
    hosts
        Keep only pages of these hosts and their subdomains; empty keeps all.
    url_pattern
        Keep only pages whose URL matches this regular expression somewhere; empty keeps all.
    """

    min_bytes: int = 64
    max_bytes: int = 16 * 2**20
    hosts: tuple[str, ...] = field(default=())
    url_pattern: str = ""

    def __post_init__(self) -> None:
        for name in ("min_bytes", "max_bytes"):
            check_count(name, getattr(self, name), least=0)
        if self.min_bytes > self.max_bytes:
            what = f"min_bytes must be at most max_bytes, got {self.min_bytes} and {self.max_bytes}"
            raise ConfigError(what, "min_bytes", "max_bytes")
        check_pattern(self.url_pattern)
        object.__setattr__(self, "hosts", distinct_hosts(self.hosts))

    def to_dict(self) -> dict[str, Any]:
        """Return the filter as plain JSON values."""
        return {**asdict(self), "hosts": list(self.hosts)}


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is no whole number, or too small a one.

    Examples
    --------
    >>> check_count("k", 10)
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ConfigError(f"{name} must be a whole number, got {value!r}", name)
    if value < least:
        raise ConfigError(f"{name} must be at least {least}, got {value}", name)


def check_strings(name: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return strings as a tuple; refuse a single one, which would be taken for its letters.

    Examples
    --------
    >>> check_strings("hosts", ["example.org"])
    ('example.org',)
    """
    if isinstance(values, str):
        raise ConfigError(f"{name} must be a list of strings, got the string {values!r}; write [{values!r}]", name)
    strings = tuple(values)
    if odd := [value for value in strings if not isinstance(value, str)]:
        raise ConfigError(f"{name} must be a list of strings, got {odd[0]!r} in it", name)
    return strings


def check_pattern(url_pattern: str) -> None:
    """Refuse what is no regular expression."""
    try:
        re.compile(url_pattern)
    except (re.error, TypeError) as error:
        what = f"url_pattern is not a regular expression: {url_pattern!r}: {error}"
        raise ConfigError(what, "url_pattern") from None


def distinct_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    """Return hosts as they are compared, sorted and without doubles; see `check_host`."""
    return tuple(sorted({check_host(host) for host in check_strings("hosts", hosts)}))


def check_host(host: str) -> str:
    """Return a host as it is compared; refuse what names none, and what would never be equal to one.

    Examples
    --------
    >>> check_host("Example.org."), check_host("[::1]")
    ('example.org', '::1')
    """
    name = host.lower().strip(".")
    if not name:
        raise ConfigError(f"a host is empty, got {host!r}: give it as in example.org")
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    if re.search(r"[][/\\?#@*\s]", name) or name.count(":") == 1:  # more colons are those of an IPv6 address
        raise ConfigError(f"{host!r} is no host{_host_inside(host)}; its subdomains are always included")
    return name


def _host_inside(text: str) -> str:
    """Return how to give the host of a URL, or the host before a port."""
    try:
        found = urlsplit(text if "://" in text else f"//{text}").hostname
    except ValueError:  # such as an unclosed bracket
        found = None
    return f": give the host alone: {(found or 'example.org').strip('*.')}"

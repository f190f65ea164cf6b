"""The parameters of an index: checked once, stored with it, compared by fingerprint."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from treesim_dask.errors import ConfigError

FORMAT_VERSION = 1

# Text-level tags say how words look, not how the page is built; scripts and styles hold no elements at all.
DEFAULT_SPLICED_TAGS = (
    "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "del", "dfn", "em", "font", "i", "ins",
    "kbd", "mark", "q", "s", "samp", "script", "small", "strike", "strong", "style", "sub", "sup", "tt", "u",
    "var", "wbr",
)  # fmt: skip


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
        The LSH family.
    seed
        Seeds the hash functions.
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
    spliced_tags: tuple[str, ...] = DEFAULT_SPLICED_TAGS
    collapse_repeats: bool = False
    format_version: int = FORMAT_VERSION
    vocabulary_version: int = 1

    def __post_init__(self) -> None:
        for name in ("n_bands", "n_rows"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= 1024:
                raise ConfigError(f"{name} must be a whole number from 1 to 1024, got {value!r}")
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed must be from 0 to 2**32 - 1, got {self.seed}")
        object.__setattr__(self, "spliced_tags", tuple(sorted({tag.lower() for tag in self.spliced_tags})))

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

    def differences(self, other: IndexConfig) -> str:
        """Say which parameters differ, in words for an error message."""
        mine, theirs = self.to_dict(), other.to_dict()
        return ", ".join(f"{k} {mine[k]} and {theirs[k]}" for k in mine if mine[k] != theirs[k])


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
        if not 0 <= self.min_bytes <= self.max_bytes:
            raise ConfigError(
                f"min_bytes must be at least 0 and at most max_bytes, got {self.min_bytes} and {self.max_bytes}"
            )
        try:
            re.compile(self.url_pattern)
        except re.error as error:
            raise ConfigError(f"url_pattern is not a regular expression: {self.url_pattern!r}: {error}") from None
        object.__setattr__(self, "hosts", tuple(sorted({host.lower().strip(".") for host in self.hosts})))

    def to_dict(self) -> dict[str, Any]:
        """Return the filter as plain JSON values."""
        return {**asdict(self), "hosts": list(self.hosts)}

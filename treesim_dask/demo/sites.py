"""Synthetic websites: each has a host, a theme, a language, a charset, and habits of markup and transport."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from random import Random

from treesim_dask.demo.tables import between, interface_labels, pick, text_columns
from treesim_dask.demo.templates import N_SITE_DRAWS
from treesim_dask.demo.themes import theme_names
from treesim_dask.demo.words import ENGLISH, LANGUAGES

N_SITES = len(ENGLISH.qualities) * len(ENGLISH.things)

# Prime to N_SITES, so that neighbouring sites get unlike hosts and no host is given twice.
_HOST_STEP = 611

# In hundredths. Pages that a Western crawler sees are mostly UTF-8; the rest is enough of each kind to matter.
_LANGUAGES = {"en": 50, "de": 14, "fr": 12, "ru": 12, "ja": 12}
_CHARSETS = {
    "en": {"utf-8": 70, "utf-8-sig": 8, "windows-1252": 12, "iso-8859-1": 6, "utf-16": 4},
    "de": {"utf-8": 45, "utf-8-sig": 10, "windows-1252": 20, "iso-8859-1": 25},
    "fr": {"utf-8": 45, "utf-8-sig": 10, "windows-1252": 20, "iso-8859-1": 25},
    "ru": {"utf-8": 45, "koi8-r": 45, "utf-16": 10},
    "ja": {"utf-8": 45, "shift_jis": 45, "utf-16": 10},
}
_HABITS = {"tidy": 70, "unclosed": 12, "unquoted": 8, "headless": 5, "shouting": 5}
_TRANSPORTS = {"plain": 40, "decoded": 36, "gzip": 12, "chunked": 8, "gzip-chunked": 4}
_SERVERS = ("nginx", "Apache", "Apache/2.4.57 (Debian)", "cloudfront", "Microsoft-IIS/10.0", "LiteSpeed")
_RULES = (
    ".{0}{{margin:0 auto;padding:{1}px;color:#{2:06x}}}",
    "#{0}{{float:left;width:{1}px}}",
    ".{0}>a:hover{{text-decoration:underline;opacity:.{1}}}",
    "@media (max-width:{1}0px){{.{0}{{display:none}}}}",
)
_STATEMENTS = (
    'window.{0}=window.{0}||[];{0}.push(["set","{1}"]);',
    'if(document.cookie.indexOf("{0}")<0){{document.cookie="{0}={1};path=/"}}',
    'document.documentElement.className+=" {0}-{1}";',
    "var {0}=function(a,b){{return a<b&&a>{1}}};",
)


@dataclass(frozen=True, slots=True)
class Site:
    """One website.

    Parameters
    ----------
    host
        In the reserved domain ``.example``: no such website exists.
    theme, habit
        Its design and the way its markup is written.
    language
        The code of its language.
    charset
        A Python codec that decodes its pages, byte order mark included.
    declares_charset
        Whether the HTTP header names the charset.
    transport
        ``plain``; ``decoded`` (sent compressed, stored as the crawler decoded it); ``gzip``, ``chunked`` or
        ``gzip-chunked`` (stored as sent).
    server, address
        What the server calls itself and its IP address, from the ranges kept for documentation.
    draws
        The draws its templates share.
    constants
        Values of the ``site.*`` and ``ui.*`` fields.
    """

    host: str
    theme: str
    habit: str
    language: str
    charset: str
    declares_charset: bool
    transport: str
    server: str
    address: str
    draws: tuple[float, ...]
    constants: Mapping[str, str]

    @property
    def charset_label(self) -> str:
        """The charset as HTTP headers and meta tags name it."""
        return "utf-8" if self.charset == "utf-8-sig" else self.charset

    def encode(self, text: str, big_endian: bool = False) -> bytes:
        """Encode a page; letters the charset lacks become character references."""
        if self.charset != "utf-16":
            return text.encode(self.charset, "xmlcharrefreplace")
        if big_endian:
            return codecs.BOM_UTF16_BE + text.encode("utf-16-be")
        return codecs.BOM_UTF16_LE + text.encode("utf-16-le")


@lru_cache(maxsize=2 * N_SITES)
def make_site(seed: int, number: int) -> Site:
    """Return a site of the crawl with this seed; `number` is below `N_SITES`.

    Examples
    --------
    >>> make_site(1, 5) == make_site(1, 5)
    True
    >>> len({make_site(1, number).host for number in range(N_SITES)}) == N_SITES
    True
    """
    rng = Random(f"site {number} of {seed}")
    themes = theme_names()
    theme = themes[(number + seed) % len(themes)]
    language = _draw_from(rng, _LANGUAGES)
    charset = _draw_from(rng, _CHARSETS[language])
    host = _host(seed, number, theme)
    return Site(
        host=host,
        theme=theme,
        habit=_draw_from(rng, _HABITS),
        language=language,
        charset=charset,
        declares_charset=rng.random() < 0.6,
        transport=_draw_from(rng, _TRANSPORTS),
        server=pick(rng, _SERVERS),
        address=f"203.0.113.{between(rng, 1, 254)}",
        draws=tuple(rng.random() for _ in range(N_SITE_DRAWS)),
        constants={**interface_labels(language), **_site_constants(rng, host, language, charset)},
    )


def _draw_from(rng: Random, shares: Mapping[str, int]) -> str:
    """Draw a name, each with its share in hundredths."""
    place = int(rng.random() * sum(shares.values()))
    return next(name for name, end in zip(shares, accumulate(shares.values()), strict=True) if place < end)


def _host(seed: int, number: int, theme: str) -> str:
    place = (number * _HOST_STEP + seed) % N_SITES
    thing, quality = divmod(place, len(ENGLISH.qualities))
    prefix = "www" if place % 3 else theme.partition("-")[0]
    return f"{prefix}.{ENGLISH.qualities[quality]}-{ENGLISH.things[thing]}.example"


def _site_constants(rng: Random, host: str, code: str, charset: str) -> dict[str, str]:
    language = LANGUAGES[code]
    columns = text_columns(code)
    return {
        "site.host": host,
        "site.name": " ".join(part.capitalize() for part in host.split(".")[1].split("-")),
        "site.slogan": columns["prose.heading"][between(rng, 0, 999)],
        "site.lang": language.code,
        "site.charset": "utf-8" if charset == "utf-8-sig" else charset,
        "site.build": f"{between(rng, 0, 2**32 - 1):08x}",
        "site.color": f"#{between(rng, 0, 2**24 - 1):06x}",
        "site.year": str(between(rng, 2008, 2026)),
        "site.style": _code_lines(rng, _RULES, between(rng, 4, 30)),
        "site.script": _code_lines(rng, _STATEMENTS, between(rng, 2, 14)),
    }


def _code_lines(rng: Random, patterns: tuple[str, ...], n_lines: int) -> str:
    lines = [
        pick(rng, patterns).format(pick(rng, ENGLISH.things), between(rng, 2, 99), between(rng, 0, 2**24 - 1))
        for _ in range(n_lines)
    ]
    return "\n".join(lines)

"""Tables of ready-made texts, one per language: what the fields of a template are filled from.

A column such as ``product.title`` is a list of texts. Row r of all columns of a table belongs together (title, link
and picture of one product), and so a list of n items is n neighbouring rows: one slice per column, no draw per item.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from random import Random

from treesim_dask.demo.words import LABEL_NAMES, LANGUAGES, Language

# A power of two for cheap draws, and more than any page has items.
N_ROWS = 1024

Columns = dict[str, list[str]]

_INLINE = (
    "<b>{}</b>", "<i>{}</i>", "<em>{}</em>", "<strong>{}</strong>", '<a href="/tag/{slug}">{}</a>',
    '<span class="term">{}</span>', "{}<br>", "<b>{}", "{} &amp; co.", "{}<sup>2</sup>",
)  # fmt: skip


def pick(rng: Random, values: tuple[str, ...]) -> str:
    """Draw one value. Only ``random()`` is used: its bits are the same in every version of Python."""
    return values[int(rng.random() * len(values))]


def between(rng: Random, low: int, high: int) -> int:
    """Draw a whole number from `low` to `high`, both included."""
    return low + int(rng.random() * (high - low + 1))


@cache
def text_columns(code: str) -> Columns:
    """Return all columns of a language, each long enough to slice `N_ROWS` values from any row.

    Examples
    --------
    >>> columns = text_columns("en")
    >>> len(columns["product.title"]) == 2 * N_ROWS
    True
    """
    language = LANGUAGES[code]
    rng = Random(f"columns of {code}")
    columns: Columns = {}
    for table, make_row in _TABLES.items():
        rows = [make_row(rng, language, number) for number in range(N_ROWS)]
        for name in rows[0]:
            values = [row[name] for row in rows]
            columns[f"{table}.{name}"] = values + values
    return columns


@cache
def interface_labels(code: str) -> dict[str, str]:
    """Return the words of the user interface, by field name.

    Examples
    --------
    >>> interface_labels("de")["ui.search"]
    'Suche'
    """
    return {f"ui.{name}": label for name, label in zip(LABEL_NAMES, LANGUAGES[code].labels, strict=True)}


def make_slug(text: str, number: int) -> str:
    """Return a text as the ASCII part of a URL, its row number where no letter is left.

    Examples
    --------
    >>> make_slug("Schöne Küche", 7), make_slug("橋", 7)
    ('schone-kuche', 'item-7')
    """
    ascii_text = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode().lower()
    return "-".join("".join(c if c.isalnum() else " " for c in ascii_text).split()) or f"item-{number}"


def _title(rng: Random, language: Language, n_pairs: int) -> str:
    words: list[str] = []
    for _ in range(n_pairs):
        words += (pick(rng, language.qualities), pick(rng, language.things))
    title = language.gap.join(words)
    return title[0].upper() + title[1:]


def _sentence(rng: Random, language: Language) -> str:
    pools = (language.fillers, language.qualities, language.fillers, language.things)
    words = [pick(rng, pools[position % 4]) for position in range(between(rng, 5, 16))]
    sentence = language.gap.join(words)
    return sentence[0].upper() + sentence[1:] + (". " if language.gap else "。")


def _paragraph(rng: Random, language: Language) -> str:
    """Return two to five sentences, some with inline markup, a few of it never closed."""
    parts = []
    for _ in range(between(rng, 2, 5)):
        parts.append(_sentence(rng, language))
        if rng.random() < 0.2:
            phrase = _title(rng, language, 1)
            parts.append(pick(rng, _INLINE).format(phrase, slug=make_slug(phrase, between(rng, 1, 99))) + " ")
    return "".join(parts).rstrip()


def _person_name(rng: Random, language: Language) -> str:
    return f"{pick(rng, language.names)} {pick(rng, language.surnames)}"


def _prose_row(rng: Random, language: Language, number: int) -> dict[str, str]:
    return {
        "paragraph": _paragraph(rng, language),
        "sentence": _sentence(rng, language).rstrip(),
        "heading": _title(rng, language, 1),
        "word": pick(rng, language.things),
        "number": str(between(rng, 1, 9999)),
        "percent": str(between(rng, 5, 95)),
        "id": f"{between(rng, 0, 2**32 - 1):08x}",
    }


def _category_row(rng: Random, language: Language, number: int) -> dict[str, str]:
    name = pick(rng, language.things).capitalize()
    return {"name": name, "slug": make_slug(name, number), "count": str(between(rng, 3, 480))}


def _product_row(rng: Random, language: Language, number: int) -> dict[str, str]:
    title = _title(rng, language, 1 + (rng.random() < 0.4))
    slug = make_slug(title, number)
    cents = between(rng, 299, 49999)
    stars = between(rng, 10, 50)
    return {
        "title": title,
        "slug": slug,
        "sku": f"{slug[:2].upper()}-{10000 + number * 7}",
        "brand": pick(rng, language.surnames),
        "price": f"&euro;{cents // 100}.{cents % 100:02d}",
        "amount": f"{cents / 100:.2f}",
        "was": f"&euro;{cents * 5 // 400}.95",
        "image": f"/media/p/{number % 97:02d}/{slug}.jpg",
        "stars": f"{stars // 10}.{stars % 10}",
        "reviews": str(between(rng, 0, 350)),
        "teaser": _sentence(rng, language).rstrip(),
    }


def _article_row(rng: Random, language: Language, number: int) -> dict[str, str]:
    title = _title(rng, language, 2)
    author = _person_name(rng, language)
    section = pick(rng, language.things).capitalize()
    year, month, day = between(rng, 2019, 2025), between(rng, 1, 12), between(rng, 1, 28)
    return {
        "title": title,
        "slug": make_slug(title, number),
        "teaser": _sentence(rng, language) + _sentence(rng, language).rstrip(),
        "author": author,
        "by": make_slug(author, number),
        "section": section,
        "folder": make_slug(section, number),
        "image": f"/img/{year}/{month:02d}/{number:04d}.jpg",
        "day": f"{day:02d}.{month:02d}.{year}",
        "date": f"{year}-{month:02d}-{day:02d}",
        "time": f"{between(rng, 0, 23):02d}:{between(rng, 0, 59):02d}",
        "comments": str(between(rng, 0, 260)),
    }


def _person_row(rng: Random, language: Language, number: int) -> dict[str, str]:
    name = _person_name(rng, language)
    slug = make_slug(name, number)
    return {
        "name": name,
        "slug": slug,
        "role": pick(rng, language.roles),
        "city": pick(rng, language.cities),
        "email": f"{slug.replace('-', '.')}@mail.example",
        "phone": f"+00 {between(rng, 100, 999)} {between(rng, 10000, 99999)}",
        "image": f"/people/{slug}-{number}.jpg",
        "year": str(between(rng, 1995, 2025)),
        "posts": str(between(rng, 1, 9000)),
        "room": f"{pick(rng, ('A', 'B', 'C', 'D'))}{between(rng, 100, 499)}",
    }


def _thread_row(rng: Random, language: Language, number: int) -> dict[str, str]:
    title = _title(rng, language, 1 + (rng.random() < 0.5)) + "?" * (rng.random() < 0.4)
    return {
        "title": title,
        "slug": make_slug(title, number),
        "number": str(20000 + number * 13),
        "starter": _person_name(rng, language),
        "last": _person_name(rng, language),
        "replies": str(between(rng, 0, 400)),
        "views": str(between(rng, 20, 90000)),
        "votes": str(between(rng, 0, 77)),
        "when": f"2025-{between(rng, 1, 12):02d}-{between(rng, 1, 28):02d} {between(rng, 0, 23):02d}:15",
    }


_VERBS = ("open", "read", "parse", "write", "merge", "split", "find", "count", "close", "load", "check", "sort")
_OBJECTS = ("tree", "page", "table", "stream", "index", "config", "node", "token", "batch", "record", "path", "key")


def _term_row(rng: Random, language: Language, number: int) -> dict[str, str]:
    verb, thing = pick(rng, _VERBS), pick(rng, _OBJECTS)
    argument = pick(rng, _OBJECTS)
    return {
        "name": f"{verb}_{thing}",
        "slug": f"{verb}-{thing}",
        "title": _title(rng, language, 1),
        "argument": argument,
        "type": pick(rng, ("int", "str", "bool", "float", "list", "None")),
        "module": f"{pick(rng, _OBJECTS)}.{pick(rng, _OBJECTS)}",
        "summary": _sentence(rng, language).rstrip(),
        "code": f"{argument} = {verb}_{thing}({pick(rng, _OBJECTS)}, limit={between(rng, 1, 99)})",
        "version": f"{between(rng, 0, 4)}.{between(rng, 0, 19)}",
    }


_TABLES = {
    "prose": _prose_row,
    "category": _category_row,
    "product": _product_row,
    "article": _article_row,
    "person": _person_row,
    "thread": _thread_row,
    "term": _term_row,
}

"""Themes: the site designs in ``themes/*.html``, each a frame and the templates of two or more sorts of page.

A theme file has sections that begin with ``== name | title field | URL path``; the section ``frame`` is the page around
``{{content}}``. The habits of those who wrote the markup (tags left open, attributes unquoted) are applied to the
source, so that a page costs the same whether it is tidy or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from treesim_dask.demo.templates import Node, compile_template

_SECTION = re.compile(r"^== (.+)\n", re.MULTILINE)
_OPTIONAL_END_TAG = re.compile(r"</(?:p|li|td|th|tr|dt|dd|option)>", re.IGNORECASE)
_DOCUMENT_TAG = re.compile(r"<!doctype[^>]*>|</?(?:html|head|body)(?:\s[^>]*)?>", re.IGNORECASE)
_PLAIN_VALUE = re.compile(r'="((?:[\w/.#:-]|\{\{\w+\.(?:slug|number|id|count|sku|image)\}\})+)"')
_TAG_NAME = re.compile(r"(</?)([a-z][a-z0-9]*)(?=[\s>/])")


def _close_nothing(source: str) -> str:
    return _OPTIONAL_END_TAG.sub("", source)


def _quote_nothing(source: str) -> str:
    return _PLAIN_VALUE.sub(r"=\1", source)


def _drop_document_tags(source: str) -> str:
    return _DOCUMENT_TAG.sub("", source)


def _shout_tags(source: str) -> str:
    return _TAG_NAME.sub(lambda tag: tag[1] + tag[2].upper(), source)


HABITS: dict[str, Callable[[str], str]] = {
    "tidy": str,
    "unclosed": _close_nothing,
    "unquoted": _quote_nothing,
    "headless": _drop_document_tags,
    "shouting": _shout_tags,
}


@dataclass(frozen=True, slots=True)
class Template:
    """One sort of page of one theme.

    Parameters
    ----------
    label
        Names the template, as in ``shop-aurora/listing``.
    title
        The field that gives the page its title.
    path
        The path of its URL.
    html
        The whole page.
    """

    label: str
    title: str
    path: Node
    html: Node


@lru_cache(maxsize=1)
def theme_names() -> tuple[str, ...]:
    """Return the names of all themes in alphabetical order.

    Examples
    --------
    >>> theme_names()[:2]
    ('docs-manual', 'docs-reader')
    """
    stems = (entry.name.removesuffix(".html") for entry in _folder().iterdir() if entry.name.endswith(".html"))
    return tuple(sorted(stem for stem in stems if stem != "widgets"))


@cache
def load_theme(name: str, habit: str = "tidy") -> tuple[Template, ...]:
    """Return the templates of a theme, written with a habit.

    Examples
    --------
    >>> [template.label for template in load_theme("shop-aurora")]
    ['shop-aurora/listing', 'shop-aurora/product']
    """
    rewrite = HABITS[habit]
    widgets = {header: source.strip() for header, source in _sections("widgets").items()}
    sections = _sections(name)
    frame = sections.pop("frame")
    templates = []
    for header, source in sections.items():
        section, title, path = header.split(" | ")
        html = compile_template(rewrite(frame.replace("{{content}}", source.strip())), widgets)
        templates.append(Template(f"{name}/{section}", title, compile_template(path), html))
    return tuple(templates)


@lru_cache(maxsize=1)
def template_labels() -> tuple[str, ...]:
    """Return the labels of all templates of all themes."""
    return tuple(template.label for name in theme_names() for template in load_theme(name))


def _folder() -> Traversable:
    return files("treesim_dask.demo") / "themes"


def _sections(name: str) -> dict[str, str]:
    """Return the sections of a theme file by their header lines."""
    _, *parts = _SECTION.split((_folder() / f"{name}.html").read_text("utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))

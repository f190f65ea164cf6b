"""The small template language of the synthetic pages.

A template is HTML with marks in double braces:

``{{product.title}}``
    A field: a column of the text tables, or a constant of the site or the page.
``{{*5-60}} ... {{/}}``
    The block, 5 to 60 times. Each time is another row of the tables.
``{{?40}} ... {{:}} ... {{/}}``
    The block in 40 of 100 cases, else the other one (which may be missing).
``{{>ad}}``
    A widget, a template shared by all themes.

With ``site`` inside the mark, as in ``{{*4-9 site}}``, the draw is made once per site: all its pages have the same
navigation. Everything is rendered n times at once, column by column, since a page is mostly lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

from treesim_dask.demo.tables import N_ROWS, Columns
from treesim_dask.errors import ConfigError

# Draws of a site that its templates share; marks are numbered and take theirs modulo this.
N_SITE_DRAWS = 61

_MARK = re.compile(r"\{\{(.*?)\}\}")


@dataclass(frozen=True, slots=True)
class Filling:
    """What a template is filled with.

    Parameters
    ----------
    columns
        Text columns by field name.
    constants
        Values that are the same all over the page, by field name.
    draw
        Returns a float in [0, 1), another at each call: decides how the page is built.
    draw_row
        The same for the rows it is filled from: pages built alike need not read alike.
    site_draws
        `N_SITE_DRAWS` floats in [0, 1), the same for all pages of a site.
    """

    columns: Columns
    constants: Mapping[str, str]
    draw: Callable[[], float]
    draw_row: Callable[[], float]
    site_draws: tuple[float, ...]


class Node(Protocol):
    """A part of a template."""

    def render(self, filling: Filling, first: int, n: int) -> list[str]:
        """Return `n` texts: those of the rows from `first` on."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the text tables, or a constant."""

    name: str

    def render(self, filling: Filling, first: int, n: int) -> list[str]:
        """Return the values of `n` rows."""
        column = filling.columns.get(self.name)
        return [filling.constants[self.name]] * n if column is None else column[first : first + n]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Texts and nodes, one after the other; the texts are the format string that the nodes are put into."""

    format: str
    nodes: tuple[Node, ...]

    def render(self, filling: Filling, first: int, n: int) -> list[str]:
        """Return `n` texts, each the whole sequence."""
        if not self.nodes:
            return [self.format % ()] * n
        columns = [node.render(filling, first, n) for node in self.nodes]
        return list(map(self.format.__mod__, zip(*columns, strict=True)))


@dataclass(frozen=True, slots=True)
class Option:
    """One block or the other."""

    share: float
    chosen: Node
    other: Node
    site_draw: int | None

    def render(self, filling: Filling, first: int, n: int) -> list[str]:
        """Return `n` texts, drawn each for itself or all alike for the site."""
        share = self.share
        if self.site_draw is not None or n == 1:
            value = filling.draw() if self.site_draw is None else filling.site_draws[self.site_draw]
            return (self.chosen if value < share else self.other).render(filling, first, n)
        chosen = self.chosen.render(filling, first, n)
        other = self.other.render(filling, first, n)
        draw = filling.draw
        return [a if draw() < share else b for a, b in zip(chosen, other, strict=True)]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A block, several times over."""

    low: int
    high: int
    block: Node
    site_draw: int | None

    def render(self, filling: Filling, first: int, n: int) -> list[str]:
        """Return `n` texts of `low` to `high` blocks each; the blocks begin at a row of their own."""
        low, spread = self.low, self.high - self.low + 1
        if self.site_draw is not None:
            value = filling.site_draws[self.site_draw]
            row, counts = int(value * N_ROWS), [low + int(value * spread)] * n
        else:
            draw = filling.draw
            row, counts = int(filling.draw_row() * N_ROWS), [low + int(draw() * spread) for _ in range(n)]
        ends = list(accumulate(counts, initial=0))
        blocks = self.block.render(filling, row, ends[-1])
        return ["".join(blocks[start:end]) for start, end in pairwise(ends)]


def compile_template(source: str, widgets: Mapping[str, str] | None = None) -> Node:
    """Compile the source of a template.

    Parameters
    ----------
    source
        HTML with marks.
    widgets
        Sources of the templates that ``{{>name}}`` puts in.

    Examples
    --------
    >>> template = compile_template("<ul>{{*2-2}}<li>{{fruit.name}}</li>{{/}}</ul>")
    >>> filling = Filling({"fruit.name": ["fig"] * 2 * N_ROWS}, {}, lambda: 0.5, lambda: 0.5, ())
    >>> template.render(filling, 0, 1)
    ['<ul><li>fig</li><li>fig</li></ul>']
    """
    whole = _put_in_widgets(source, widgets or {})
    marks = enumerate(_MARK.split(whole))
    node, end = _read_sequence(marks)
    if end is not None:
        raise ConfigError(f"a template has {{{{{end}}}}} without a block to end: {source[:60]!r}")
    return node


def _put_in_widgets(source: str, widgets: Mapping[str, str]) -> str:
    return re.sub(r"\{\{>(\w+)\}\}", lambda mark: widgets[mark[1]], source)


def _read_sequence(marks: Iterator[tuple[int, str]]) -> tuple[Sequence, str | None]:
    """Read up to the mark that ends this block; texts and marks alternate, texts at even positions."""
    texts: list[str] = []
    nodes: list[Node] = []
    for position, token in marks:
        if position % 2 == 0:
            texts.append(token.replace("%", "%%"))
        elif token in ("/", ":"):
            return Sequence("".join(texts), tuple(nodes)), token
        else:
            nodes.append(_read_node(position, token, marks))
            texts.append("%s")
    return Sequence("".join(texts), tuple(nodes)), None


def _read_node(position: int, token: str, marks: Iterator[tuple[int, str]]) -> Node:
    if token[0] not in "*?":
        return Field(token)
    numbers, _, kind = token[1:].partition(" ")
    site_draw = position % N_SITE_DRAWS if kind == "site" else None
    block, end = _read_sequence(marks)
    if token[0] == "*":
        low, high = map(int, numbers.split("-"))
        node: Node = Repeat(low, high, block, site_draw)
    else:
        other = Sequence("", ())
        if end == ":":
            other, end = _read_sequence(marks)
        node = Option(int(numbers) / 100, block, other, site_draw)
    if end != "/":
        raise ConfigError(f"a template has {{{{{token}}}}} without its {{{{/}}}}")
    return node

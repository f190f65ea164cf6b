"""Selectors for a set of elements: CSS and XPath, both made of the same steps, which are tried out on the page.

The XPath is for the tree an HTML5 parser makes: lexbor's, and that of browsers. Parsers with other rules for broken
markup (libxml2, behind lxml's own HTML parser) may build another tree, where a path of positions selects others.
So may a browser that runs scripts, on the few pages whose head holds a ``noscript`` with images or the like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from selectolax.lexbor import SelectolaxError

from treesim_dask.records.page import Page
from treesim_dask.records.paths import MAX_CLASSES, Paths
from treesim_dask.records.steps import SAFE_NAME, Step


@dataclass(frozen=True, slots=True)
class Selector:
    """One or several paths; what any of them selects is selected."""

    paths: tuple[tuple[Step, ...], ...]

    def css(self) -> str:
        """Write the selector in CSS."""
        return ", ".join(" > ".join(step.css() for step in path) for path in self.paths)

    def xpath(self) -> str:
        """Write the selector in XPath."""
        return " | ".join("//" + "/".join(step.xpath() for step in path) for path in self.paths)


def select_exactly(page: Page, elements: Sequence[int], paths: Paths | None = None) -> Selector:
    """Return the shortest selector tried that selects just the given elements, in CSS and in XPath alike.

    Parameters
    ----------
    page
        The page.
    elements
        Numbers of elements, in order.
    paths
        Made once for all selectors of a page.

    Examples
    --------
    >>> from treesim_dask.records.page import read_page
    >>> page = read_page(b"<ul><li>1<li>2</ul><ul><li>3</ul>", [])
    >>> select_exactly(page, [4, 5]).css()
    'body > ul:nth-child(1) > li'
    """
    paths = Paths(page) if paths is None else paths
    wanted = set(elements)
    for prefix, ends in _candidates(paths, elements):
        for end in paths.walk.exact_ends(prefix, ends, wanted) if prefix else ends:
            path = (*prefix, end)
            if (prefix or paths.walk.selects([path], wanted)) and _is_plain_or_tried(page, path, wanted):
                return Selector((path,))
    return _select_by_parent(paths, elements)


def _is_plain_or_tried(page: Page, path: tuple[Step, ...], wanted: set[int]) -> bool:
    """Try a selector with escaped or foreign names on lexbor: that is where CSS has its finer points."""
    is_plain = all(SAFE_NAME.fullmatch(name) for step in path for name in (step.tag, step.id or "x", *step.classes))
    is_foreign = any(step.foreign for step in path)
    return (is_plain and not is_foreign) or select_css(page, Selector((path,)).css()) == wanted


def select_css(page: Page, css: str) -> set[int]:
    """Return the numbers of the elements that a CSS selector selects: none if lexbor cannot read it."""
    try:
        return {page.numbers[node.mem_id] for node in page.parser.css(css)}
    except SelectolaxError:  # some names cannot be written so that it understands them
        return set()


def _candidates(paths: Paths, elements: Sequence[int]) -> Iterator[tuple[tuple[Step, ...], list[Step]]]:
    """Yield paths that select the elements and perhaps others, the ones a person would write first.

    Each comes as its first steps, and last steps to choose from.
    """
    top, levels = _levels_below_common(paths.page, elements)
    steps = [paths.common_step(level) for level in levels]
    if not steps or None in steps:
        return
    *between, target = [step for step in steps if step is not None]
    by_class = [target._replace(classes=(name,)) for name in target.classes[:MAX_CLASSES]]
    yield (), [end for end in by_class if paths.walk.count(end) == len(elements)]
    ends = [target._replace(classes=()), *by_class, target]
    for start in paths.named_steps(top):
        yield (start, *between), ends
    path = paths.path(top)
    yield (*path, *between), ends
    *bounded, last = (_bound(paths.page, step, level) for step, level in zip((*between, target), levels, strict=True))
    yield (*path, *bounded), [*ends, last, last._replace(classes=())]


def _select_by_parent(paths: Paths, elements: Sequence[int]) -> Selector:
    """Return a selector with one path a parent where a range of its children will do, else one an element."""
    groups: dict[int, list[int]] = {}
    for element in elements:
        groups.setdefault(paths.page.parents[element], []).append(element)
    chosen: list[tuple[Step, ...]] = []
    for parent, group in groups.items():
        step = paths.common_step(group)
        if len(group) > 1 and step is not None:
            step = _bound(paths.page, step, group)._replace(classes=())
            between = paths.walk.children(parent)[step.first - 1 : step.last]
            if [child for child in between if paths.page.names[child] == step.tag] == group:
                chosen.append((*paths.path(parent), step))
                continue
        chosen.extend(paths.path(element) for element in group)
    return Selector(tuple(chosen))


def _levels_below_common(page: Page, elements: Sequence[int]) -> tuple[int, list[list[int]]]:
    """Return the lowest common ancestor of some elements, and the elements of each level on the ways down to them.

    No level is returned where the ways down have different lengths.
    """
    levels = [list(elements)]
    while True:
        above = list(dict.fromkeys([page.parents[element] for element in levels[0]]))
        if min(above) < 0 or not set(above).isdisjoint(levels[0]):
            return 0, []
        if len(above) == 1:
            return above[0], levels
        levels.insert(0, above)


def _bound(page: Page, step: Step, elements: Sequence[int]) -> Step:
    """Bound a step to the positions of its elements, where their parents have other children as well."""
    places = [page.positions[element] for element in elements]
    return step._replace(first=min(places), last=max(places))

"""Selectors for a set of elements: CSS and XPath, both made of the same steps, both tried out on the page.

The XPath is for the tree an HTML5 parser makes: lexbor's, and that of browsers. Parsers with other rules for broken
markup (libxml2, behind lxml's own HTML parser) may build another tree, where a path of positions selects others.
So may a browser that runs scripts, on the few pages whose head holds a ``noscript`` with images or the like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from selectolax.lexbor import SelectolaxError

from treesim_dask.records.page import Page
from treesim_dask.records.steps import SAFE_NAME, Step
from treesim_dask.records.walk import Walk

_MAX_CLASSES = 4  # tried one by one; pages with a dozen utility classes have them in no useful order


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


def select_exactly(page: Page, elements: Sequence[int], walk: Walk | None = None) -> Selector:
    """Return the shortest selector tried that selects just the given elements, in CSS and in XPath alike.

    Parameters
    ----------
    page
        The page.
    elements
        Numbers of elements.
    walk
        Made once for all selectors of a page.

    Examples
    --------
    >>> from treesim_dask.records.page import read_page
    >>> page = read_page(b"<ul><li>1<li>2</ul><ul><li>3</ul>", [])
    >>> select_exactly(page, [4, 5]).css()
    'body > ul:nth-child(1) > li'
    """
    walk = walk or Walk(page)
    wanted = set(elements)
    for selector in _candidates(page, elements):
        if walk.selects(selector.paths, wanted) and _is_plain_or_tried(page, selector, wanted):
            return selector
    return _select_by_parent(page, elements)


def _is_plain_or_tried(page: Page, selector: Selector, wanted: set[int]) -> bool:
    """Try a selector with escaped or foreign names on lexbor: that is where CSS has its finer points."""
    names = (name for path in selector.paths for step in path for name in (step.tag, step.id or "x", *step.classes))
    is_plain = all(SAFE_NAME.fullmatch(name) for name in names)
    is_foreign = any(step.foreign for path in selector.paths for step in path)
    return (is_plain and not is_foreign) or select_css(page, selector.css()) == wanted


def select_css(page: Page, css: str) -> set[int]:
    """Return the numbers of the elements that a CSS selector selects: none if lexbor cannot read it."""
    try:
        return {page.numbers[node.mem_id] for node in page.parser.css(css)}
    except SelectolaxError:  # some names cannot be written so that it understands them
        return set()


def _candidates(page: Page, elements: Sequence[int]) -> Iterator[Selector]:
    """Yield selectors that select the elements and perhaps others, the ones a person would write first."""
    top, levels = _levels_below_common(page, elements)
    steps = [_common_step(page, level) for level in levels]
    if not steps or None in steps:
        return
    *between, target = [step for step in steps if step is not None]
    ends = [replace(target, classes=(name,)) for name in target.classes[:_MAX_CLASSES]]
    for end in ends:
        yield Selector(((end,),))
    ends = [replace(target, classes=()), *ends, target]
    for start in _named_steps(page, top):
        for end in ends:
            yield Selector(((start, *between, end),))
    path = _full_path(page, top)
    for end in ends:
        yield Selector(((*path, *between, end),))
    bounded = [_bound(page, step, level) for step, level in zip((*between, target), levels, strict=True)]
    for end in (*ends, bounded[-1], replace(bounded[-1], classes=())):
        yield Selector(((*path, *bounded[:-1], end),))


def _select_by_parent(page: Page, elements: Sequence[int]) -> Selector:
    """Return a selector with one path a parent where a range of its children will do, else one an element."""
    groups: dict[int, list[int]] = {}
    for element in elements:
        groups.setdefault(page.parents[element], []).append(element)
    paths: list[tuple[Step, ...]] = []
    for parent, group in groups.items():
        step = _common_step(page, group)
        if len(group) > 1 and step is not None:
            step = replace(_bound(page, step, group), classes=())
            if _children_within(page, parent, step) == group:
                paths.append((*_full_path(page, parent), step))
                continue
        paths.extend(_full_path(page, element) for element in group)
    return Selector(tuple(paths))


def _children_within(page: Page, parent: int, step: Step) -> list[int]:
    """Return the children of an element with the tag and in the bounds of a step."""
    children = []
    child = parent + 1
    while child < page.ends[parent]:
        if step.first <= page.positions[child] <= step.last and page.names[child] == step.tag:
            children.append(child)
        child = page.ends[child]
    return children


def _levels_below_common(page: Page, elements: Sequence[int]) -> tuple[int, list[list[int]]]:
    """Return the lowest common ancestor of some elements, and the elements of each level on the ways down to them.

    No level is returned where the ways down have different lengths.
    """
    levels = [sorted(set(elements))]
    while True:
        above = sorted({page.parents[element] for element in levels[0]})
        if above[0] < 0 or not set(above).isdisjoint(levels[0]):
            return 0, []
        if len(above) == 1:
            return above[0], levels
        levels.insert(0, above)


def _common_step(page: Page, elements: Sequence[int]) -> Step | None:
    """Return a step for all of the elements: their tag and the classes they share; None if their tags differ."""
    step = _step(page, elements[0])
    if any(page.names[element] != step.tag for element in elements):
        return None
    shared = set(_classes(page, elements[0])).intersection(*(_classes(page, element) for element in elements))
    return replace(step, classes=tuple(name for name in _classes(page, elements[0]) if name in shared))


def _bound(page: Page, step: Step, elements: Sequence[int]) -> Step:
    """Bound a step to the positions of its elements, where their parents have other children as well."""
    places = [page.positions[element] for element in elements]
    return replace(step, first=min(places), last=max(places))


def _named_steps(page: Page, element: int) -> Iterator[Step]:
    """Yield steps that name one element by its id or a class."""
    step = _step(page, element)
    if name := _id(page, element):
        yield replace(step, id=name)
    for name in _classes(page, element)[:_MAX_CLASSES]:
        yield replace(step, classes=(name,))


def _full_path(page: Page, element: int) -> tuple[Step, ...]:
    """Return the path of positions from the body, the root, or an element with an id or class of its own."""
    path: list[Step] = []
    while True:
        step = _step(page, element)
        for named in _named_steps(page, element):
            if page.lone_names.intersection((f"#{named.id.lower()}", *(f".{name.lower()}" for name in named.classes))):
                return (named, *path)
        if page.parents[element] < 0 or step.tag == "body":
            return (step, *path)
        path.insert(0, replace(step, first=page.positions[element], last=page.positions[element]))
        element = page.parents[element]


def _step(page: Page, element: int) -> Step:
    tag = page.names[element]
    above = element
    while above >= 0 and page.names[above] not in ("svg", "math"):
        above = page.parents[above]
    return Step(tag, foreign=above >= 0 or not SAFE_NAME.fullmatch(tag))


def _classes(page: Page, element: int) -> list[str]:
    return [name for name in dict.fromkeys(page.classes[element]) if "'" not in name]


def _id(page: Page, element: int) -> str:
    name = page.attributes[element].get("id") or ""
    return name if re.fullmatch(r"[^\s']+", name) else ""

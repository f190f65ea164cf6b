"""Paths of steps up the page: how an element is reached from one that has a name of its own, or from the body."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from treesim_dask.records.page import Page
from treesim_dask.records.steps import SAFE_NAME, Step
from treesim_dask.records.walk import Walk

MAX_CLASSES = 4  # tried one by one; pages with a dozen utility classes have them in no useful order


class Paths:
    """The paths to the elements of one page, of steps that are each made once."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.walk = Walk(page)
        self._steps: dict[int, tuple[Step, bool]] = {}
        roots = (element for element, name in enumerate(page.names) if name in ("svg", "math"))
        self._foreign = {inner for root in roots for inner in range(root, page.ends[root])}

    def path(self, element: int) -> tuple[Step, ...]:
        """Return the path of positions from the body, the root, or an element with an id or class of its own.

        Examples
        --------
        >>> from treesim_dask.records.page import read_page
        >>> [step.css() for step in Paths(read_page(b"<div id=x><p>1<p>2</div>", [])).path(5)]
        ['div#x', 'p:nth-child(2)']
        """
        way: list[Step] = []
        is_first = False
        while not is_first:
            if element not in self._steps:  # whole paths would take the square of the depth of a page in memory
                self._steps[element] = self._path_step(element)
            step, is_first = self._steps[element]
            way.append(step)
            element = self.page.parents[element]
        return tuple(reversed(way))

    def _path_step(self, element: int) -> tuple[Step, bool]:
        """Return the step of a path to an element, and whether a path begins there."""
        if self.page.attributes[element]:
            for named in self.named_steps(element):
                if self.walk.count(named) == 1:
                    return named, True
        if self.page.parents[element] < 0 or self.page.names[element] == "body":
            return self.step(element), True
        place = self.page.positions[element]
        return self.step(element)._replace(first=place, last=place), False

    def step(self, element: int) -> Step:
        """Return the step to an element by its tag."""
        tag = self.page.names[element]
        return Step(tag, foreign=element in self._foreign or not SAFE_NAME.fullmatch(tag))

    def named_steps(self, element: int) -> Iterator[Step]:
        """Yield steps that name an element by its id or a class."""
        step = self.step(element)
        if (name := self.page.attributes[element].get("id")) and re.fullmatch(r"[^\s']+", name):
            yield step._replace(id=name)
        for name in self._usable_classes(element)[:MAX_CLASSES]:
            yield step._replace(classes=(name,))

    def common_step(self, elements: Sequence[int]) -> Step | None:
        """Return a step for all of the elements: their tag and the classes they share; None if their tags differ."""
        names = self.page.names
        step = self.step(elements[0])
        if [names[element] for element in elements].count(step.tag) < len(elements):
            return None
        first = self._usable_classes(elements[0])
        shared = set(first).intersection(*map(self._usable_classes, elements)) if first else ()
        return step._replace(classes=tuple(name for name in first if name in shared))

    def _usable_classes(self, element: int) -> list[str]:
        """Return class names of an element, each once, that XPath can write and find: to it a form feed is no space."""
        classes = self.page.classes[element]
        if classes and "\f" in (self.page.attributes[element]["class"] or ""):
            return []
        return [name for name in dict.fromkeys(classes) if "'" not in name]

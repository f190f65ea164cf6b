"""What a path of steps selects, found by walking the page down from where the path starts.

A path starts at elements with an id, a class or a tag, which tables give at once, and goes on from children to
children, so that the cost is that of the elements on the way. A path that selects a wrong element is given up there.
CSS ignores the case of ids and classes on pages without a doctype, XPath never does: a path must select the same both
ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treesim_dask.records.page import Page
from treesim_dask.records.steps import Step


class Walk:
    """The elements of a page by id, class and tag, and the children of each."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._by_name: dict[str, list[int]] = {}
        self._children: list[list[int]] = [[] for _ in page.names]
        for element, (tag, classes) in enumerate(zip(page.names, page.classes, strict=True)):
            if page.parents[element] >= 0:
                self._children[page.parents[element]].append(element)
            names = {tag, *(f".{name.lower()}" for name in classes)}
            if page.attributes[element].get("id"):
                names.add(f"#{str(page.attributes[element]['id']).lower()}")
            for name in names:
                self._by_name.setdefault(name, []).append(element)

    def selects(self, paths: Sequence[Sequence[Step]], wanted: set[int]) -> bool:
        """Tell whether some paths together select just the wanted elements, whether case counts or not.

        Examples
        --------
        >>> from treesim_dask.records.page import read_page
        >>> walk = Walk(read_page(b"<ul><li>1<li>2</ul><ol><li>3</ol>", []))
        >>> walk.selects([[Step("ul"), Step("li")]], {4, 5}), walk.selects([[Step("li")]], {4, 5})
        (True, False)
        """
        for ignores_case in (True, False):
            found: set[int] = set()
            for path in paths:
                for element in self._select(path, ignores_case):
                    if element not in wanted:
                        return False
                    found.add(element)
            if len(found) < len(wanted):
                return False
        return True

    def _select(self, path: Sequence[Step], ignores_case: bool) -> Iterator[int]:
        start, *steps = path
        name = f"#{start.id.lower()}" if start.id else f".{start.classes[0].lower()}" if start.classes else start.tag
        level: Iterator[int] = iter(self._by_name.get(name, ()))
        level = self._filter(level, start, ignores_case)
        for step in steps:
            level = self._filter(self._below(level, step), step, ignores_case)
        return level

    def _below(self, level: Iterator[int], step: Step) -> Iterator[int]:
        for element in level:
            children = self._children[element]
            yield from children[step.first - 1 : step.last] if step.first else children

    def _filter(self, elements: Iterator[int], step: Step, ignores_case: bool) -> Iterator[int]:
        for element in elements:
            if self._page.names[element] == step.tag and self._has_names(element, step, ignores_case):
                yield element

    def _has_names(self, element: int, step: Step, ignores_case: bool) -> bool:
        if not step.id and not step.classes:
            return True
        own_id, own = self._page.attributes[element].get("id") or "", self._page.classes[element]
        if ignores_case:
            own_id, own = own_id.lower(), [name.lower() for name in own]
            return (not step.id or own_id == step.id.lower()) and all(name.lower() in own for name in step.classes)
        return (not step.id or own_id == step.id) and all(name in own for name in step.classes)

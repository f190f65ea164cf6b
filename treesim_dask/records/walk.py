"""The elements that a path selects, found by walking the page down from where the path starts.

A path starts at elements with an id, a class or a tag, which a table gives at once, and goes on from children to
children, so that the cost is that of the elements on the way. A path that selects a wrong element is given up there.
CSS ignores the case of ids and classes on pages without a doctype, XPath never does: a path must select the same both
ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from treesim_dask.records.page import Page
from treesim_dask.records.steps import Step


class Walk:
    """The elements of a page by id and class, and the children of each."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._named: dict[str, list[int]] = {}  # by ``#id`` and ``.class`` in lower case
        self._tagged: dict[str, list[int]] = {}
        self._children: dict[int, list[int]] = {}
        spellings: set[str] = set()
        for element, (attributes, classes) in enumerate(zip(page.attributes, page.classes, strict=True)):
            own_id = attributes.get("id")
            if not classes and not own_id:
                continue
            names = [f".{name}" for name in classes]
            if own_id:
                names.append(f"#{own_id}")
            spellings.update(names)
            for name in names:
                elements = self._named.setdefault(name.lower(), [])
                if not elements or elements[-1] != element:
                    elements.append(element)
        self._has_several_spellings = len(spellings) > len(self._named)

    def is_alone(self, step: Step) -> bool:
        """Tell whether no other element of the page has the id or one of the classes of a step.

        Examples
        --------
        >>> from treesim_dask.records.page import read_page
        >>> walk = Walk(read_page(b"<p class=a><p class='A b'>", []))
        >>> walk.is_alone(Step("p", classes=("a",))), walk.is_alone(Step("p", classes=("b",)))
        (False, True)
        """
        return any(len(self._named[name]) == 1 for name in _names(step))

    def children(self, element: int) -> list[int]:
        """Return the children of an element."""
        children = self._children.get(element)
        if children is None:
            children = self._children[element] = []
            child = element + 1
            while child < self._page.ends[element]:
                children.append(child)
                child = self._page.ends[child]
        return children

    def selects(self, paths: Sequence[Sequence[Step]], wanted: set[int]) -> bool:
        """Tell whether some paths together select just the wanted elements, whether case counts or not.

        Examples
        --------
        >>> from treesim_dask.records.page import read_page
        >>> walk = Walk(read_page(b"<ul><li>1<li>2</ul><ol><li>3</ol>", []))
        >>> walk.selects([[Step("ul"), Step("li")]], {4, 5}), walk.selects([[Step("li")]], {4, 5})
        (True, False)
        """
        for ignores_case in (True, False) if self._has_several_spellings else (False,):
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
        level = self._filter(self._starts(path[0]), path[0], ignores_case)
        for step in path[1:]:
            level = self._filter(self._below(level, step), step, ignores_case)
        return level

    def _starts(self, step: Step) -> list[int]:
        """Return elements among which are all that match the first step of a path."""
        lists = [self._named.get(name, []) for name in _names(step)]
        if lists:
            return min(lists, key=len)
        if step.tag not in self._tagged:
            self._tagged[step.tag] = [element for element, tag in enumerate(self._page.names) if tag == step.tag]
        return self._tagged[step.tag]

    def _below(self, level: Iterator[int], step: Step) -> Iterator[int]:
        for element in level:
            children = self.children(element)
            yield from children[step.first - 1 : step.last] if step.first else children

    def _filter(self, elements: Iterable[int], step: Step, ignores_case: bool) -> Iterator[int]:
        names, tag, is_named = self._page.names, step.tag, bool(step.id or step.classes)
        for element in elements:
            if names[element] == tag and (not is_named or self._has_names(element, step, ignores_case)):
                yield element

    def _has_names(self, element: int, step: Step, ignores_case: bool) -> bool:
        own_id, own = self._page.attributes[element].get("id") or "", self._page.classes[element]
        if ignores_case:
            own_id, own = own_id.lower(), [name.lower() for name in own]
            return (not step.id or own_id == step.id.lower()) and all(name.lower() in own for name in step.classes)
        return (not step.id or own_id == step.id) and all(name in own for name in step.classes)


def _names(step: Step) -> list[str]:
    """Return the id and the classes of a step as the table has them."""
    names = [f".{name.lower()}" for name in step.classes]
    return [f"#{step.id.lower()}", *names] if step.id else names

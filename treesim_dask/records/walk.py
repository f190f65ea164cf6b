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
        self._named: dict[str, list[int]] = {}  # by ``tag#id`` and ``tag.class`` in lower case
        self._tagged: dict[str, list[int]] = {}
        self._children: dict[int, list[int]] = {}
        spellings: set[str] = set()
        columns = zip(page.names, page.attributes, page.classes, strict=True)
        for element, (tag, attributes, classes) in enumerate(columns):
            own_id = attributes.get("id")
            if not classes and not own_id:
                continue
            names = [f"{tag}.{name}" for name in classes]
            if own_id:
                names.append(f"{tag}#{own_id}")
            spellings.update(names)
            for name in names:
                elements = self._named.setdefault(name.lower(), [])
                if not elements or elements[-1] != element:
                    elements.append(element)
        # where each name has one spelling, it is the same whether case counts or not
        self._cases = (True, False) if len(spellings) > len(self._named) else (False,)

    def count(self, step: Step) -> int:
        """Return how many elements of the page have the tag and the id or class of a step, at least, case ignored.

        Examples
        --------
        >>> from treesim_dask.records.page import read_page
        >>> walk = Walk(read_page(b"<p class=a><p class='A b'>", []))
        >>> walk.count(Step("p", classes=("a",))), walk.count(Step("p", classes=("b",)))
        (2, 1)
        """
        return min(len(self._named[name]) for name in _names(step))

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

    def exact_ends(self, prefix: Sequence[Step], ends: Sequence[Step], wanted: set[int]) -> Iterator[Step]:
        """Yield those of some last steps, all of one tag, with which a path selects just the wanted elements.

        One walk for all of them, given up where none is left.

        Examples
        --------
        >>> from treesim_dask.records.page import read_page
        >>> walk = Walk(read_page(b"<ul><li class=a>1<li class=a>2<li>3</ul>", []))
        >>> [end.css() for end in walk.exact_ends([Step("ul")], [Step("li"), Step("li", classes=("a",))], {4, 5})]
        ['li.a']
        """
        left = list(ends)
        for ignores_case in self._cases:
            met = set()
            for element in self._below(self._select(prefix, ignores_case), Step(ends[0].tag), ignores_case):
                if element in wanted:
                    met.add(element)
                else:
                    left = [end for end in left if not self._is_like(element, end, ignores_case)]
                    if not left:
                        return
            if len(met) < len(wanted):
                return
        for end in left:
            asks_for_more = end.id or end.classes or end.first  # than the tag, which all that were met have
            if not asks_for_more or all(self._is_like(element, end, ignores_case=False) for element in wanted):
                yield end

    def selects(self, paths: Sequence[Sequence[Step]], wanted: set[int]) -> bool:
        """Tell whether some paths together select just the wanted elements, whether case counts or not.

        Examples
        --------
        >>> from treesim_dask.records.page import read_page
        >>> walk = Walk(read_page(b"<ul><li>1<li>2</ul><ol><li>3</ol>", []))
        >>> walk.selects([[Step("ul"), Step("li")]], {4, 5}), walk.selects([[Step("li")]], {4, 5})
        (True, False)
        """
        for ignores_case in self._cases:
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
        """Yield the elements that a path selects, one way down after the other.

        The levels are on a list, not generators inside each other: pages are nested deeper than Python calls may be.
        """
        levels: list[Iterator[int]] = [(e for e in self._starts(path[0]) if self._has_names(e, path[0], ignores_case))]
        while levels:
            element = next(levels[-1], None)
            if element is None:
                levels.pop()
            elif len(levels) < len(path):
                levels.append(self._below((element,), path[len(levels)], ignores_case))
            else:
                yield element

    def _starts(self, step: Step) -> list[int]:
        """Return elements among which are all that match the first step of a path."""
        lists = [self._named.get(name, []) for name in _names(step)]
        if lists:
            return min(lists, key=len)
        if step.tag not in self._tagged:
            self._tagged[step.tag] = [element for element, tag in enumerate(self._page.names) if tag == step.tag]
        return self._tagged[step.tag]

    def _below(self, level: Iterable[int], step: Step, ignores_case: bool) -> Iterator[int]:
        """Yield the children of some elements that match a step."""
        names, is_named = self._page.names, bool(step.id or step.classes)
        for element in level:
            children = self.children(element)
            for child in children[step.first - 1 : step.last] if step.first else children:
                if names[child] == step.tag and (not is_named or self._has_names(child, step, ignores_case)):
                    yield child

    def _is_like(self, element: int, step: Step, ignores_case: bool) -> bool:
        """Tell whether an element has the position and the names of a step."""
        is_there = not step.first or step.first <= self._page.positions[element] <= step.last
        return is_there and self._has_names(element, step, ignores_case)

    def _has_names(self, element: int, step: Step, ignores_case: bool) -> bool:
        """Tell whether an element has the tag, the id and the classes of a step."""
        own_id, own = self._page.attributes[element].get("id") or "", self._page.classes[element]
        if ignores_case:
            step = step._replace(id=step.id.lower(), classes=tuple(name.lower() for name in step.classes))
            own_id, own = own_id.lower(), [name.lower() for name in own]
        return (
            self._page.names[element] == step.tag
            and (not step.id or own_id == step.id)
            and all(name in own for name in step.classes)
        )


def _names(step: Step) -> list[str]:
    """Return the id and the classes of a step as the table has them."""
    names = [f"{step.tag}.{name}".lower() for name in step.classes]
    return [f"{step.tag}#{step.id}".lower(), *names] if step.id else names

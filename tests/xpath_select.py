"""The part of XPath that ``selectors`` writes, evaluated on lexbor's tree: tests by name, id, class and position."""

from __future__ import annotations

import re
from collections.abc import Callable

from treesim_dask.errors import PageError
from treesim_dask.records.page import Page

_STEP = re.compile(r"(//?)([^\s/\[|]+)((?:\[(?:'[^']*'|\"[^\"]*\"|[^\]'\"])*\])*)")
_PREDICATE = re.compile(r"\[((?:'[^']*'|\"[^\"]*\"|[^\]'\"])*)\]")
_TESTS: dict[str, Callable[[Page, int, re.Match[str]], bool]] = {
    r"@id='(.*)'": lambda page, e, found: page.elements[e].attributes.get("id") == found[1],
    r"contains\(concat\(' ', normalize-space\(@class\), ' '\), ' (.*) '\)": lambda page, e, found: (
        found[1] in re.split("[ \t\n\r]+", page.elements[e].attributes.get("class") or "")
    ),
    r"self::(.*)": lambda page, e, found: page.elements[e].tag == found[1],
    r"local-name\(\)=(['\"])(.*)\1": lambda page, e, found: page.elements[e].tag == found[2],
    r"(\d+)": lambda page, e, found: page.positions[e] == int(found[1]),
    r"position\(\)>=(\d+) and position\(\)<=(\d+)": lambda page, e, found: (
        int(found[1]) <= page.positions[e] <= int(found[2])
    ),
}


def select_xpath(page: Page, xpath: str) -> set[int]:
    """Return the numbers of the elements that an XPath of the supported kind selects.

    Examples
    --------
    >>> from treesim_dask.records.page import read_page
    >>> page = read_page(b"<ul><li>1<li class='x y'>2<li>3</ul>", [])
    >>> sorted(select_xpath(page, "//ul/*[position()>=2 and position()<=3][self::li]"))
    [5, 6]
    """
    return set().union(*(_select_path(page, path) for path in re.split(r" \| (?=//)", xpath)))


def _select_path(page: Page, path: str) -> set[int]:
    steps = list(_STEP.finditer(path))
    if "".join(step[0] for step in steps) != path or [step[1] for step in steps] != ["//"] + ["/"] * (len(steps) - 1):
        raise PageError(f"not an XPath of the supported kind, //step/step with simple tests: {path}")
    selected: set[int] | None = None
    for step in steps:
        tests = [_compile(test[1]) for test in _PREDICATE.finditer(step[3])]
        selected = {
            e
            for e, element in enumerate(page.elements)
            if (selected is None or page.parents[e] in selected)
            and step[2] in ("*", element.tag)
            and all(test(page, e) for test in tests)
        }
    return selected or set()


def _compile(test: str) -> Callable[[Page, int], bool]:
    for pattern, holds in _TESTS.items():
        if found := re.fullmatch(pattern, test):
            return lambda page, element: holds(page, element, found)
    raise PageError(f"not a test of the supported kind of XPath: [{test}]")

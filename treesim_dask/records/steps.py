"""One step of a path from parent to child, in CSS and in XPath."""

from __future__ import annotations

import re
from typing import NamedTuple

SAFE_NAME = re.compile(r"-?[A-Za-z_][A-Za-z0-9_-]*")


class Step(NamedTuple):
    """One element of a path from parent to child: its tag, and whatever more it must have.

    ``first`` and ``last`` bound its position among its siblings, counted from 1. Elements of SVG and MathML have
    names of another namespace, which XPath must ask for in another way.
    """

    tag: str
    foreign: bool = False
    id: str = ""
    classes: tuple[str, ...] = ()
    first: int = 0
    last: int = 0

    def css(self) -> str:
        """Write the step in CSS."""
        text = _escape_css(self.tag) + (f"#{_escape_css(self.id)}" if self.id else "")
        text += "".join(f".{_escape_css(name)}" for name in self.classes)
        if self.first and self.first == self.last:
            return f"{text}:nth-child({self.first})"
        return f"{text}:nth-child(n+{self.first}):nth-child(-n+{self.last})" if self.first else text

    def xpath(self) -> str:
        """Write the step in XPath."""
        tests = [f"@id='{self.id}'"] if self.id else []
        tests += [f"contains(concat(' ', normalize-space(@class), ' '), ' {name} ')" for name in self.classes]
        more = "".join(f"[{test}]" for test in tests)
        quote = "'" if "'" not in self.tag else '"'  # the parser takes both in the name of a tag
        named = f"[local-name()={quote}{self.tag}{quote}]" if self.foreign else f"[self::{self.tag}]"
        if not self.first:
            return f"*{named}{more}" if self.foreign else f"{self.tag}{more}"
        place = f"{self.first}" if self.first == self.last else f"position()>={self.first} and position()<={self.last}"
        return f"*[{place}]{named}{more}"


def _escape_css(name: str) -> str:
    """Escape a name as CSS asks: punctuation by a backslash, a leading digit and all that is no letter by its code."""
    if SAFE_NAME.fullmatch(name):
        return name
    name = re.sub(r"[^\w-]", lambda found: _escape_character(found[0]), name)
    return re.sub(r"^(-?)(\d)|^-$", lambda found: f"{found[1] or ''}\\{ord(found[2] or '-'):x} ", name)


def _escape_character(character: str) -> str:
    return "\\" + character if "!" <= character <= "~" else f"\\{ord(character):x} "

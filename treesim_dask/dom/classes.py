"""The class names of the elements of a page, for the features that look at style."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import numpy as np
from selectolax.lexbor import LexborNode

from treesim_dask.types import ClassBatch, offsets_of

_WHITE_SPACE = re.compile(r"[ \t\n\f\r]+")  # of HTML: str.split takes many more characters for it


class ClassCollector:
    """Gathers the classes of every element, page after page, in document order."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._lengths: list[int] = []

    def add(self, root: LexborNode) -> None:
        """Add the elements of one page."""
        for node in root.traverse():
            if node.is_element_node:
                tokens = class_tokens(node.attributes.get("class"))
                self._tokens.extend(tokens)
                self._lengths.append(len(tokens))

    def batch(self) -> ClassBatch:
        """Return the classes of all elements added."""
        return ClassBatch(offsets_of(np.array(self._lengths, np.int64)), np.array(self._tokens, np.uint32))


@lru_cache(maxsize=2**16)
def class_tokens(attribute: str | None) -> tuple[int, ...]:
    """Hash the distinct names of a class attribute to 32 bits each, in ascending order.

    Examples
    --------
    >>> class_tokens("card wide card") == class_tokens("wide card"), class_tokens(None)
    (True, ())
    """
    names = set(_WHITE_SPACE.split(attribute or "")) - {""}
    return tuple(sorted(_token(name) for name in names))


def _token(name: str) -> int:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest, "little")

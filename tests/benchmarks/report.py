"""The pipeline of the tree-similarity report, rebuilt from its text.

warcio reads, lxml parses, a recursion makes nested tuples and binary branches of the tree, a dictionary is the sparse
matrix, datasketch hashes the set of branches and holds the LSH model. The figures of the report (threshold 0.7, weights
0.8 and 0.2, 128 permutations) are kept.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from treesim_dask.config import DEFAULT_SPLICED_TAGS

N_PERMUTATIONS = 128
THRESHOLD, WEIGHTS = 0.7, (0.8, 0.2)
_SPLICED = frozenset(DEFAULT_SPLICED_TAGS)
Tree = tuple[str, list[Any]]


def read_html(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield URL and body of the HTML pages."""
    from warcio.archiveiterator import ArchiveIterator

    for file in files:
        with open(file, "rb") as stream:  # noqa: PTH123
            for record in ArchiveIterator(stream):
                if record.rec_type == "response" and is_html(record.http_headers):
                    yield record.rec_headers.get_header("WARC-Target-URI"), record.content_stream().read()


def is_html(headers: Any) -> bool:
    """Tell whether a response is a page."""
    if headers is None or not headers.get_statuscode().startswith("2"):
        return False
    return "html" in (headers.get_header("Content-Type") or "")


def process_page(page: tuple[str, bytes]) -> tuple[str, Any, Counter[str]] | None:
    """Return URL, MinHash and branch counts of a page; None for one that lxml refuses."""
    import lxml.html
    from datasketch import MinHash
    from lxml.etree import LxmlError

    sys.setrecursionlimit(20_000)
    url, html = page
    try:
        root = lxml.html.document_fromstring(html)
    except (LxmlError, ValueError):
        return None
    counts: Counter[str] = Counter()
    collect_branches(extract_tree(root), None, counts)
    minhash = MinHash(num_perm=N_PERMUTATIONS)
    minhash.update_batch([branch.encode() for branch in counts])
    return url, minhash, counts


def extract_tree(element: Any) -> Tree:
    """Return an element as (tag, children), without the tags that say nothing of the structure."""
    children: list[Tree] = []
    for child in element:
        if isinstance(child.tag, str):
            tag, below = extract_tree(child)
            children.extend(below if tag in _SPLICED else [(tag, below)])
    return element.tag, children


def collect_branches(tree: Tree, sibling: str | None, counts: Counter[str]) -> None:
    """Count the binary branches of a tree."""
    tag, children = tree
    first = children[0][0] if children else "ε"
    counts[f"{tag}.{first}.{sibling or 'ε'}"] += 1
    for child, following in zip(children, [*children[1:], None], strict=False):
        collect_branches(child, following and following[0], counts)


class Model:
    """The LSH model and the matrices of all pages, in memory as in the report."""

    def __init__(self) -> None:
        from datasketch import MinHashLSH

        self._lsh = MinHashLSH(threshold=THRESHOLD, num_perm=N_PERMUTATIONS, weights=WEIGHTS)
        self._matrices: dict[str, Counter[str]] = {}

    def add(self, page: tuple[str, Any, Counter[str]] | None) -> None:
        """Add a page; a URL that is there already stays as it is."""
        if page is not None and page[0] not in self._matrices:
            url, minhash, counts = page
            self._lsh.insert(url, minhash)
            self._matrices[url] = counts

    def __len__(self) -> int:
        return len(self._matrices)

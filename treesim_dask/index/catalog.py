"""``catalog.json.gz``: what the segments say of themselves, gathered in one file.

Hundreds of segments on an object store would be hundreds of requests before the first answer. The catalog makes that
one. It is a cache and nothing else: segments it does not know are read one by one, segments that are gone are not
looked up in it, and whoever is about to replace a segment removes it first.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from typing import Any

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.manifest import parse_json, to_json
from treesim_dask.index.store import Store

CATALOG = "catalog.json.gz"
_SUMMARIES = "segments"


def read_catalog(store: Store) -> dict[str, dict[str, Any]]:
    """Return the summaries that the catalog holds by segment id; none where it is missing or cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> write_catalog(store, {"0123456789abcdef": {"n_pages": 3}})
    >>> read_catalog(store)
    {'0123456789abcdef': {'n_pages': 3}}
    """
    try:
        content = parse_json(gzip.decompress(store.read_bytes(CATALOG)), CATALOG)
    except (FileNotFoundError, NotADirectoryError, IndexFormatError, EOFError, gzip.BadGzipFile, zlib.error):
        return {}
    summaries: dict[str, dict[str, Any]] = content.get(_SUMMARIES, {})
    return summaries


def write_catalog(store: Store, summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the catalog: the same bytes for the same summaries."""
    content = {_SUMMARIES: {name: dict(summary) for name, summary in summaries.items()}}
    store.write_bytes(CATALOG, gzip.compress(to_json(content), mtime=0))


def forget_segments(store: Store, names: set[str]) -> None:
    """Remove the catalog if it knows one of the segments that are about to be replaced."""
    if names & read_catalog(store).keys():
        store.remove(CATALOG)

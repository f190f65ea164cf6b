"""The vectors of shapes: from the index, or, where it was built without them, from the archives once more."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import PageError
from treesim_dask.index.manifest import read_manifest
from treesim_dask.index.parts import join_vectors
from treesim_dask.index.segment import Segment
from treesim_dask.index.tables import page_rows
from treesim_dask.types import Int64Array, ShapeBatch

_REQUESTS_AT_ONCE = 8
_PAGES_AT_ONCE = 256


def read_vectors(segment: Segment, shapes: Int64Array, storage_options: Mapping[str, Any] | None = None) -> ShapeBatch:
    """Return the vectors of some shapes.

    Parameters
    ----------
    segment
        Where they are.
    shapes
        Shape (n_shapes,), dtype int64: in ascending order.
    storage_options
        For reading archives, if the segment was built without vectors: one page of each shape is then read again by
        its offset and length.
    """
    if segment.has_vectors:
        return segment.read_shapes(shapes)
    config = read_manifest(segment.store)
    rows = segment.first_pages(shapes, np.ones(len(shapes), np.int64))
    pages = page_rows(segment.read_pages(rows, ["warc", "offset", "length"]))
    read = partial(_read_html, storage_options=storage_options)
    batches = []
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        for first in range(0, len(pages), _PAGES_AT_ONCE):
            batches.append(shape_pages(list(pool.map(read, pages[first : first + _PAGES_AT_ONCE])), config))
    return join_vectors(batches)


def _read_html(page: Mapping[str, Any], storage_options: Mapping[str, Any] | None) -> bytes:
    from treesim_dask.crawl.pages import read_page_at

    try:
        found = read_page_at(page["warc"], page["offset"], page["length"], storage_options=storage_options)
    except PageError as error:
        raise PageError(f"the index was built without vectors and needs its archives: {error}") from None
    return found.html[0]

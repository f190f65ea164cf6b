"""Deleting: which pages are meant, and the tombstones that say so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from treesim_dask.index.live import live_segments, origin_digests
from treesim_dask.index.segment import Segment, unpublish
from treesim_dask.index.store import Store
from treesim_dask.index.tables import page_rows
from treesim_dask.index.tombstones import write_tombstone
from treesim_dask.types import Int64Array, UInt64Array

_ROWS_AT_ONCE = 2**16


def delete_pages(store: Store, is_meant: Callable[[dict[str, Any]], bool], page_ids: Collection[str] = ()) -> int:
    """Delete pages and return how many.

    Parameters
    ----------
    store
        Where the index lies.
    is_meant
        Tells of a page, given its ``url`` and ``warc``, whether to delete it.
    page_ids
        Pages to delete besides.
    """
    deleted: dict[tuple[str, str], list[int]] = defaultdict(list)
    for segment in live_segments(store):
        digests = origin_digests(segment)
        for origin in _origins_meant(segment, is_meant, page_ids).tolist():
            name = segment.origins[origin >> 32]
            deleted[name, digests[name]].append(origin & (2**32 - 1))
    if deleted:
        write_tombstone(store, [(name, digest, sorted(rows)) for (name, digest), rows in deleted.items()])
    return sum(map(len, deleted.values()))


def delete_sources(store: Store, origins: Collection[str]) -> None:
    """Delete all pages of some sources, given by the names of the segments that were written for them."""
    whole: list[tuple[str, str, None]] = []
    for segment in live_segments(store):
        if not segment.is_compacted and segment.segment_id in origins:
            unpublish(store, segment.segment_id)
        elif segment.is_compacted:
            whole += [(name, digest, None) for name, digest in origin_digests(segment).items() if name in origins]
    if whole:
        write_tombstone(store, whole)


def _origins_meant(
    segment: Segment, is_meant: Callable[[dict[str, Any]], bool], page_ids: Collection[str]
) -> UInt64Array:
    rows = segment.live_rows()
    found: list[Int64Array] = [np.empty(0, np.int64)]
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        pages = page_rows(segment.read_pages(some, ["url", "warc"]))
        ids = segment.page_ids(segment.page_origins(some)) if page_ids else [""] * len(some)
        meant = [is_meant(page) or name in page_ids for page, name in zip(pages, ids, strict=True)]
        found.append(some[np.array(meant, bool)])
    return segment.page_origins(np.concatenate(found))

"""Deleting: which pages are meant, and the tombstones that say so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from treesim_dask.index.live import live_segments, origin_digests
from treesim_dask.index.segment import Segment, unpublish
from treesim_dask.index.store import Store
from treesim_dask.index.tables import page_rows
from treesim_dask.index.tombstones import Tombstones, write_tombstone
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
    segments = live_segments(store)
    return _bury(store, [(segment, _origins_meant(segment, is_meant, page_ids)) for segment in segments])


def delete_copies(store: Store, kept: Collection[str], others: Collection[str]) -> int:
    """Delete the pages of some sources that others hold too, from the same place of the same file; return how many.

    Parameters
    ----------
    store
        Where the index lies.
    kept, others
        The sources that keep such a page and those that lose it, by the names of the segments written for them.
    """
    segments = live_segments(store)
    held = {place for segment in segments for place in _places_of(segment, kept)[1]}
    copies = []
    for segment in segments if held else ():
        origins, places = _places_of(segment, others)
        copies.append((segment, origins[np.array([place in held for place in places], bool)]))
    return _bury(store, copies)


def _bury(store: Store, meant: Sequence[tuple[Segment, UInt64Array]]) -> int:
    """Write a tombstone for pages, given by segment as `Segment.page_origins` names them; return how many they are."""
    deleted = {
        (name, origin_digests(segment)[name]): rows
        for segment, origins in meant
        if len(origins)
        for name, rows in rows_by_origin(segment, origins).items()
    }
    write_tombstone(store, Tombstones(deleted))
    return sum(map(len, deleted.values()))


def rows_by_origin(segment: Segment, origins: UInt64Array) -> dict[str, UInt64Array]:
    """Return the rows that pages had where they were first written, sorted, by the name of the segment written there.

    Parameters
    ----------
    segment
        Where the pages are.
    origins
        As `Segment.page_origins` names them.
    """
    ordered = np.sort(origins)
    numbers, starts = np.unique(ordered >> np.uint64(32), return_index=True)
    pieces = np.split(ordered & np.uint64(2**32 - 1), starts[1:])
    return {segment.origins[number]: rows for number, rows in zip(numbers.tolist(), pieces, strict=False)}


def _places_of(segment: Segment, sources: Collection[str]) -> tuple[UInt64Array, list[tuple[str, int]]]:
    """Return the live pages of some sources in a segment, and the file and offset that each comes from."""
    numbers = [number for number, name in enumerate(segment.origins) if name in sources]
    if not numbers:
        return np.empty(0, np.uint64), []
    rows = segment.live_rows()
    origins = segment.page_origins(rows)
    ours = np.isin(origins >> np.uint64(32), np.array(numbers, np.uint64))
    pages = segment.read_pages(rows[ours], ["warc", "offset"])
    places = zip(pages.column("warc").to_pylist(), pages.column("offset").to_pylist(), strict=True)
    return origins[ours], list(places)


def delete_sources(store: Store, origins: Collection[str]) -> None:
    """Delete all pages of some sources, given by the names of the segments that were written for them."""
    whole: dict[str, set[str]] = {}
    for segment in live_segments(store):
        if segment.is_compacted:
            whole[segment.segment_id] = segment.live_origins().intersection(origins)
        elif segment.segment_id in origins:
            unpublish(store, segment.segment_id)
    write_tombstone(store, Tombstones(whole=whole))


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

"""Two indexes into one: segments are copied as they are, each published whole.

Of a source that both hold, the pages that both still have are left: what was deleted from one of them is deleted. It is
the pages themselves that are compared, so that it makes no difference which of the two was compacted since.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError, IndexFormatError
from treesim_dask.index.compaction import remove_replaced
from treesim_dask.index.deletion import rows_by_origin
from treesim_dask.index.leftovers import clear_leftovers
from treesim_dask.index.live import dead_segments, live_segments, origin_digests
from treesim_dask.index.manifest import MANIFEST, read_manifest, write_manifest
from treesim_dask.index.segment import SEGMENTS, SUMMARY, Segment, gather_catalog, list_segments
from treesim_dask.index.store import MERGE, Store, storage_errors
from treesim_dask.index.tombstones import DELETED, Tombstones, list_tombstones, write_tombstone
from treesim_dask.types import UInt64Array


def merge_indexes(target: Store, others: list[Store]) -> Iterator[Segment]:
    """Add the pages of other indexes to an index, a new one where there is none; yield each segment copied.

    A source that several of them hold in the same state counts once, without the pages that were deleted from any of
    them. Indexes with other parameters, and sources that are there in another state, are refused before anything is
    written.
    """
    is_new = not target.exists(MANIFEST)
    config = read_manifest(others[0] if is_new else target)
    known: dict[str, tuple[str, str]] = {}
    for store in [*([] if is_new else [target]), *others]:
        advice = "only indexes with equal parameters can be merged"
        read_manifest(store).refuse_other(config, f"the index at {store.url} was built", advice)
        _refuse_other_states(store, known)
    with ExitStack() as stack:
        if is_new:
            stack.enter_context(_new_index(target, config))
        stack.enter_context(target.claim(MERGE))
        clear_leftovers(target)
        copied = set()
        for store in others:
            for segment in _add_index(store, target):
                copied.add(segment.segment_id)
                yield segment
        remove_replaced(target, dead_segments(target))
        gather_catalog(target, copied)


@contextmanager
def _new_index(target: Store, config: IndexConfig) -> Iterator[None]:
    """Write the parameters of a new index; take them back if the block raises before a segment is published."""
    was_there = target.exists()
    write_manifest(target, config)
    try:
        yield
    except Exception:
        if not list_segments(target):
            for name in list_tombstones(target):
                target.remove(name)
            target.remove(MANIFEST)
            for name in (DELETED, SEGMENTS, *([] if was_there else [""])):
                target.remove_if_empty(name)
        raise


def _refuse_other_states(store: Store, known: dict[str, tuple[str, str]]) -> None:
    for segment in live_segments(store):
        digests = origin_digests(segment)
        for name in segment.live_origins():
            digest, url = known.setdefault(name, (digests[name], store.url))
            if digest != digests[name]:
                raise ConfigError(
                    f"{url} and {store.url} both hold the source of segment {name}, in different states; "
                    "build it again in one of them, or delete its pages and compact"
                )


def _add_index(store: Store, target: Store) -> Iterator[Segment]:
    """Copy what the target lacks. What is deleted is so before the pages are there, and stays so if it ends here."""
    for name in list_tombstones(store):
        target.write_bytes(name, store.read_bytes(name))
    ours, theirs = live_segments(target), live_segments(store)
    present = {name for segment in ours for name in segment.live_origins()}
    missing = [segment for segment in theirs if not segment.live_origins() <= present]
    _bury_differences(target, ours, theirs, {name for segment in missing for name in segment.live_origins()})
    for segment in missing:
        _bury_what_is_gone(target, segment)
        _copy_segment(segment, target)
        yield segment


def _bury_differences(
    target: Store, ours: Sequence[Segment], theirs: Sequence[Segment], copied: Collection[str]
) -> None:
    """Delete of each source that both hold what one of them lacks."""
    present = {name for segment in ours for name in segment.live_origins()}
    shared = present.intersection(name for segment in theirs for name in segment.live_origins())
    pages, others = _live_pages(ours, shared), _live_pages(theirs, shared)
    gone = {}
    for key in pages.keys() | others.keys():
        mine, other = (some.get(key, np.empty(0, np.uint64)) for some in (pages, others))
        rows = np.setxor1d(mine, other) if key[0] in copied else np.setdiff1d(mine, other)
        if len(rows):
            gone[key] = rows
    write_tombstone(target, Tombstones(gone))


def _live_pages(segments: Sequence[Segment], sources: Collection[str]) -> dict[tuple[str, str], UInt64Array]:
    """Return the rows of the pages of some sources that are not deleted, by name and digest."""
    pages = {}
    for segment in segments:
        if segment.live_origins().intersection(sources):
            digests = origin_digests(segment)
            rows = rows_by_origin(segment, segment.page_origins(segment.live_rows()))
            pages.update({(name, digests[name]): rows[name] for name in rows.keys() & sources})
    return pages


def _bury_what_is_gone(target: Store, segment: Segment) -> None:
    """Take those sources out of a segment to be copied that are no longer live in it, but elsewhere or not at all."""
    if gone := set(segment.origins) - segment.live_origins():
        write_tombstone(target, Tombstones(whole={segment.segment_id: gone}))


def _copy_segment(segment: Segment, target: Store) -> None:
    source = f"{SEGMENTS}/{segment.segment_id}"
    folder = target.make_staging(segment.segment_id)
    try:
        with storage_errors(target.url):
            for name in (*segment.summary.files, SUMMARY):
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    path.write_bytes(segment.store.read_bytes(f"{source}/{name}"))
                except FileNotFoundError:
                    raise IndexFormatError(f"{segment.store.url}/{source}/{name} is missing; run `check`") from None
        target.publish(folder, source, SUMMARY)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

"""Is everything there, and as it was written? Checksums, counts and orphans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.catalog import CATALOG, read_catalog
from treesim_dask.index.live import dead_segments
from treesim_dask.index.manifest import MANIFEST, read_manifest
from treesim_dask.index.parts import SIGNATURES
from treesim_dask.index.segment import SEGMENTS, SUMMARY, Segment, SegmentSummary, list_segments
from treesim_dask.index.store import STAGING, Store
from treesim_dask.index.tables import PAGES
from treesim_dask.index.tombstones import DELETED, list_tombstones, read_tombstone
from treesim_dask.index.writer import file_digest

# what reading a file of any content may raise: a check goes on with the next
_DAMAGE = (IndexFormatError, OSError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in an index.

    Parameters
    ----------
    path
        The file or folder, relative to the index.
    what
        What is wrong with it.
    is_orphan
        True for leftovers that belong to no published segment: removing them loses nothing.
    """

    path: str
    what: str
    is_orphan: bool = False


def check_index(
    store: Store, on_segment: Callable[[int, int], None] = lambda done, total: None, *, quick: bool = False
) -> Iterator[Problem]:
    """Yield everything that is wrong with an index.

    Parameters
    ----------
    store
        Where the index lies. A damaged or missing ``index.json`` is an error, not a problem in the list.
    on_segment
        Called after each segment with the number checked and the number of all.
    quick
        Compare names and sizes only: a listing and the catalog tell them, no other file is opened.
    """
    fingerprint = read_manifest(store).fingerprint
    for name in store.list_abandoned():
        yield Problem(f"{STAGING}/{name}", "left by an interrupted build or compaction", is_orphan=True)
    for name in store.list_names(""):
        if name not in (MANIFEST, SEGMENTS, STAGING, CATALOG, DELETED):
            yield Problem(name, "no part of an index", is_orphan=name.startswith(f".{MANIFEST}."))
    yield from _check_tombstones(store)
    sizes = _sizes_by_segment(store)
    known = {segment.segment_id: segment for segment in list_segments(store)} if quick else {}
    catalog = {} if quick else read_catalog(store)
    replaced = _find_replaced(store)
    for done, (name, files) in enumerate(sorted(sizes.items()), 1):
        if name in replaced:
            what = "replaced by compaction: an interrupted one left it"
            yield Problem(f"{SEGMENTS}/{name}", what, is_orphan=True)
        else:
            segment = known.get(name) or Segment(store, name)
            try:
                yield from _check_segment(segment, files, fingerprint, catalog.get(name), quick)
            except _DAMAGE as error:
                what = f"cannot be checked: {type(error).__name__}: {error}"
                yield Problem(f"{SEGMENTS}/{name}", what)
        on_segment(done, len(sizes))


def _find_replaced(store: Store) -> set[str]:
    """Return the segments that compacted ones took the place of; none where a summary is damaged, which is told."""
    try:
        return {segment.segment_id for segment in dead_segments(store)}
    except _DAMAGE:
        return set()


def _check_tombstones(store: Store) -> Iterator[Problem]:
    for name in list_tombstones(store):
        try:
            read_tombstone(store, name)
        except _DAMAGE as error:
            yield Problem(name, str(error))


def _sizes_by_segment(store: Store) -> dict[str, dict[str, int]]:
    """Return the size of each file of each segment, from one listing of them all."""
    folders = store.list_names(SEGMENTS) if store.is_local else []  # an object store has no empty ones
    sizes: dict[str, dict[str, int]] = {name: {} for name in folders}
    for path, size in store.find_sizes(SEGMENTS).items():
        name, _, part = path.partition("/")
        sizes.setdefault(name, {})[part] = size
    return sizes


def remove_orphans(store: Store, problems: list[Problem]) -> list[Problem]:
    """Remove the orphans among the problems and return them."""
    orphans = [problem for problem in problems if problem.is_orphan]
    for orphan in orphans:
        store.remove(orphan.path)
    store.remove_if_empty(STAGING)
    return orphans


def _check_segment(
    segment: Segment, sizes: dict[str, int], fingerprint: str, cataloged: dict[str, Any] | None, quick: bool
) -> Iterator[Problem]:
    folder = f"{SEGMENTS}/{segment.segment_id}"
    if SUMMARY not in sizes:
        yield Problem(folder, "never published: an interrupted build or compaction left it", is_orphan=True)
        return
    try:
        summary = segment.summary
    except IndexFormatError as error:
        yield Problem(f"{folder}/{SUMMARY}", str(error))
        return
    if summary.fingerprint != fingerprint:
        yield Problem(folder, f"built with other parameters: {summary.fingerprint}, the index has {fingerprint}")
    if cataloged not in (None, summary.to_dict()):
        yield Problem(CATALOG, f"says something else of {folder} than its {SUMMARY}", is_orphan=True)
    damaged = list(_check_files(segment.store, folder, summary, sizes, quick))
    yield from damaged
    if not damaged and not quick:
        yield from _check_counts(segment, folder)


def _check_files(
    store: Store, folder: str, summary: SegmentSummary, sizes: dict[str, int], quick: bool
) -> Iterator[Problem]:
    for path, (size, digest) in summary.files.items():
        if path not in sizes:
            yield Problem(f"{folder}/{path}", "missing")
        elif sizes[path] != size:
            yield Problem(f"{folder}/{path}", f"has {sizes[path]} bytes, {size} were written")
        elif not quick and (what := _find_change(store, f"{folder}/{path}", digest)):
            yield Problem(f"{folder}/{path}", what)
    for path in sorted(sizes.keys() - summary.files.keys() - {SUMMARY}):
        yield Problem(f"{folder}/{path}", "not written by the build", is_orphan=True)


def _find_change(store: Store, path: str, digest: str) -> str | None:
    try:
        is_same = file_digest(store.read_bytes(path)) == digest
    except OSError as error:
        return f"cannot be read: {error}"
    return None if is_same else "its content has changed: the checksum differs"


def _check_counts(segment: Segment, folder: str) -> Iterator[Problem]:
    summary = segment.summary
    if len(segment.page_shapes) != summary.n_pages:
        yield Problem(f"{folder}/{PAGES}", f"has {len(segment.page_shapes)} rows, {summary.n_pages} were counted")
    elif summary.n_pages and int(segment.page_shapes.max()) >= summary.n_shapes:
        yield Problem(f"{folder}/{PAGES}", f"points at a shape beyond the {summary.n_shapes} there are")
    n_signatures = sum(array.shape[0] for array in segment.signature_arrays)
    if n_signatures != summary.n_shapes:
        yield Problem(f"{folder}/{SIGNATURES}", f"has {n_signatures} rows for {summary.n_shapes} shapes")

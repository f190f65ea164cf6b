"""Is everything there, and as it was written? Checksums, counts and orphans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.live import dead_segments
from treesim_dask.index.manifest import MANIFEST, read_manifest
from treesim_dask.index.parts import SIGNATURES
from treesim_dask.index.segment import SEGMENTS, SUMMARY, Segment, SegmentSummary
from treesim_dask.index.store import STAGING, Store
from treesim_dask.index.tables import PAGES
from treesim_dask.index.tombstones import DELETED
from treesim_dask.index.writer import file_digest


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


def check_index(store: Store, on_segment: Callable[[int, int], None] = lambda done, total: None) -> Iterator[Problem]:
    """Yield everything that is wrong with an index.

    Parameters
    ----------
    store
        Where the index lies. A damaged or missing ``index.json`` is an error, not a problem in the list.
    on_segment
        Called after each segment with the number checked and the number of all.
    """
    fingerprint = read_manifest(store).fingerprint
    for name in store.list_names(STAGING):
        yield Problem(f"{STAGING}/{name}", "left by an interrupted build or compaction", is_orphan=True)
    for name in store.list_names(""):
        if name not in (MANIFEST, SEGMENTS, STAGING, DELETED):
            yield Problem(name, "no part of an index", is_orphan=name.startswith(f".{MANIFEST}."))
    names = store.list_names(SEGMENTS)
    replaced = _find_replaced(store)
    for done, name in enumerate(names, 1):
        if name in replaced:
            what = "replaced by compaction: an interrupted one left it"
            yield Problem(f"{SEGMENTS}/{name}", what, is_orphan=True)
        else:
            yield from _check_segment(store, name, fingerprint)
        on_segment(done, len(names))


def remove_orphans(store: Store, problems: list[Problem]) -> list[Problem]:
    """Remove the orphans among the problems and return them."""
    orphans = [problem for problem in problems if problem.is_orphan]
    for orphan in orphans:
        store.remove(orphan.path)
    if not store.list_names(STAGING):
        store.remove(STAGING)
    return orphans


def _find_replaced(store: Store) -> set[str]:
    """Return the segments that compacted ones took the place of; none where a summary is damaged, which is told."""
    try:
        return {segment.segment_id for segment in dead_segments(store)}
    except IndexFormatError:
        return set()


def _check_segment(store: Store, name: str, fingerprint: str) -> Iterator[Problem]:
    folder = f"{SEGMENTS}/{name}"
    sizes = store.find_sizes(folder)
    if SUMMARY not in sizes:
        yield Problem(folder, "never published: an interrupted build or compaction left it", is_orphan=True)
        return
    segment = Segment(store, name)
    try:
        summary = segment.summary
    except IndexFormatError as error:
        yield Problem(f"{folder}/{SUMMARY}", str(error))
        return
    if summary.fingerprint != fingerprint:
        yield Problem(folder, f"built with other parameters: {summary.fingerprint}, the index has {fingerprint}")
    damaged = list(_check_files(store, folder, summary, sizes))
    yield from damaged
    if not damaged:
        yield from _check_counts(segment, folder)


def _check_files(store: Store, folder: str, summary: SegmentSummary, sizes: dict[str, int]) -> Iterator[Problem]:
    for path, (size, digest) in summary.files.items():
        if path not in sizes:
            yield Problem(f"{folder}/{path}", "missing")
        elif sizes[path] != size:
            yield Problem(f"{folder}/{path}", f"has {sizes[path]} bytes, {size} were written")
        elif file_digest(store.read_bytes(f"{folder}/{path}")) != digest:
            yield Problem(f"{folder}/{path}", "its content has changed: the checksum differs")
    for path in sorted(sizes.keys() - summary.files.keys() - {SUMMARY}):
        yield Problem(f"{folder}/{path}", "not written by the build", is_orphan=True)


def _check_counts(segment: Segment, folder: str) -> Iterator[Problem]:
    summary = segment.summary
    if len(segment.page_shapes) != summary.n_pages:
        yield Problem(f"{folder}/{PAGES}", f"has {len(segment.page_shapes)} rows, {summary.n_pages} were counted")
    elif summary.n_pages and int(segment.page_shapes.max()) >= summary.n_shapes:
        yield Problem(f"{folder}/{PAGES}", f"points at a shape beyond the {summary.n_shapes} there are")
    n_signatures = sum(array.shape[0] for array in segment.signature_arrays)
    if n_signatures != summary.n_shapes:
        yield Problem(f"{folder}/{SIGNATURES}", f"has {n_signatures} rows for {summary.n_shapes} shapes")

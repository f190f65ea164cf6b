"""Is everything there, and as it was written? Checksums, counts and orphans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.catalog import CATALOG, read_catalog
from treesim_dask.index.compaction import is_steps
from treesim_dask.index.leftovers import SEGMENT_NAME, clear_leftover
from treesim_dask.index.live import dead_segments
from treesim_dask.index.manifest import MANIFEST, read_manifest
from treesim_dask.index.parts import SIGNATURES
from treesim_dask.index.segment import SEGMENTS, SUMMARY, Segment, SegmentSummary, list_segments
from treesim_dask.index.store import COMPACTION, REPAIR, STAGING, Store, staged_for
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
    store: Store,
    on_segment: Callable[[int, int], None] = lambda done, total: None,
    *,
    quick: bool = False,
    mine: str = "",
) -> Iterator[Problem]:
    """Yield everything that is wrong with an index.

    What is not finished is no problem while others are at work on it.

    Parameters
    ----------
    store
        Where the index lies. A damaged or missing ``index.json`` is an error, not a problem in the list.
    on_segment
        Called after each segment with the number checked and the number of all.
    quick
        Compare names and sizes only: a listing and the catalog tell them, no other file is opened.
    mine
        What this process has announced: it is not at work on the segments.
    """
    fingerprint = read_manifest(store).fingerprint
    yield from _check_staging(store, mine)
    for name in store.list_names(""):
        if name not in (MANIFEST, SEGMENTS, STAGING, CATALOG, DELETED):
            yield Problem(name, "no part of an index", is_orphan=name.startswith(f".{MANIFEST}."))
    yield from _check_tombstones(store)
    sizes = _sizes_by_segment(store)
    unfinished = _find_unfinished(store, sizes, mine)
    known = {segment.segment_id: segment for segment in list_segments(store)} if quick else {}
    catalog = {} if quick else read_catalog(store)
    for done, (name, files) in enumerate(sorted(sizes.items()), 1):
        if name in unfinished:
            if unfinished[name]:
                yield Problem(f"{SEGMENTS}/{name}", unfinished[name], is_orphan=True)
        elif not SEGMENT_NAME.fullmatch(name):
            yield Problem(f"{SEGMENTS}/{name}", "no part of an index")
        else:
            segment = known.get(name) or Segment(store, name)
            try:
                yield from _check_segment(segment, files, fingerprint, catalog.get(name), quick)
            except _DAMAGE as error:
                what = f"cannot be checked: {type(error).__name__}: {error}"
                yield Problem(f"{SEGMENTS}/{name}", what)
        on_segment(done, len(sizes))


def repair_index(
    store: Store, on_segment: Callable[[int, int], None] = lambda done, total: None, *, quick: bool = False
) -> list[Problem]:
    """Remove the orphans of an index and return what else is wrong with it; see `check_index`.

    It is refused while the index is compacted or merged into, and leaves alone what a build is at work on.
    """
    read_manifest(store)  # a claim would make a folder where there is none
    with store.claim(REPAIR) as mine:
        problems = list(check_index(store, on_segment, quick=quick, mine=mine))
        unfinished = _find_unfinished(store, _sizes_by_segment(store), mine)  # the check may have taken hours
        for problem in problems:
            folder, _, name = problem.path.partition("/")
            if folder == STAGING and problem.is_orphan:
                clear_leftover(store, name)
            elif problem.is_orphan and (folder != SEGMENTS or "/" in name or unfinished.get(name)):
                store.remove(problem.path)
    return [problem for problem in problems if not problem.is_orphan]


def _check_staging(store: Store, mine: str) -> Iterator[Problem]:
    if not (names := store.list_folders(STAGING)):
        return
    abandoned, at_work = store.list_abandoned(), store.list_at_work(mine)
    is_compacted = any(staged_for(name) == COMPACTION for name in at_work)
    for name in names:
        if name in abandoned or (is_steps(name) and not is_compacted):
            yield Problem(f"{STAGING}/{name}", "left by an interrupted build or compaction", is_orphan=True)
        elif not is_steps(name) and not staged_for(name):
            yield Problem(f"{STAGING}/{name}", "no part of an index")


def _find_unfinished(store: Store, sizes: Mapping[str, Mapping[str, int]], mine: str) -> dict[str, str]:
    """Return what is wrong with the segments that are not published yet, or no longer, by name.

    Nothing is wrong with those that others are at work on, or have published since the files were listed.
    """
    unpublished = [name for name, files in sizes.items() if SUMMARY not in files and SEGMENT_NAME.fullmatch(name)]
    what = dict.fromkeys(unpublished, "never published: an interrupted build or compaction left it")
    what |= dict.fromkeys(_find_replaced(store), "replaced by compaction: an interrupted one left it")
    is_at_work = bool(what and store.list_at_work(mine))
    for name in what:
        if is_at_work or (name in unpublished and store.exists(f"{SEGMENTS}/{name}/{SUMMARY}")):
            what[name] = ""
    return what


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


def _check_segment(
    segment: Segment, sizes: dict[str, int], fingerprint: str, cataloged: dict[str, Any] | None, quick: bool
) -> Iterator[Problem]:
    folder = f"{SEGMENTS}/{segment.segment_id}"
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

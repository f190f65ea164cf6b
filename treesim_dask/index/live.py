"""Which segments make up an index at this moment.

Compaction publishes a segment that takes the place of others, by writing its summary and nothing else: from then on
the others are no longer live, whether they are removed yet or not. A source that is indexed anew after that is live
again as a fresh segment, and its old pages in the compacted one are not.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.cache import Cache
from treesim_dask.index.catalog import CATALOG
from treesim_dask.index.manifest import parse_json
from treesim_dask.index.segment import (
    NOTHING_DELETED,
    SEGMENTS,
    SUMMARY,
    Deletions,
    Segment,
    SegmentSummary,
    list_segments,
)
from treesim_dask.index.store import Store
from treesim_dask.index.tables import column_values
from treesim_dask.index.tombstones import Tombstones, read_tombstones
from treesim_dask.types import root_of

SOURCES = "sources.json"


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """A source whose pages are in an index, as its summary described it, wherever its pages are by now.

    ``indexed`` is when the segment they are in was written, in seconds since 1970, where the store is of this machine.
    """

    origin: str
    source_url: str
    source_kind: str
    source_size: int | None
    page_filter: dict[str, Any]
    source_digest: str | None = None
    indexed: float | None = None

    @property
    def root(self) -> str:
        """What the source is a part of, see `treesim_dask.types.root_of`."""
        return root_of(self.source_url, self.source_kind)

    @classmethod
    def of(cls, summary: SegmentSummary) -> IndexedSource:
        """Return the source of a fresh segment."""
        return cls(
            summary.segment_id,
            summary.source_url,
            summary.source_kind,
            summary.source_size,
            summary.page_filter,
            summary.source_digest,
        )


def stamp_segments(store: Store, names: Iterable[str] | None = None) -> dict[str, Hashable]:
    """Return, by file, what tells that a segment was written anew; without names of all segments.

    A segment keeps its name and the names of its files when its source is indexed anew, so that who has read some of
    its files finds others later that do not go with these. Its summary is replaced with them, or withdrawn before they
    are: taken before the first of some reads and again after the last, its stamp is the same only if they go together.
    On a disk that is two microseconds a segment. A distant store is asked for one file, the catalog, which whoever
    replaces a segment removes first; where there is none, for each summary.
    """
    if not store.is_local and (catalog := store.stamp(CATALOG)) is not None:
        return {CATALOG: catalog}
    paths = [f"{SEGMENTS}/{name}/{SUMMARY}" for name in (store.list_names(SEGMENTS) if names is None else names)]
    return {path: store.stamp(path) for path in paths}


def live_segments(store: Store, cache: Cache | None = None, fingerprint: str | None = None) -> list[Segment]:
    """Return the segments that make up the index, with their deletions, in the order of their names.

    With the fingerprint of the index a segment of other parameters is refused: its buckets and signatures mean
    something else.
    """
    published = list_segments(store, cache)
    for segment in published:
        if fingerprint is not None and (found := segment.summary.fingerprint) != fingerprint:
            raise IndexFormatError(
                f"{store.url}/{SEGMENTS}/{segment.segment_id} was built with other parameters ({found}, the index has "
                f"{fingerprint}): remove this folder, it is from another index; check names all of them"
            )
    tombstones = read_tombstones(store)
    if not tombstones and not any(segment.is_compacted for segment in published):
        return published
    compacted, fresh = _newest(published, tombstones)
    gone, seen = {}, set(fresh)
    for segment_id, segment in sorted(compacted.items()):
        gone[segment_id] = seen.union(tombstones.whole.get(segment_id, ())).intersection(segment.origins)
        seen.update(set(segment.origins) - gone[segment_id])  # merged indexes may hold a source twice: it counts once
    live = [*compacted.values(), *fresh.values()]
    for segment in live:
        segment.deletions = _deletions(segment, gone.get(segment.segment_id, ()), tombstones)
    return sorted(live, key=lambda segment: segment.segment_id)


def count_live(segment: Segment) -> tuple[int, int, int]:
    """Return how many pages, distinct shapes and nodes of a segment are not deleted."""
    summary = segment.summary
    if not segment.deletions:
        return summary.n_pages, summary.n_shapes, summary.n_nodes
    columns = segment.read_pages(segment.live_rows(), ["shape", "n_nodes"])
    n_shapes = len(np.unique(column_values(columns, "shape")))
    return columns.num_rows, n_shapes, int(column_values(columns, "n_nodes").sum(dtype=np.int64))


def dead_segments(store: Store) -> list[Segment]:
    """Return published segments that others have taken the place of, and that may be removed."""
    published = list_segments(store)
    compacted, fresh = _newest(published, read_tombstones(store))
    return [segment for segment in published if segment.segment_id not in compacted.keys() | fresh.keys()]


def live_sources(store: Store) -> dict[str, IndexedSource]:
    """Return the sources whose pages are in the index, by the name of the segment that was written for each."""
    sources: dict[str, IndexedSource] = {}
    for segment in sorted(live_segments(store), key=lambda segment: not segment.is_compacted):
        known = read_sources(segment) if segment.is_compacted else [IndexedSource.of(segment.summary)]
        left, indexed = segment.live_origins(), store.find_time(f"{SEGMENTS}/{segment.segment_id}/{SUMMARY}")
        sources.update({s.origin: replace(s, indexed=indexed) for s in known if s.origin in left})
    return sources


def read_sources(segment: Segment) -> list[IndexedSource]:
    """Return the sources of a compacted segment."""
    name = f"{SEGMENTS}/{segment.segment_id}/{SOURCES}"
    content = parse_json(segment.store.read_bytes(name), f"{segment.store.url}/{name}")
    return [IndexedSource(origin, **values) for origin, values in content.items()]


def origin_digests(segment: Segment) -> Mapping[str, str]:
    """Return the digest of each origin of a segment: what its summary was when its pages were taken from it."""
    if segment.summary.compaction is None:
        return {segment.segment_id: segment.digest}
    digests: dict[str, str] = segment.summary.compaction["origins"]
    return digests


def _newest(published: list[Segment], tombstones: Tombstones) -> tuple[dict[str, Segment], dict[str, Segment]]:
    """Return the compacted and the fresh segments that no other has taken the place of."""
    compacted = {segment.segment_id: segment for segment in published if segment.is_compacted}
    fresh = {segment.segment_id: segment for segment in published if not segment.is_compacted}
    for segment in list(compacted.values()):
        for name in (segment.summary.compaction or {})["replaces"]:
            compacted.pop(name, None)
    for segment in compacted.values():
        gone = tombstones.whole.get(segment.segment_id, ())
        for name, digest in origin_digests(segment).items():
            if name in fresh and fresh[name].digest == digest and name not in gone:
                del fresh[name]
    return compacted, fresh


def _deletions(segment: Segment, gone: Collection[str], tombstones: Tombstones) -> Deletions:
    numbers = {name: number for number, name in enumerate(segment.origins)}
    whole = sorted(numbers[name] for name in gone)
    rows = [np.empty(0, np.uint64)]
    if tombstones.rows:
        for name, digest in origin_digests(segment).items():
            if (name, digest) in tombstones.rows and name not in gone:
                rows.append(tombstones.rows[name, digest] | np.uint64(numbers[name] << 32))
    if not whole and len(rows) == 1:
        return NOTHING_DELETED
    return Deletions(np.sort(np.concatenate(rows)), np.array(whole, np.uint64))

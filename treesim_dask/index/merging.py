"""Two indexes into one: segments are copied as they are, each published whole."""

from __future__ import annotations

from collections.abc import Iterator

from treesim_dask.errors import ConfigError, IndexFormatError
from treesim_dask.index.live import live_segments, origin_digests
from treesim_dask.index.manifest import MANIFEST, read_manifest, write_manifest
from treesim_dask.index.segment import SEGMENTS, SUMMARY, Segment, gather_catalog
from treesim_dask.index.store import Store, storage_errors
from treesim_dask.index.tombstones import list_tombstones


def merge_indexes(target: Store, others: list[Store]) -> Iterator[Segment]:
    """Add the pages of other indexes to an index, a new one where there is none; yield each segment copied.

    A source that several of them hold in the same state counts once. Indexes with other parameters, and sources that
    are there in another state, are refused before anything is written.
    """
    config = read_manifest(target if target.exists(MANIFEST) else others[0])
    known: dict[str, tuple[str, str]] = {}
    for store in ([target] if target.exists(MANIFEST) else []) + others:
        advice = "only indexes with equal parameters can be merged"
        read_manifest(store).refuse_other(config, f"the index at {store.url} was built", advice)
        _refuse_other_states(store, known)
    if not target.exists(MANIFEST):
        write_manifest(target, config)
    copied = set()
    for store in others:
        for segment in _copy_segments(store, target):
            copied.add(segment.segment_id)
            yield segment
    gather_catalog(target, copied)


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


def _copy_segments(store: Store, target: Store) -> Iterator[Segment]:
    present = {name for segment in live_segments(target) for name in segment.live_origins()}
    for name in list_tombstones(store):
        target.write_bytes(name, store.read_bytes(name))
    for segment in live_segments(store):
        if segment.live_origins() <= present:
            continue
        _copy_segment(segment, target)
        yield segment


def _copy_segment(segment: Segment, target: Store) -> None:
    source = f"{SEGMENTS}/{segment.segment_id}"
    folder = target.make_staging(segment.segment_id)
    with storage_errors(target.url):
        for name in (*segment.summary.files, SUMMARY):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                path.write_bytes(segment.store.read_bytes(f"{source}/{name}"))
            except FileNotFoundError:
                raise IndexFormatError(f"{segment.store.url}/{source}/{name} is missing; run `check`") from None
    target.publish(folder, source, SUMMARY)

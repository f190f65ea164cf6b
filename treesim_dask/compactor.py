"""A compaction from start to end: what is left to do, doing it, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from treesim_dask.config import check_count
from treesim_dask.dataflow import compact_segments
from treesim_dask.index.compaction import (
    DEFAULT_MAX_PAGES,
    SHAPES_PER_PART,
    plan_compactions,
    remove_abandoned,
    remove_replaced,
)
from treesim_dask.index.leftovers import clear_leftovers
from treesim_dask.index.live import dead_segments, live_segments
from treesim_dask.index.manifest import read_manifest
from treesim_dask.index.segment import gather_catalog
from treesim_dask.index.store import COMPACTION, Store
from treesim_dask.index.tombstones import list_tombstones

if TYPE_CHECKING:
    from distributed import Client

_PAGES_WITHOUT_CLUSTER = 200_000  # below, starting workers takes longer than they save


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did: live segments, pages and shapes before and after, and the size of the index."""

    n_segments_before: int
    n_segments: int
    n_pages_before: int
    n_pages: int
    n_shapes_before: int
    n_shapes: int
    n_bytes_before: int
    n_bytes: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def compact(
    index: str,
    *,
    max_pages: int = DEFAULT_MAX_PAGES,
    shapes_per_part: int = SHAPES_PER_PART,
    client: Client | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    index_options: Mapping[str, Any] | None = None,
    on_step: Callable[[str], None] = lambda step: None,
) -> CompactReport:
    """Make few large segments out of many, each shape stored once, ordered so that a query reads little.

    The old segments serve until the new one is published in one step. A compaction that was interrupted goes on
    where it stopped; one that has nothing to do does nothing; one that meets another, a merge or a repair at work
    is refused.

    Parameters
    ----------
    index
        A local path or any fsspec URL.
    max_pages
        How many pages the segments that become one may have together.
    shapes_per_part
        How many shapes one task holds in memory, at two to three kilobytes each.
    client, workers, scheduler, scheduler_file
        Where to run: a connected Dask client, a number of local processes, or a running scheduler. Without any of
        them a small index is compacted in this process.
    index_options
        For the fsspec file system of the index.
    on_step
        Called with what is about to be done.
    """
    check_count("max_pages", max_pages)
    check_count("shapes_per_part", shapes_per_part)
    started = time.monotonic()
    store = Store(index, index_options)
    config = read_manifest(store)
    with ExitStack() as stack:
        stack.enter_context(store.claim(COMPACTION))
        clear_leftovers(store)
        remove_replaced(store, dead_segments(store))
        tombstones = list_tombstones(store)
        before = live_segments(store, fingerprint=config.fingerprint)
        plans = plan_compactions(before, config, max_pages, shapes_per_part)
        remove_abandoned(store, plans)
        n_pages = sum(segment.summary.n_pages for plan in plans for segment in plan.segments)
        is_asked_for = any(option is not None for option in (workers, scheduler, scheduler_file))
        if client is None and (is_asked_for or n_pages > _PAGES_WITHOUT_CLUSTER):
            from treesim_dask.clients import open_client

            client = stack.enter_context(open_client(workers, scheduler, scheduler_file))
        for plan in plans:
            compact_segments(plan, client, on_step)
            remove_replaced(store, dead_segments(store))
        remove_abandoned(store)
        for name in tombstones:  # all of them were carried out
            store.remove(name)
        gather_catalog(store, {plan.work.compacted_id for plan in plans})
    after = live_segments(store)
    sums = {
        f"{name}{when}": sum(getattr(segment.summary, name) for segment in segments)
        for name in ("n_pages", "n_shapes", "n_bytes")
        for when, segments in (("_before", before), ("", after))
    }
    seconds = time.monotonic() - started
    return CompactReport(n_segments_before=len(before), n_segments=len(after), seconds=seconds, **sums)

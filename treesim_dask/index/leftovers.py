"""What processes that are gone left in staging: it is removed, or goes back where it is missed."""

from __future__ import annotations

import re
from collections.abc import Collection

from treesim_dask.index.segment import COMPACTED_PREFIX, SEGMENTS, SUMMARY
from treesim_dask.index.store import SPARE, STAGING, Store, staged_for

SEGMENT_NAME = re.compile(rf"({COMPACTED_PREFIX})?[0-9a-f]{{16}}")


def clear_leftovers(store: Store, of: Collection[str] | None = None) -> None:
    """Clear up what nobody will publish any more: of some segments and tasks, or all of it."""
    for name in store.list_abandoned():
        if of is None or staged_for(name) in of:
            clear_leftover(store, name)
    store.remove_if_empty(STAGING)


def clear_leftover(store: Store, name: str) -> None:
    """Remove something abandoned in staging; a segment whose exchange for a newer one was cut short is put back."""
    segment_id = staged_for(name)
    if name.endswith(SPARE) and SEGMENT_NAME.fullmatch(segment_id):
        place = f"{SEGMENTS}/{segment_id}"
        if store.exists(f"{STAGING}/{name}/{SUMMARY}") and not store.exists(f"{place}/{SUMMARY}"):
            store.put_back(name, place, SUMMARY)
            return
    store.remove(f"{STAGING}/{name}")

"""Deleted pages: small files that say what is no longer part of the index, until compaction drops it.

A tombstone names pages by the segment they were first written to, the digest of that segment's summary and their row:
it holds wherever compaction moves the pages, and it does not hold for a source that was changed and indexed anew. A
source that is taken out of a compacted segment as a whole is named with that segment: it may be indexed again.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.manifest import parse_json
from treesim_dask.index.store import Store
from treesim_dask.types import UInt64Array

DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Tombstones:
    """What is deleted from an index.

    Parameters
    ----------
    rows
        The deleted rows of a segment, by its name and digest: sorted, dtype uint64.
    whole
        The names of the sources taken out as a whole, by the compacted segment that holds their pages.
    """

    rows: Mapping[tuple[str, str], UInt64Array] = field(default_factory=dict)
    whole: Mapping[str, Collection[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows or self.whole)


def write_tombstone(store: Store, deleted: Tombstones) -> None:
    """Delete pages. The file is named after its content: deleting the same again changes nothing."""
    entries: list[dict[str, Any]] = [
        {"segment": name, "digest": digest, "runs": _to_runs(rows)}
        for (name, digest), rows in sorted(deleted.rows.items())
    ]
    entries += [
        {"within": within, "sources": sorted(sources)} for within, sources in sorted(deleted.whole.items()) if sources
    ]
    if entries:
        content = json.dumps({"deleted": entries}, separators=(",", ":")).encode()
        store.write_bytes(_name_of(content), content)


def read_tombstones(store: Store) -> Tombstones:
    """Read all that is deleted from an index."""
    rows: dict[tuple[str, str], list[UInt64Array]] = defaultdict(list)
    whole: dict[str, set[str]] = defaultdict(set)
    for name in list_tombstones(store):
        for entry in read_tombstone(store, name):
            if "within" in entry:
                whole[entry["within"]].update(entry["sources"])
            else:
                rows[entry["segment"], entry["digest"]].append(_from_runs(entry["runs"]))
    joined = {key: some[0] if len(some) == 1 else np.unique(np.concatenate(some)) for key, some in rows.items()}
    return Tombstones(joined, dict(whole))


def _to_runs(rows: UInt64Array) -> list[int]:
    """Write sorted rows as the lengths of runs, by turns of rows that are kept and of rows that are deleted.

    Examples
    --------
    >>> _to_runs(np.array([0, 1, 2, 7], np.uint64)), _from_runs([0, 3, 4, 1]).tolist()
    ([0, 3, 4, 1], [0, 1, 2, 7])
    """
    signed = rows.astype(np.int64)
    is_first = np.diff(signed, prepend=-2) != 1
    starts = signed[is_first]
    lengths = np.diff(np.flatnonzero(np.append(is_first, True)))
    gaps = starts - np.append(0, (starts + lengths)[:-1])[: len(starts)]
    return np.stack([gaps, lengths], axis=1).ravel().tolist()


def _from_runs(runs: list[int]) -> UInt64Array:
    ends = np.cumsum(np.array(runs, np.int64))
    lengths = np.array(runs[1::2], np.int64)
    shifts = np.repeat(ends[1::2] - np.cumsum(lengths), lengths)
    return (np.arange(len(shifts)) + shifts).astype(np.uint64)


def read_tombstone(store: Store, name: str) -> list[dict[str, Any]]:
    """Return the entries of one file, or say that it is damaged: it is named after its content."""
    where = f"{store.url}/{name}"
    raw = store.read_bytes(name)
    entries = parse_json(raw, where).get("deleted")
    if not isinstance(entries, list) or name != _name_of(raw):
        raise IndexFormatError(
            f"{where} is damaged: not what a deletion wrote; restore it from a copy, or remove it and delete again"
        )
    return entries


def _name_of(content: bytes) -> str:
    return f"{DELETED}/{hashlib.sha256(content).hexdigest()[:16]}.json"


def list_tombstones(store: Store) -> list[str]:
    """Return the files that say what is deleted, relative to the index."""
    return [f"{DELETED}/{name}" for name in store.list_names(DELETED) if name.endswith(".json")]

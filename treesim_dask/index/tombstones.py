"""Deleted pages: small files that say what is no longer part of the index, until compaction drops it.

A tombstone names pages by the segment they were first written to, the digest of that segment's summary and their row:
it holds wherever compaction moves the pages, and it does not hold for a source that was changed and indexed anew.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.manifest import parse_json, to_json
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
        The names of segments deleted as a whole, by digest.
    """

    rows: dict[tuple[str, str], UInt64Array] = field(default_factory=dict)
    whole: dict[str, set[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows or self.whole)


def write_tombstone(store: Store, deleted: Sequence[tuple[str, str, Sequence[int] | None]]) -> str:
    """Delete pages: (segment name, its digest, rows, or None for all of them) each. Returns the name of the file.

    The file is named after its content: deleting the same again changes nothing.
    """
    entries = [{"segment": name, "digest": digest, "rows": rows} for name, digest, rows in sorted(deleted)]
    content = to_json({"deleted": entries})
    file = _name_of(content)
    store.write_bytes(file, content)
    return file


def read_tombstones(store: Store) -> Tombstones:
    """Read all that is deleted from an index."""
    rows: dict[tuple[str, str], list[Any]] = defaultdict(list)
    whole: dict[str, set[str]] = defaultdict(set)
    for name in list_tombstones(store):
        for entry in read_tombstone(store, name):
            if entry["rows"] is None:
                whole[entry["digest"]].add(entry["segment"])
            else:
                rows[entry["segment"], entry["digest"]] += entry["rows"]
    return Tombstones({key: np.unique(np.array(value, np.uint64)) for key, value in rows.items()}, dict(whole))


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

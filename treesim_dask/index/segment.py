"""Reading a segment: buckets to candidate shapes, shapes to vectors, shapes to pages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.arrays import open_array
from treesim_dask.index.catalog import read_catalog
from treesim_dask.index.manifest import parse_json
from treesim_dask.index.store import Store
from treesim_dask.index.tables import BANDS, PAGES, SKIPPED, group_ranges, open_table
from treesim_dask.types import Int64Array, ShapeBatch, UInt32Array, UInt64Array, row_entries

SEGMENTS = "segments"
SUMMARY = "segment.json"
SIGNATURES = "signatures"
INDPTR, BRANCHES, COUNTS = "branches/indptr", "branches/branch", "branches/count"


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """What ``segment.json`` says: where a segment comes from, what it holds, and the checksum of each file.

    ``skipped`` counts what was left out by reason, ``damage`` gives the first places where the source is broken as
    (reason, file, offset); ``files`` maps the path of each file to its size and SHA-256.
    """

    segment_id: str
    source_url: str
    source_kind: str
    source_size: int | None
    page_filter: dict[str, Any]
    fingerprint: str
    n_pages: int
    n_shapes: int
    n_nodes: int
    n_entries: int
    n_html_bytes: int
    skipped: dict[str, int]
    damage: list[list[Any]]
    files: dict[str, list[Any]]

    @property
    def n_bytes(self) -> int:
        """Size of the segment's files together."""
        return sum(size for size, _ in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> SegmentSummary:
        """Rebuild a summary from `to_dict`, or say which file is damaged."""
        names = {f.name for f in fields(cls)}
        if values.keys() != names:
            raise IndexFormatError(f"{where} is damaged: unknown or missing {sorted(values.keys() ^ names)}")
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The shapes that share a bucket with a query, and the bands they share.

    Parameters
    ----------
    shapes
        Shape (n_candidates,), dtype int64: distinct, ascending.
    indptr
        Shape (n_candidates + 1,), dtype int64.
    bands
        Shape (n_hits,), dtype int64: the bands that fired for candidate i are ``bands[indptr[i]:indptr[i + 1]]``.
    """

    shapes: Int64Array
    indptr: Int64Array
    bands: Int64Array

    def __len__(self) -> int:
        return len(self.shapes)


class Segment:
    """A published segment, opened for reading. Nothing is read before it is asked for.

    Parameters
    ----------
    store
        Where the index lies.
    segment_id
        The name of the segment's folder.
    summary
        What it holds, where that is known already.
    """

    def __init__(self, store: Store, segment_id: str, summary: SegmentSummary | None = None) -> None:
        self.store = store
        self.segment_id = segment_id
        self._known_summary = summary

    def __reduce__(self) -> tuple[type[Segment], tuple[Store, str]]:
        return Segment, (self.store, self.segment_id)  # open files stay where they are

    def _name(self, part: str) -> str:
        return f"{SEGMENTS}/{self.segment_id}/{part}"

    @cached_property
    def summary(self) -> SegmentSummary:
        """What the segment holds."""
        if self._known_summary is not None:
            return self._known_summary
        where = f"{self.store.url}/{self._name(SUMMARY)}"
        return SegmentSummary.from_dict(parse_json(self.store.read_bytes(self._name(SUMMARY)), where), where)

    def find_candidates(self, keys: UInt64Array) -> Candidates:
        """Return the shapes that share a bucket with the query.

        Parameters
        ----------
        keys
            Shape (n_bands,), dtype uint64: the query's bucket in each band.
        """
        hits = [self._shapes_in_bucket(band, int(key)) for band, key in enumerate(keys)]
        shapes = np.concatenate(hits) if hits else np.empty(0, np.int64)
        bands = np.repeat(np.arange(len(hits), dtype=np.int64), [len(hit) for hit in hits])
        order = np.argsort(shapes, kind="stable")
        distinct, starts = np.unique(shapes[order], return_index=True)
        return Candidates(distinct, np.append(starts, len(shapes)).astype(np.int64), bands[order])

    def _shapes_in_bucket(self, band: int, key: int) -> Int64Array:
        groups = [g for g, least, greatest in self._band_groups[band] if least <= key <= greatest]
        if not groups:
            return np.empty(0, np.int64)
        rows = self._bands.read_row_groups(groups, columns=["bucket", "shape"])
        buckets = rows.column("bucket").to_numpy()
        first, last = (
            np.searchsorted(buckets, np.uint64(key), "left"),
            np.searchsorted(buckets, np.uint64(key), "right"),
        )
        return np.asarray(rows.column("shape").slice(first, last - first), np.int64)

    @cached_property
    def _bands(self) -> pq.ParquetFile:
        return open_table(self.store, self._name(BANDS))

    @cached_property
    def _band_groups(self) -> dict[int, list[tuple[int, int, int]]]:
        """The row groups of each band with the least and the greatest bucket in them."""
        groups: dict[int, list[tuple[int, int, int]]] = {}
        ranges = zip(group_ranges(self._bands, "band"), group_ranges(self._bands, "bucket"), strict=True)
        for number, ((band, _), (least, greatest)) in enumerate(ranges):
            groups.setdefault(band, []).append((number, least, greatest))
        return groups

    @cached_property
    def _indptr(self) -> Int64Array:
        return np.asarray(open_array(self.store, self._name(INDPTR))[:], np.int64)

    @cached_property
    def _vector_arrays(self) -> tuple[Any, Any]:
        return open_array(self.store, self._name(BRANCHES)), open_array(self.store, self._name(COUNTS))

    def read_shapes(self, shapes: Int64Array) -> ShapeBatch:
        """Return the vectors of some shapes, in the given order."""
        entries = row_entries(self._indptr, shapes)
        lengths = self._indptr[shapes + 1] - self._indptr[shapes]
        branches, counts = (array.oindex[entries] if len(entries) else array[:0] for array in self._vector_arrays)
        return ShapeBatch(np.concatenate([[0], np.cumsum(lengths)]), branches, counts)

    def read_all_shapes(self) -> ShapeBatch:
        """Return the vectors of all shapes."""
        branches, counts = (array[:] for array in self._vector_arrays)
        return ShapeBatch(self._indptr, branches, counts)

    def read_signatures(self) -> UInt32Array:
        """Return all signatures. Shape (n_shapes, n_hashes), dtype uint32."""
        return np.asarray(self.signature_array[:], np.uint32)

    @property
    def signature_array(self) -> Any:
        """The signatures as an open Zarr array."""
        return open_array(self.store, self._name(SIGNATURES))

    @cached_property
    def _pages(self) -> pq.ParquetFile:
        return open_table(self.store, self._name(PAGES))

    @cached_property
    def page_shapes(self) -> Int64Array:
        """The shape of each page. Shape (n_pages,), dtype int64."""
        return np.asarray(self._pages.read(columns=["shape"]).column("shape"), np.int64)

    def read_pages(self, rows: Int64Array | None = None) -> pa.Table:
        """Return the page table, or some of its rows in the given order, decoding only the row groups they lie in."""
        if rows is None:
            return self._pages.read()
        metadata = self._pages.metadata
        ends = np.cumsum([metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)])
        group_of = np.searchsorted(ends, rows, side="right")
        groups = np.unique(group_of)
        table = self._pages.read_row_groups(groups.tolist()) if len(groups) else self._pages.schema_arrow.empty_table()
        starts = np.concatenate([[0], ends])[:-1]
        sizes = np.diff(np.concatenate([[0], ends]))[groups]
        place = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        within = place[np.searchsorted(groups, group_of)] + rows - starts[group_of]
        return table.take(within)

    def read_skipped(self) -> pa.Table:
        """Return the table of what was left out, and why."""
        return open_table(self.store, self._name(SKIPPED)).read()


def segment_id_of(source_url: str) -> str:
    """Name the segment of a source: the same source always gives the same name.

    Examples
    --------
    >>> segment_id_of("s3://bucket/a.warc.gz") == segment_id_of("s3://bucket/a.warc.gz")
    True
    """
    return hashlib.sha256(source_url.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def list_segments(store: Store) -> list[Segment]:
    """Return the published segments, in the order of their names: one listing, the catalog, and what it lacks."""
    names = store.list_names(SEGMENTS)
    catalog = read_catalog(store) if names else {}
    summaries = {name: _summary_or_none(catalog[name]) for name in names if name in catalog}
    paths = {f"{SEGMENTS}/{name}/{SUMMARY}": name for name in names if summaries.get(name) is None}
    for path, raw in store.read_present(list(paths)).items():
        summaries[paths[path]] = _summary_or_none(raw)
    return [Segment(store, name, summaries[name]) for name in names if name in summaries]


def _summary_or_none(content: bytes | Mapping[str, Any]) -> SegmentSummary | None:
    """Return a summary unless it is damaged: reading it from its file then says how."""
    try:
        values = parse_json(content, SUMMARY) if isinstance(content, bytes) else content
        return SegmentSummary.from_dict(values, SUMMARY)
    except IndexFormatError:
        return None

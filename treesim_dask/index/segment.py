"""Reading a segment: buckets to shapes, shapes to vectors and pages, rows to page ids."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from treesim_dask.errors import IndexFormatError
from treesim_dask.index.bands import BandTable, Hits
from treesim_dask.index.cache import Cache
from treesim_dask.index.catalog import read_catalog, write_catalog
from treesim_dask.index.chunks import ChunkedArray
from treesim_dask.index.manifest import parse_json
from treesim_dask.index.parts import INDPTR, SIGNATURES, CompactedPart, FreshPart, Part, join_vectors
from treesim_dask.index.store import Store
from treesim_dask.index.tables import BANDS, SKIPPED, arrow_integers, column_values, open_table
from treesim_dask.types import Int64Array, ShapeBatch, UInt32Array, UInt64Array, offsets_of

SEGMENTS = "segments"
SUMMARY = "segment.json"
COMPACTED_PREFIX = "compacted-"
LOOKUP = "bands/lookup.parquet"

_SIGNATURES_AT_ONCE = 4096
_SEGMENT_BYTES = 2**16  # an opened segment: mostly its summary


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """What ``segment.json`` says: where a segment comes from, what it holds, and the checksum of each file.

    ``skipped`` counts what was left out by reason, ``damage`` gives the first places where the source is broken as
    (reason, file, offset); ``files`` maps the path of each file to its size and SHA-256. ``source_digest`` is there for
    a group of HTML files only and tells which they were, see `treesim_dask.types.Source`. ``compaction`` is there for a
    compacted segment only: ``origins`` maps the segments its pages were first written to to the digest of their
    summaries, ``replaces`` names the compacted segments it took the place of, ``parts`` has (shapes, pages) of each
    part and ``n_band_files`` the number of files of its band table.
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
    source_digest: str | None = None
    compaction: dict[str, Any] | None = None

    @property
    def n_bytes(self) -> int:
        """Size of the segment's files together."""
        return sum(size for size, _ in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        optional = {"source_digest", "compaction"}
        return {name: value for name, value in asdict(self).items() if value is not None or name not in optional}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> SegmentSummary:
        """Rebuild a summary from `to_dict`, or say which file is damaged."""
        names = {f.name for f in fields(cls)}
        needed = {f.name for f in fields(cls) if f.default is MISSING}
        if odd := (values.keys() - names) | (needed - values.keys()):
            raise IndexFormatError(f"{where} is damaged: unknown or missing {sorted(odd)}")
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Deletions:
    """The pages of a segment that are deleted.

    Parameters
    ----------
    origins
        Shape (n_deleted,), dtype uint64: sorted, as `Segment.page_origins` gives them.
    whole
        Shape (n_gone,), dtype uint64: the numbers of origins of which nothing is left, since their source was
        indexed anew or deleted as a whole.
    """

    origins: UInt64Array
    whole: UInt64Array

    def __bool__(self) -> bool:
        return bool(len(self.origins) or len(self.whole))

    def keep(self, origins: UInt64Array) -> Any:
        """Tell which of some pages are not deleted. Shape (n_pages,), dtype bool."""
        gone = np.isin(origins, self.origins)
        if len(self.whole):
            gone |= np.isin(origins >> np.uint64(32), self.whole)
        return ~gone


NOTHING_DELETED = Deletions(np.empty(0, np.uint64), np.empty(0, np.uint64))


class Segment:
    """A published segment, opened for reading. Nothing is read before it is asked for.

    Parameters
    ----------
    store
        Where the index lies.
    segment_id
        The name of the segment's folder.
    cache
        Keeps what was read; several segments may share one. Without it nothing is kept.
    deletions
        Pages that are no longer part of the index.
    summary
        What it holds, where that is known already.
    """

    def __init__(
        self,
        store: Store,
        segment_id: str,
        cache: Cache | None = None,
        deletions: Deletions = NOTHING_DELETED,
        summary: SegmentSummary | None = None,
    ) -> None:
        self.store = store
        self.segment_id = segment_id
        self.deletions = deletions
        self._cache = cache if cache is not None else Cache(0)
        self._known_summary = summary

    def __reduce__(self) -> tuple[type[Segment], tuple[Store, str, None, Deletions]]:
        return Segment, (self.store, self.segment_id, None, self.deletions)  # what was read stays where it is

    def kept_in(self, cache: Cache) -> Segment:
        """Return the same segment, keeping what it reads in another cache."""
        segment = Segment(self.store, self.segment_id, cache, self.deletions)
        return cache.get((self.store.url, self.segment_id, "segment"), lambda: segment, lambda _: _SEGMENT_BYTES)

    def _name(self, part: str) -> str:
        return f"{SEGMENTS}/{self.segment_id}/{part}"

    @property
    def is_compacted(self) -> bool:
        """True if compaction wrote it."""
        return self.segment_id.startswith(COMPACTED_PREFIX)

    @cached_property
    def _summary_bytes(self) -> bytes:
        return self.store.read_bytes(self._name(SUMMARY))

    @property
    def digest(self) -> str:
        """Digest of the summary, and with it of every file: the same content always has the same one."""
        return hashlib.sha256(self._summary_bytes).hexdigest()

    @cached_property
    def summary(self) -> SegmentSummary:
        """What the segment holds."""
        if self._known_summary is not None:
            return self._known_summary
        where = f"{self.store.url}/{self._name(SUMMARY)}"
        return SegmentSummary.from_dict(parse_json(self._summary_bytes, where), where)

    @property
    def has_vectors(self) -> bool:
        """False if it was built without vectors: `read_shapes` then has nothing to read."""
        folder = f"{part_name(0)}/" if self.is_compacted else ""
        return f"{folder}{INDPTR}/zarr.json" in self.summary.files

    @cached_property
    def origins(self) -> list[str]:
        """The segments its pages were first written to and are named after, sorted."""
        if not self.is_compacted:
            return [self.segment_id]
        return sorted(self._compaction["origins"])

    def live_origins(self) -> set[str]:
        """Return the origins that are not deleted as a whole."""
        return {name for number, name in enumerate(self.origins) if number not in self.deletions.whole}

    @property
    def _compaction(self) -> dict[str, Any]:
        if self.summary.compaction is None:
            raise IndexFormatError(f"{self.store.url}/{self._name(SUMMARY)} is damaged: it does not tell its parts")
        return self.summary.compaction

    @cached_property
    def _parts(self) -> Sequence[Part]:
        if not self.is_compacted:
            return [FreshPart(self.store, self._name("").rstrip("/"), self._cache)]
        n_parts = len(self._compaction["parts"])
        return [CompactedPart(self.store, self._name(part_name(n)), self._cache) for n in range(n_parts)]

    @cached_property
    def _part_offsets(self) -> tuple[Int64Array, Int64Array]:
        """The number of the first shape, and of the first page, of each part, and those of all at the end."""
        if not self.is_compacted:
            return np.array([0, 2**62]), np.array([0, 2**62])  # the only part: its summary need not be read
        sizes = np.array(self._compaction["parts"], np.int64).reshape(-1, 2)
        return offsets_of(sizes[:, 0]), offsets_of(sizes[:, 1])

    @cached_property
    def _bands(self) -> BandTable:
        if not self.is_compacted:
            n_bytes = None if self.store.is_local else self.summary.files[BANDS][0]
            return BandTable(self.store, [self._name(BANDS)], self._cache, n_bytes=n_bytes)
        names = [self._name(band_file_name(n)) for n in range(self._compaction["n_band_files"])]
        return BandTable(self.store, names, self._cache, self._name(LOOKUP))

    def find_hits(self, keys: UInt64Array, cap: int | None = None, most: int | None = None) -> Hits | None:
        """Return the shapes that share a bucket with each query; see `BandTable.find`.

        Parameters
        ----------
        keys
            Shape (n_queries, n_bands), dtype uint64: the bucket of each query in each band.
        cap
            Take at most this many shapes of a bucket.
        most
            Return None if there are more hits.
        """
        return self._bands.find(keys, cap, most)

    def scan_hits(self, signatures: UInt32Array, n_bands: int, n_agree: int, most: int | None = None) -> Hits | None:
        """Return the shapes that agree with each query in the first rows of a band, by looking at all signatures.

        Parameters
        ----------
        signatures
            Shape (n_queries, n_hashes), dtype uint32.
        n_bands
            How many bands a signature has.
        n_agree
            How many rows of a band must agree.
        most
            Return None if there are more hits.
        """
        wanted = signatures.reshape(len(signatures), n_bands, -1)[:, :, :n_agree]
        found = [(np.empty(0, np.int64),) * 3]
        first = n_found = 0
        for array in self._signatures:
            for start in range(0, len(array), _SIGNATURES_AT_ONCE):
                rows = array.read(start, min(start + _SIGNATURES_AT_ONCE, len(array)))
                prefixes = rows.reshape(len(rows), n_bands, -1)[:, :, :n_agree]
                for query in range(len(wanted)):
                    shapes, bands = np.nonzero((prefixes == wanted[query]).all(axis=2))
                    found.append((np.full(len(shapes), query), bands, shapes + first + start))
                    n_found += len(shapes)
                    if most is not None and n_found > most:
                        return None
            first += len(array)
        columns = [np.concatenate(column).astype(np.uint32) for column in zip(*found, strict=True)]
        return Hits(columns[0], columns[1], columns[2], np.zeros(len(signatures), np.int64))

    @property
    def _signatures(self) -> list[ChunkedArray]:
        return [ChunkedArray(self.store, name, self._cache) for name in self._signature_names]

    @property
    def _signature_names(self) -> list[str]:
        if not self.is_compacted:
            return [self._name(SIGNATURES)]
        return [self._name(f"{part_name(n)}/{SIGNATURES}") for n in range(len(self._compaction["parts"]))]

    def read_shapes(self, shapes: Int64Array) -> ShapeBatch:
        """Return the vectors of some shapes, in the given order."""
        part_of, order = self._split(shapes, self._part_offsets[0])
        first = self._part_offsets[0]
        joined = join_vectors([self._parts[n].vectors.read(shapes[rows] - first[n]) for n, rows in part_of])
        return joined if order is None else joined.take(order)

    def read_all_shapes(self) -> ShapeBatch:
        """Return the vectors of all shapes."""
        return join_vectors([part.vectors.read() for part in self._parts])

    def read_digests(self, shapes: Int64Array) -> UInt64Array:
        """Return the digests of some shapes, in ascending order, of a segment without vectors.

        Shape (n_shapes, 2), dtype uint64.
        """
        first = self._part_offsets[0]
        digests = [self._parts[n].digests.take(shapes[some] - first[n]) for n, some in self._split(shapes, first)[0]]
        return np.concatenate([np.empty((0, 2), np.uint64), *digests])

    def count_pages(self, shapes: Int64Array) -> Int64Array:
        """Return the number of pages of each shape, deleted ones included."""
        part_of, order = self._split(shapes, self._part_offsets[0])
        first = self._part_offsets[0]
        counts = [self._parts[n].count_pages(shapes[rows] - first[n]) for n, rows in part_of]
        return np.asarray(_reorder(counts, order), np.int64)

    def first_pages(self, shapes: Int64Array, lengths: Int64Array) -> Int64Array:
        """Return the rows of the first pages of each shape, as many as said, in the order of their ids.

        Parameters
        ----------
        shapes
            Shape (n,), dtype int64: in ascending order.
        lengths
            Shape (n,), dtype int64: at most what `count_pages` gives.
        """
        first_shape, first_page = self._part_offsets
        part_of, _ = self._split(shapes, first_shape)
        rows = [
            self._parts[n].first_pages(shapes[some] - first_shape[n], lengths[some]) + first_page[n]
            for n, some in part_of
        ]
        return np.concatenate([np.empty(0, np.int64), *rows])

    def page_origins(self, rows: Int64Array) -> UInt64Array:
        """Return the number of each page's origin in the upper 32 bits, its row there below: the order of page ids."""
        part_of, order = self._split(rows, self._part_offsets[1])
        first = self._part_offsets[1]
        origins = [self._parts[n].page_origins(rows[some] - first[n]) for n, some in part_of]
        found = np.asarray(_reorder(origins, order), np.uint64)
        if len(found) and int(found.max()) >> 32 >= len(self.origins):
            where = f"{self.store.url}/{self._name('')}"
            raise IndexFormatError(f"{where} is damaged: a page is of a source that is not there; run check")
        return found

    def page_ids(self, origins: UInt64Array) -> list[str]:
        """Return the ids of pages given by their origins."""
        numbers, rows = (origins >> np.uint64(32)).tolist(), (origins & np.uint64(2**32 - 1)).tolist()
        return [f"{self.origins[number]}-{row}" for number, row in zip(numbers, rows, strict=True)]

    def find_page(self, origin: str, row: int) -> int | None:
        """Return the row of the page that was first written to row `row` of `origin`, None if it is not there."""
        if origin not in self.origins:
            return None
        wanted = np.uint64(self.origins.index(origin) << 32 | row)
        if self.deletions and not self.deletions.keep(np.array([wanted])).all():
            return None
        if not self.is_compacted:
            return row if row < self.summary.n_pages else None
        for number, part in enumerate(self._parts):
            if isinstance(part, CompactedPart) and len(found := np.flatnonzero(part.page_origins() == wanted)):
                return int(found[0] + self._part_offsets[1][number])
        return None

    def live_rows(self) -> Int64Array:
        """Return the rows of all pages that are not deleted, in the order in which they are stored."""
        rows = np.arange(self.summary.n_pages, dtype=np.int64)
        return rows[self.deletions.keep(self.page_origins(rows))] if self.deletions else rows

    def _split(self, numbers: Int64Array, first: Int64Array) -> tuple[list[tuple[int, Any]], Int64Array | None]:
        """Return which of some shapes or pages lie in which part, and how to put the results back in order."""
        if len(first) == 2 or not len(numbers):
            return [(0, slice(None))], None
        if numbers.min() < 0 or numbers.max() >= first[-1]:
            where = f"{self.store.url}/{self._name('')}"
            raise IndexFormatError(f"{where} has {first[-1]} rows, others are asked for: run check to see why")
        part = np.searchsorted(first, numbers, side="right") - 1
        order = np.argsort(part, kind="stable")
        cuts = np.searchsorted(part[order], np.arange(len(first)))
        pieces = [(n, order[cuts[n] : cuts[n + 1]]) for n in range(len(first) - 1) if cuts[n] < cuts[n + 1]]
        is_sorted = bool((order == np.arange(len(order))).all())
        return pieces, None if is_sorted else np.argsort(order, kind="stable")

    def read_signatures(self, shapes: Int64Array | None = None) -> UInt32Array:
        """Return the signatures of some shapes, in the given order, or of all. Shape (n_shapes, n_hashes), uint32."""
        arrays = self._signatures
        if shapes is None:
            return np.concatenate([array.read() for array in arrays])
        first = self._part_offsets[0]
        part_of, order = self._split(shapes, first)
        return np.asarray(_reorder([arrays[n].take(shapes[some] - first[n]) for n, some in part_of], order), np.uint32)

    def read_bands(self) -> Iterator[tuple[int, UInt64Array, UInt32Array]]:
        """Yield (band, buckets, shapes) of each row group of the band table, in the order of (band, bucket)."""
        return self._bands.read_all()

    @property
    def signature_arrays(self) -> list[Any]:
        """The signatures as open Zarr arrays, one a part."""
        from treesim_dask.index.arrays import open_array  # Zarr takes half a second to import, and queries do without

        return [open_array(self.store, name) for name in self._signature_names]

    @cached_property
    def page_shapes(self) -> Int64Array:
        """The shape of each page. Shape (n_pages,), dtype int64."""
        first = self._part_offsets[0]
        return np.concatenate([part.page_shapes() + first[n] for n, part in enumerate(self._parts)])

    def read_pages(self, rows: Int64Array | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the page table, or some of its rows in the given order, decoding only the row groups they lie in."""
        if rows is None:
            return pa.concat_tables([part.pages.read(columns=columns) for part in self._parts])
        part_of, order = self._split(rows, self._part_offsets[1])
        first = self._part_offsets[1]
        table = pa.concat_tables([self._parts[n].pages.read(rows[some] - first[n], columns) for n, some in part_of])
        return table if order is None else table.take(arrow_integers(order))

    def shapes_of(self, rows: Int64Array) -> Int64Array:
        """Return the shapes of some pages. Shape (n_pages,), dtype int64."""
        return column_values(self.read_pages(rows, ["shape"]), "shape").astype(np.int64)

    def read_skipped(self) -> pa.Table:
        """Return the table of what was left out, and why."""
        return open_table(self.store, self._name(SKIPPED)).read()


def part_name(number: int) -> str:
    """Return the folder of a part, relative to its compacted segment."""
    return f"parts/{number:05}"


def band_file_name(number: int) -> str:
    """Return a file of the band table, relative to its compacted segment."""
    return f"bands/{number:05}.parquet"


def _reorder(pieces: Sequence[Any], order: Int64Array | None) -> Any:
    joined = np.concatenate(pieces)
    return joined if order is None else joined[order]


def segment_id_of(source_url: str) -> str:
    """Name the segment of a source: the same source always gives the same name.

    Examples
    --------
    >>> segment_id_of("s3://bucket/a.warc.gz") == segment_id_of("s3://bucket/a.warc.gz")
    True
    """
    return hashlib.sha256(source_url.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def unpublish(store: Store, segment_id: str) -> None:
    """Remove a segment: interrupted in between, what is left is an orphan and no broken segment."""
    store.withdraw(f"{SEGMENTS}/{segment_id}", SUMMARY)


def list_segments(store: Store, cache: Cache | None = None) -> list[Segment]:
    """Return the published segments, in the order of their names: one listing, the catalog, and what it lacks."""
    names = store.list_names(SEGMENTS)
    catalog = read_catalog(store) if names else {}
    summaries = {name: _summary_or_none(catalog[name]) for name in names if name in catalog}
    paths = {f"{SEGMENTS}/{name}/{SUMMARY}": name for name in names if summaries.get(name) is None}
    for path, raw in store.read_present(list(paths)).items():
        summaries[paths[path]] = _summary_or_none(raw)
    return [Segment(store, name, cache, summary=summaries[name]) for name in names if name in summaries]


def gather_catalog(store: Store, written: Collection[str]) -> set[str]:
    """Gather what the segments say of themselves, for those who open the index next; return the names of all.

    Others may have put an older summary of the segments just written into the catalog meanwhile: these are asked
    themselves.
    """
    segments = {segment.segment_id: segment for segment in list_segments(store)}
    segments |= {name: Segment(store, name) for name in segments.keys() & written}
    summaries = {name: segment.summary.to_dict() for name, segment in segments.items()}
    if summaries != read_catalog(store):
        write_catalog(store, summaries)
    return set(summaries)


def _summary_or_none(content: bytes | Mapping[str, Any]) -> SegmentSummary | None:
    """Return a summary unless it is damaged: reading it from its file then says how."""
    try:
        values = parse_json(content, SUMMARY) if isinstance(content, bytes) else content
        return SegmentSummary.from_dict(values, SUMMARY)
    except IndexFormatError:
        return None

"""Pages and their shapes to a published segment, in memory bounded by the batch.

A segment is written to a staging folder and published whole. Pages of one template are often identical in shape, so
each distinct shape is stored once and the pages point at it.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.errors import StorageError
from treesim_dask.index.arrays import DEFAULT_CHUNK_BYTES, ArrayWriter
from treesim_dask.index.catalog import CATALOG
from treesim_dask.index.manifest import to_json
from treesim_dask.index.parts import BRANCHES, COUNTS, DIGESTS, INDPTR, SIGNATURES
from treesim_dask.index.segment import SEGMENTS, SUMMARY, SegmentSummary, segment_id_of
from treesim_dask.index.store import Store, storage_errors
from treesim_dask.index.tables import BANDS, PAGE_SCHEMA, PAGES, SKIPPED, SKIPPED_SCHEMA, TableWriter, write_bands
from treesim_dask.types import (
    Int64Array,
    PageBatch,
    ShapeBatch,
    SkippedLog,
    Source,
    UInt32Array,
    UInt64Array,
    offsets_of,
)

_MOST_DAMAGE = 20  # places named in a summary; the table of what was left out has them all


class SegmentWriter:
    """Writes the segment of one source. Use as a context manager: leaving it without `publish` leaves no trace.

    Parameters
    ----------
    store
        Where the index lies.
    source
        What the pages come from; it names the segment.
    config
        The index parameters.
    page_filter
        Which pages were chosen; kept in the summary.
    with_vectors
        False leaves the vectors out: less than half the space, and queries read the archives again.
    """

    def __init__(
        self,
        store: Store,
        source: Source,
        config: IndexConfig,
        page_filter: PageFilter,
        with_vectors: bool = True,
    ) -> None:
        self._with_vectors = with_vectors
        self.skipped = SkippedLog()
        self._store, self._source, self._config, self._filter = store, source, config, page_filter
        self._segment_id = segment_id_of(source.url)
        self._shape_ids: dict[bytes, int] = {}
        self._band_keys: list[UInt64Array] = []
        self._n_pages = self._n_nodes = self._n_entries = self._n_html_bytes = 0
        self._open_files = ExitStack()

    def __enter__(self) -> SegmentWriter:
        self._folder = self._store.make_staging(self._segment_id)
        with storage_errors(self._store.url):
            self._pages = self._open_files.enter_context(TableWriter(self._folder / PAGES, PAGE_SCHEMA))
            self._signatures = ArrayWriter(self._folder / SIGNATURES, (self._config.n_hashes,), np.uint32)
            self._vectors = VectorWriter(self._folder) if self._with_vectors else DigestWriter(self._folder)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._open_files.__exit__(kind, error, None)
        shutil.rmtree(self._folder, ignore_errors=True)

    def add_pages(self, pages: PageBatch, shapes: ShapeBatch) -> ShapeBatch:
        """Add a batch of pages and return those of its shapes that the segment did not have yet.

        The returned shapes are numbered in this order and must be given to `add_shapes` next.
        """
        shape_ids, fresh = self._number_shapes(shapes)
        n_nodes = _row_sums(shapes)
        with storage_errors(self._store.url):
            self._pages.append(
                {
                    "page": np.arange(self._n_pages, self._n_pages + len(pages), dtype=np.uint32),
                    "url": pages.url,
                    "date": pages.date,
                    "warc": pages.warc,
                    "offset": pages.offset,
                    "length": pages.length,
                    "digest": pages.digest,
                    "status": pages.status,
                    "n_nodes": n_nodes.astype(np.uint32),
                    "shape": shape_ids,
                }
            )
        self._n_pages += len(pages)
        self._n_nodes += int(n_nodes.sum())
        self._n_html_bytes += sum(map(len, pages.html))
        return shapes.take(fresh)

    def add_shapes(self, shapes: ShapeBatch, signatures: UInt32Array, keys: UInt64Array) -> None:
        """Add the shapes that `add_pages` returned.

        Parameters
        ----------
        shapes
            As returned by `add_pages`.
        signatures
            Shape (n_shapes, n_hashes), dtype uint32.
        keys
            Shape (n_shapes, n_bands), dtype uint64: their bucket keys.
        """
        with storage_errors(self._store.url):
            self._signatures.append(signatures)
            self._vectors.append(shapes)
        self._band_keys.append(keys)
        self._n_entries += len(shapes.branches)

    def publish(self, damage_reasons: Collection[str] = ()) -> SegmentSummary:
        """Finish all files and make the segment part of the index.

        Parameters
        ----------
        damage_reasons
            Which reasons in `skipped` mean that the source itself is broken; the summary says where.
        """
        with storage_errors(self._store.url):
            self._open_files.close()
            self._signatures.close()
            self._vectors.close()
            empty = np.empty((0, self._config.n_bands), np.uint64)
            write_bands(self._folder / BANDS, np.concatenate([empty, *self._band_keys]))
            with TableWriter(self._folder / SKIPPED, SKIPPED_SCHEMA) as table:
                log = self.skipped
                table.append({"reason": log.reason, "warc": log.warc, "offset": log.offset})
            summary = self._summary(damage_reasons)
            (self._folder / SUMMARY).write_bytes(to_json(summary.to_dict()))
        if missing := {PAGES, BANDS, SKIPPED, f"{SIGNATURES}/zarr.json"} - summary.files.keys():
            raise StorageError(f"{self._folder} was changed by another program ({min(missing)} is gone): build again")
        if self._store.publish(self._folder, f"{SEGMENTS}/{self._segment_id}", SUMMARY):
            self._store.remove(CATALOG)  # it may still tell of the segment that was replaced
        return summary

    def _number_shapes(self, shapes: ShapeBatch) -> tuple[UInt32Array, Int64Array]:
        """Return the number of each row's shape in the segment, and the rows whose shape is new."""
        numbers = np.empty(len(shapes), np.uint32)
        fresh = []
        for row, digest in enumerate(digest_shapes(shapes).view("V16").ravel().tolist()):
            if digest not in self._shape_ids:
                self._shape_ids[digest] = len(self._shape_ids)
                fresh.append(row)
            numbers[row] = self._shape_ids[digest]
        return numbers, np.array(fresh, np.int64)

    def _summary(self, damage_reasons: Collection[str]) -> SegmentSummary:
        source = self._source
        return SegmentSummary(
            segment_id=self._segment_id,
            source_url=source.url,
            source_kind=source.kind,
            source_size=source.size,
            source_digest=source.digest,
            page_filter=self._filter.to_dict(),
            fingerprint=self._config.fingerprint,
            n_pages=self._n_pages,
            n_shapes=len(self._shape_ids),
            n_nodes=self._n_nodes,
            n_entries=self._n_entries,
            n_html_bytes=self._n_html_bytes,
            skipped=dict(sorted(Counter(self.skipped.reason).items())),
            damage=[list(place) for place in self.skipped.select(damage_reasons)[:_MOST_DAMAGE]],
            files=file_checksums(self._folder),
        )


class VectorWriter:
    """Writes the vectors of shapes.

    Parameters
    ----------
    folder
        Of the segment or part.
    chunk_bytes, indptr_chunk_bytes
        Decoded size of a chunk of the vectors, and of their row pointers.
    """

    def __init__(
        self, folder: Path, chunk_bytes: int = DEFAULT_CHUNK_BYTES, indptr_chunk_bytes: int = DEFAULT_CHUNK_BYTES
    ) -> None:
        self._indptr = ArrayWriter(folder / INDPTR, (), np.int64, indptr_chunk_bytes)
        self._branches = ArrayWriter(folder / BRANCHES, (), np.uint32, chunk_bytes)
        self._counts = ArrayWriter(folder / COUNTS, (), np.uint32, chunk_bytes)
        self._indptr.append(np.zeros(1, np.int64))
        self._n_entries = 0

    def append(self, shapes: ShapeBatch) -> None:
        """Add shapes at the end."""
        self._indptr.append(shapes.indptr[1:] + self._n_entries)
        self._branches.append(shapes.branches)
        self._counts.append(shapes.counts)
        self._n_entries += len(shapes.branches)

    def close(self) -> None:
        """Write what is still held."""
        for array in (self._indptr, self._branches, self._counts):
            array.close()


class DigestWriter:
    """Writes digests in the place of vectors: enough to tell equal shapes, when segments are compacted."""

    def __init__(self, folder: Path) -> None:
        self._digests = ArrayWriter(folder / DIGESTS, (2,), np.uint64)

    def append(self, shapes: ShapeBatch) -> None:
        """Add shapes at the end."""
        self._digests.append(digest_shapes(shapes))

    def close(self) -> None:
        """Write what is still held."""
        self._digests.close()


def digest_shapes(shapes: ShapeBatch) -> UInt64Array:
    """Return a 128-bit digest of each shape. Shape (n_shapes, 2), dtype uint64."""
    branches, counts = shapes.branches.view(np.uint8).data, shapes.counts.view(np.uint8).data
    ends = (shapes.indptr * shapes.branches.itemsize).tolist()
    digests = []
    for start, end in itertools.pairwise(ends):
        vector = hashlib.blake2b(branches[start:end], digest_size=16)
        vector.update(counts[start:end])
        digests.append(vector.digest())
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)


def _row_sums(shapes: ShapeBatch) -> Int64Array:
    """Return the sum of the counts of each row: the number of nodes of each tree."""
    running = offsets_of(shapes.counts)
    return running[shapes.indptr[1:]] - running[shapes.indptr[:-1]]


def file_checksums(folder: Path) -> dict[str, list[Any]]:
    """Return size and checksum of every file below a folder, by its path relative to the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): [path.stat().st_size, file_digest(path.read_bytes())] for path in files
    }


def file_digest(data: bytes) -> str:
    """Return the checksum that a summary keeps of a file."""
    return hashlib.sha256(data).hexdigest()

"""Second half of a compaction: the parts of the new segment, and its band table in one global order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from treesim_dask.index.arrays import ArrayWriter
from treesim_dask.index.bands import Lookup, lookup_of
from treesim_dask.index.parts import DIGESTS, ORIGINS, PAGE_INDPTR, SIGNATURES
from treesim_dask.index.segment import SEGMENTS, band_file_name, part_name
from treesim_dask.index.splitting import MakeKeys, Unit, Work, read_split, read_split_pages
from treesim_dask.index.tables import BAND_SCHEMA, PAGE_SCHEMA, PAGES, band_writer, compacted_page_options
from treesim_dask.index.writer import VectorWriter, file_checksums
from treesim_dask.types import Int64Array, ShapeBatch, UInt32Array, UInt64Array, offsets_of

COMPACTED_PAGE_SCHEMA = pa.schema([("segment", pa.string()), *PAGE_SCHEMA])

# A query takes few rows from many places: small pieces, so that little else is decoded with them.
_VECTOR_CHUNK_BYTES = 2**15
_PAGE_CHUNK_BYTES = 2**14
_PAGE_GROUP_ROWS = 512
_BAND_GROUP_ROWS = 2048


@dataclass(frozen=True, slots=True)
class Range:
    """One part of the new segment: the shapes whose keys lie from `low` up to `high`."""

    number: int
    low: int
    high: int


def count_distinct(part: Range, units: Sequence[Unit], work: Work) -> int:
    """Return how many distinct shapes a part will have."""
    tables = [read_split(unit, work, part.low, part.high, ["low", "high"])[0] for unit in units]
    return int(_group_equal(pa.concat_tables(tables)).max(initial=-1)) + 1


def gather_part(
    part: Range, first_shape: int, units: Sequence[Unit], work: Work, make_keys: MakeKeys
) -> dict[str, Any]:
    """Write one part of the new segment, every distinct shape once, and its rows of the band table by bucket range.

    Parameters
    ----------
    part
        Which shapes.
    first_shape
        How many shapes the parts before it have.
    units, work
        What is compacted, where.
    make_keys
        Returns the bucket keys of signatures.
    """
    step = f"part-{part.number:05}"
    if (done := work.finished(step)) is not None:
        return done
    columns = ["low", "high", "signature", "branches", "counts"]
    splits = [read_split(unit, work, part.low, part.high, columns) for unit in units]
    shapes = pa.concat_tables([table for table, _ in splits])
    group_of = _group_equal(shapes)
    n_shapes = int(group_of.max(initial=-1)) + 1
    first_row = np.full(n_shapes, len(group_of), np.int64)
    np.minimum.at(first_row, group_of, np.arange(len(group_of)))
    pages = _gather_pages(units, splits, group_of, work)
    signatures = _signatures(shapes, work.n_hashes)[first_row]
    with work.scratch() as folder:
        _write_shapes(folder, shapes, first_row, signatures, work)
        _write_pages(folder, pages, n_shapes, first_shape, work.origins)
        _write_band_rows(folder / "bands", make_keys(signatures), first_shape, work)
        work.store.put_file(folder / "bands", work.staged(f"bands-{part.number:05}.parquet"))
        files = {f"{part_name(part.number)}/{name}": entry for name, entry in file_checksums(folder).items()}
        # the scratch folder itself becomes the part
        work.store.publish(folder, f"{SEGMENTS}/{work.compacted_id}/{part_name(part.number)}", PAGES)
    result = {
        "n_shapes": n_shapes,
        "n_pages": pages.num_rows,
        "n_nodes": int(pages.column("n_nodes").to_numpy().astype(np.int64).sum()),
        "n_entries": int(_lengths(shapes)[first_row].sum()),
        "files": files,
    }
    return work.finish(step, result)


def order_bands(number: int, cells: Sequence[int], n_parts: int, work: Work) -> dict[str, Any]:
    """Write one file of the band table: some consecutive (band, bucket range) cells, each merged from all parts.

    Returns the lookup rows of its row groups, and its checksum.
    """
    step = f"bands-{number:05}"
    if (done := work.finished(step)) is not None:
        return done
    with work.scratch() as folder:
        path = folder / Path(band_file_name(number)).name
        with band_writer(path) as writer:
            for cell in cells:
                for buckets, shapes in _merge_cell(cell, n_parts, work):
                    writer.write_table(_band_rows(cell // work.n_ranges, buckets, shapes))
        columns = lookup_of([pq.ParquetFile(path)], number)
        lookup = list(zip(*(getattr(columns, name).tolist() for name in Lookup.__slots__), strict=True))
        (entry,) = file_checksums(folder).values()
        work.store.put_file(path, f"{SEGMENTS}/{work.compacted_id}/{band_file_name(number)}")
    return work.finish(step, {"lookup": lookup, "files": {band_file_name(number): entry}})


def write_lookup(path: Path, rows: Sequence[Sequence[int]]) -> None:
    """Write where each row group of a band table is."""
    kinds = (pa.uint16(), pa.uint64(), pa.uint64(), pa.uint32(), pa.int64(), pa.uint32(), pa.uint32(), pa.uint32())
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    pq.write_table(pa.table(dict(zip(Lookup.__slots__, arrays, strict=True))), path, compression="zstd")


def _group_equal(shapes: pa.Table) -> Int64Array:
    """Number the distinct shapes in the order of (key, digest) and return the number of each row."""
    parts = [shapes.column(name).to_numpy() for name in ("key", "low", "high")]
    if not len(parts[0]):
        return np.empty(0, np.int64)
    order = np.lexsort(parts[::-1])
    is_new = np.any([part[order][1:] != part[order][:-1] for part in parts], axis=0)
    group_of = np.empty(len(order), np.int64)
    group_of[order] = np.append(0, np.cumsum(is_new))
    return group_of


def _gather_pages(
    units: Sequence[Unit], splits: Sequence[tuple[pa.Table, int]], group_of: Int64Array, work: Work
) -> pa.Table:
    """Return the pages of a part ordered by shape and, inside a shape, by id; their shapes counted from 0."""
    tables, lengths = [], []
    for unit, (shapes, n_before) in zip(units, splits, strict=True):
        n_pages = shapes.column("n_pages").to_numpy()
        tables.append(read_split_pages(unit, work, n_before, int(n_pages.sum())).select([*PAGE_SCHEMA.names, "origin"]))
        lengths.append(n_pages)
    pages = pa.concat_tables(tables)
    shape = np.repeat(group_of, np.concatenate(lengths))
    order = np.lexsort((pages.column("origin").to_numpy(), shape))
    position = pages.schema.get_field_index("shape")
    return pages.set_column(position, "shape", pa.array(shape.astype(np.uint32))).take(pa.array(order))


def _lengths(shapes: pa.Table) -> Int64Array:
    chunks = [np.diff(np.asarray(chunk.offsets)) for chunk in shapes.column("branches").chunks]
    return np.concatenate([np.empty(0, np.int64), *chunks])


def _vectors(shapes: pa.Table) -> ShapeBatch:
    values = [
        np.concatenate([np.empty(0, np.uint32), *(np.asarray(chunk.flatten()) for chunk in shapes.column(name).chunks)])
        for name in ("branches", "counts")
    ]
    return ShapeBatch(offsets_of(_lengths(shapes)), *values)


def _signatures(shapes: pa.Table, n_hashes: int) -> UInt32Array:
    chunks = [np.asarray(chunk.flatten(), np.uint32) for chunk in shapes.column("signature").chunks]
    return np.concatenate([np.empty(0, np.uint32), *chunks]).reshape(-1, n_hashes)


def _write_shapes(folder: Path, shapes: pa.Table, rows: Int64Array, signatures: UInt32Array, work: Work) -> None:
    _write_array(folder / SIGNATURES, signatures, signatures.shape[1:], _VECTOR_CHUNK_BYTES)
    if work.with_vectors:
        vectors = VectorWriter(folder, _VECTOR_CHUNK_BYTES, _PAGE_CHUNK_BYTES)
        vectors.append(_vectors(shapes).take(rows))
        vectors.close()
    else:
        digests = np.stack([shapes.column(name).to_numpy()[rows] for name in ("low", "high")], axis=1)
        _write_array(folder / DIGESTS, digests, (2,), _PAGE_CHUNK_BYTES)


def _write_array(path: Path, values: Any, row_shape: tuple[int, ...], chunk_bytes: int) -> None:
    writer = ArrayWriter(path, row_shape, values.dtype, chunk_bytes)
    writer.append(values)
    writer.close()


def _write_pages(folder: Path, pages: pa.Table, n_shapes: int, first_shape: int, origins: Sequence[str]) -> None:
    origin: UInt64Array = pages.column("origin").to_numpy()
    shape = pages.column("shape").to_numpy().astype(np.int64)
    _write_array(folder / PAGE_INDPTR, offsets_of(np.bincount(shape, minlength=n_shapes)), (), _PAGE_CHUNK_BYTES)
    _write_array(folder / ORIGINS, origin, (), _PAGE_CHUNK_BYTES)
    names = pa.array(origins).take(pa.array(origin >> np.uint64(32)))
    columns = [names, *(pages.column(name) for name in PAGE_SCHEMA.names)]
    columns[COMPACTED_PAGE_SCHEMA.get_field_index("shape")] = pa.array((shape + first_shape).astype(np.uint32))
    table = pa.table(dict(zip(COMPACTED_PAGE_SCHEMA.names, columns, strict=True)), schema=COMPACTED_PAGE_SCHEMA)
    pq.write_table(table, folder / PAGES, row_group_size=_PAGE_GROUP_ROWS, **compacted_page_options())


def _write_band_rows(path: Path, keys: UInt64Array, first_shape: int, work: Work) -> None:
    """Write the band rows of a part, one row group for each (band, bucket range) cell, in this order."""
    with band_writer(path) as writer:
        for band in range(work.n_bands):
            order = np.argsort(keys[:, band], kind="stable")
            buckets = keys[order, band]
            cuts = np.searchsorted(_range_of(buckets, work.n_ranges), np.arange(work.n_ranges + 1))
            for start, stop in pairwise(cuts):
                shapes = (order[start:stop] + first_shape).astype(np.uint32)
                writer.write_table(_band_rows(band, buckets[start:stop], shapes), row_group_size=2**26)


def _range_of(buckets: UInt64Array, n_ranges: int) -> Int64Array:
    """Return the range of each bucket: they are spread evenly over 64 bits."""
    return ((buckets >> np.uint64(32)) * np.uint64(n_ranges) >> np.uint64(32)).astype(np.int64)


def _band_rows(band: int, buckets: UInt64Array, shapes: UInt32Array) -> pa.Table:
    columns = [np.full(len(buckets), band, np.uint16), buckets, shapes]
    return pa.table(dict(zip(BAND_SCHEMA.names, columns, strict=True)), schema=BAND_SCHEMA)


def _merge_cell(cell: int, n_parts: int, work: Work) -> Iterator[tuple[UInt64Array, UInt32Array]]:
    """Yield the rows of a cell, ordered by (bucket, shape), a row group at a time."""
    tables = []
    for part in range(n_parts):
        with work.store.open_binary(work.staged(f"bands-{part:05}.parquet")) as file:
            tables.append(pq.ParquetFile(file).read_row_group(cell, columns=["bucket", "shape"]))
    rows = pa.concat_tables(tables)
    buckets, shapes = rows.column("bucket").to_numpy(), rows.column("shape").to_numpy()
    order = np.lexsort((shapes, buckets))
    for first in range(0, len(order), _BAND_GROUP_ROWS):
        some = order[first : first + _BAND_GROUP_ROWS]
        yield buckets[some], shapes[some]

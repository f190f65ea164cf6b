"""An index as plain tables, for those who ask it with SQL or data frames.

``pages`` has a row a page, ``shapes`` the vector and the signature of each distinct shape of a segment, ``bands`` the
bucket of each shape in each band. ``shape`` joins them; it is a number of its own in every export.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from treesim_dask.errors import ConfigError
from treesim_dask.index.manifest import MANIFEST
from treesim_dask.index.segment import Segment
from treesim_dask.index.store import storage_errors
from treesim_dask.index.tables import PAGE_SCHEMA
from treesim_dask.types import Int64Array

_ROWS_AT_ONCE = 2**14
_PAGE_COLUMNS = [name for name in PAGE_SCHEMA.names if name not in ("page", "shape")]

SCHEMAS = {
    "pages": pa.schema(
        [
            ("page_id", pa.string()),
            ("shape", pa.int64()),
            *(PAGE_SCHEMA.field(name) for name in _PAGE_COLUMNS),
        ]
    ),
    "shapes": pa.schema(
        [
            ("shape", pa.int64()),
            ("branches", pa.large_list(pa.uint32())),
            ("counts", pa.large_list(pa.uint32())),
            ("signature", pa.list_(pa.uint32())),
        ]
    ),
    "bands": pa.schema([("shape", pa.int64()), ("band", pa.uint16()), ("bucket", pa.uint64())]),
}


def export_tables(
    segments: Sequence[Segment], folder: str | os.PathLike[str], file_format: str = "parquet"
) -> dict[str, int]:
    """Write an index as three tables and return the number of rows of each. They appear once all three are whole.

    Parameters
    ----------
    segments
        The index.
    folder
        A local folder that is no index; the files in it are named after the tables.
    file_format
        ``"parquet"`` or ``"arrow"`` (the Arrow IPC file format).
    """
    if file_format not in ("parquet", "arrow"):
        raise ConfigError(f"format must be parquet or arrow, got {file_format!r}")
    target = _check_target(os.fspath(folder))
    with storage_errors(str(target)):
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=target) as unfinished:
            n_rows = _write_tables(segments, Path(unfinished), file_format)
            for path in Path(unfinished).iterdir():
                path.replace(target / path.name)
    return n_rows


def _check_target(folder: str) -> Path:
    """Refuse what is no local folder, or one that holds something else."""
    if not folder.strip() or "://" in folder:
        raise ConfigError(f"an export is written to a local folder, got {folder!r}; copy its files from there")
    target = Path(folder).expanduser()
    if (target / MANIFEST).exists():
        raise ConfigError(f"{folder} is an index: give another folder for its tables")
    return target


def _write_tables(segments: Sequence[Segment], folder: Path, file_format: str) -> dict[str, int]:
    n_rows = dict.fromkeys(SCHEMAS, 0)
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(_open_writer(folder / f"{name}.{file_format}", schema, file_format))
            for name, schema in SCHEMAS.items()
        }
        first_shape = 0
        for segment in segments:
            for name, blocks in _BLOCKS.items():
                for table in blocks(segment, first_shape):
                    writers[name].write_table(table)
                    n_rows[name] += table.num_rows
            first_shape += segment.summary.n_shapes
    return n_rows


def _open_writer(path: Path, schema: pa.Schema, file_format: str) -> Any:
    if file_format == "arrow":
        return pa.ipc.new_file(str(path), schema)
    return pq.ParquetWriter(path, schema, compression="zstd")


def _page_blocks(segment: Segment, first_shape: int) -> Iterator[pa.Table]:
    rows = segment.live_rows()
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        pages = segment.read_pages(some, _PAGE_COLUMNS)
        columns = {
            "page_id": pa.array(segment.page_ids(segment.page_origins(some))),
            "shape": pa.array(segment.shapes_of(some) + first_shape),
        }
        columns.update({name: pages.column(name) for name in _PAGE_COLUMNS})
        yield pa.table(columns, schema=SCHEMAS["pages"])


def _shape_blocks(segment: Segment, first_shape: int) -> Iterator[pa.Table]:
    for shapes in _shape_numbers(segment):
        signatures = segment.read_signatures(shapes)
        width = pa.array(np.arange(0, signatures.size + 1, signatures.shape[1]), pa.int32())
        columns = [
            pa.array(shapes + first_shape),
            *_vector_columns(segment, shapes),
            pa.ListArray.from_arrays(width, pa.array(signatures.ravel())),
        ]
        yield pa.table(columns, schema=SCHEMAS["shapes"])


def _vector_columns(segment: Segment, shapes: Int64Array) -> tuple[pa.Array, pa.Array]:
    """Return the branches and counts of some shapes; nothing but gaps for a segment without vectors."""
    if not segment.has_vectors:
        gaps = pa.nulls(len(shapes), pa.large_list(pa.uint32()))
        return gaps, gaps
    vectors = segment.read_shapes(shapes)
    offsets = pa.array(vectors.indptr)
    branches, counts = (pa.array(values) for values in (vectors.branches, vectors.counts))
    return pa.LargeListArray.from_arrays(offsets, branches), pa.LargeListArray.from_arrays(offsets, counts)


def _band_blocks(segment: Segment, first_shape: int) -> Iterator[pa.Table]:
    for band, buckets, shapes in segment.read_bands():
        columns = [
            pa.array(shapes.astype(np.int64) + first_shape),
            pa.array(np.full(len(shapes), band, np.uint16)),
            pa.array(buckets),
        ]
        yield pa.table(columns, schema=SCHEMAS["bands"])


def _shape_numbers(segment: Segment) -> Iterator[Int64Array]:
    for first in range(0, segment.summary.n_shapes, _ROWS_AT_ONCE):
        yield np.arange(first, min(first + _ROWS_AT_ONCE, segment.summary.n_shapes), dtype=np.int64)


_BLOCKS: dict[str, Callable[[Segment, int], Iterator[pa.Table]]] = {
    "pages": _page_blocks,
    "shapes": _shape_blocks,
    "bands": _band_blocks,
}

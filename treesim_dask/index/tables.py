"""Parquet tables as segments use them: their schemas, written in bounded memory, read by row group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from treesim_dask.errors import IndexFormatError, MissingFileError, SourceError
from treesim_dask.index.store import Store, storage_errors
from treesim_dask.types import Int64Array, UInt64Array

PageRows: TypeAlias = pa.Table  # rows of a page table

PAGES = "pages.parquet"
BANDS = "bands.parquet"
SKIPPED = "skipped.parquet"

PAGE_SCHEMA = pa.schema(
    [
        ("page", pa.uint32()),
        ("url", pa.string()),
        ("date", pa.timestamp("ms", tz="UTC")),
        ("warc", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("digest", pa.string()),
        ("status", pa.uint16()),
        ("n_nodes", pa.uint32()),
        ("shape", pa.uint32()),
    ]
)
BAND_SCHEMA = pa.schema([("band", pa.uint16()), ("bucket", pa.uint64()), ("shape", pa.uint32())])
MATCH_SCHEMA = pa.schema(
    [
        ("query", pa.string()),
        ("rank", pa.uint32()),
        ("score", pa.float64()),
        ("cosine", pa.float64()),
        ("jaccard", pa.float64()),
        ("bands", pa.list_(pa.uint16())),
        ("url", pa.string()),
        ("date", pa.timestamp("ms", tz="UTC")),
        ("warc", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("page_id", pa.string()),
        ("n_nodes", pa.uint32()),
        ("is_query", pa.bool_()),
        ("probability", pa.float64()),
    ]
)
SKIPPED_SCHEMA = pa.schema([("reason", pa.string()), ("warc", pa.string()), ("offset", pa.int64())])

_PLACE_COLUMNS = (
    ["warc_filename", "warc_record_offset", "warc_record_length"],  # as Common Crawl names them
    ["filename", "offset", "length"],
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A page checksum makes a byte that changed on its way from the store an error, not an answer.
_WRITE_OPTIONS: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "write_page_checksum": True}

# Small enough that a query decodes little beside what it looks for, large enough that the footer stays small.
_PAGE_GROUP_ROWS = 8_192
_BAND_GROUP_ROWS = 16_384
_BAND_ROWS_AT_ONCE = 2**18  # 30 bytes each while they are sorted: an index may have a thousand bands


def compacted_page_options() -> dict[str, Any]:
    """Return how the pages of a compacted segment are written: small, and quick to read by row group."""
    integers = ("page", "date", "offset", "length", "n_nodes", "shape")
    return {
        **_WRITE_OPTIONS,
        "use_dictionary": ["segment", "warc"],  # of a few hundred rows the others hardly repeat
        "column_encoding": dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
        "write_statistics": ["shape"],  # they are in the order of their shapes: other bounds tell nothing
    }


class TableWriter:
    """Appends columns to a Parquet file, a row group at a time.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "skipped.parquet"
    >>> with TableWriter(path, SKIPPED_SCHEMA) as table:
    ...     table.append({"reason": ["status"], "warc": ["a.warc.gz"], "offset": [17]})
    >>> pq.read_table(path).num_rows
    1
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, **_WRITE_OPTIONS)
        self._pending: list[pa.Table] = []
        self._n_pending = 0

    def append(self, columns: dict[str, Any]) -> None:
        """Add rows, given as one sequence a column."""
        self.append_table(pa.table(columns, schema=self._schema))

    def append_table(self, table: pa.Table) -> None:
        """Add the rows of a table."""
        self._pending.append(table)
        self._n_pending += table.num_rows
        if self._n_pending >= _PAGE_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        table = pa.concat_tables(self._pending).combine_chunks()
        self._writer.write_table(table, row_group_size=_PAGE_GROUP_ROWS)
        self._pending = []
        self._n_pending = 0

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None and self._pending:
            self._flush()
        self._writer.close()


def band_writer(path: Path) -> pq.ParquetWriter:
    """Open a band table for writing."""
    # buckets are random numbers: only their differences, once sorted, compress
    encoding = {"bucket": "DELTA_BINARY_PACKED", "shape": "DELTA_BINARY_PACKED"}
    return pq.ParquetWriter(path, BAND_SCHEMA, **_WRITE_OPTIONS, use_dictionary=["band"], column_encoding=encoding)


def write_bands(path: Path, keys: UInt64Array) -> None:
    """Write the band table of a segment, ordered by (band, bucket, shape); no row group spans two bands.

    Parameters
    ----------
    path
        A local file.
    keys
        Shape (n_shapes, n_bands), dtype uint64: the bucket keys of each shape.
    """
    n_shapes, n_bands = keys.shape
    # bands of one row group each are sorted and written together: a call takes longer than a short band
    n_together = max(1, _BAND_ROWS_AT_ONCE // n_shapes) if 0 < n_shapes <= _BAND_GROUP_ROWS else 1
    with band_writer(path) as writer:
        for first in range(0, n_bands if n_shapes else 0, n_together):
            some = np.ascontiguousarray(keys[:, first : first + n_together].T)
            order = np.argsort(some, axis=1, kind="stable")
            bands = np.repeat(np.arange(first, first + len(some), dtype=np.uint16), n_shapes)
            columns = [bands, np.take_along_axis(some, order, 1).ravel(), order.ravel().astype(np.uint32)]
            table = pa.table(dict(zip(BAND_SCHEMA.names, columns, strict=True)), schema=BAND_SCHEMA)
            writer.write_table(table, row_group_size=min(n_shapes, _BAND_GROUP_ROWS))


def write_matches(path: str, answers: Iterable[Sequence[Mapping[str, Any]]]) -> int:
    """Write the matches of answers, given as rows, to a Parquet file as they come, and return how many there were."""
    n_matches = 0
    with storage_errors(path), TableWriter(Path(path), MATCH_SCHEMA) as table:
        table.append_table(MATCH_SCHEMA.empty_table())
        for matches in answers:
            table.append_table(pa.Table.from_pylist(list(matches), schema=MATCH_SCHEMA))
            n_matches += len(matches)
    return n_matches


def column_values(table: pa.Table, name: str) -> NDArray[Any]:
    """Return a column of integers without gaps as an array.

    pyarrow's own conversion imports pandas, which takes longer than a whole query.

    Examples
    --------
    >>> column_values(pa.table({"a": pa.array([1, 2], pa.uint32())}), "a")
    array([1, 2], dtype=uint32)
    """
    column = table.column(name)
    dtype = np.dtype(str(column.type))
    views = [
        np.frombuffer(chunk.buffers()[1], dtype, len(chunk), chunk.offset * dtype.itemsize)
        for chunk in column.chunks
        if len(chunk)
    ]
    return views[0] if len(views) == 1 else np.concatenate([np.empty(0, dtype), *views])


def page_columns(table: pa.Table) -> dict[str, list[Any]]:
    """Return the columns of a page table as lists; pyarrow would import pandas for the dates."""
    return {name: _dates(table) if name == "date" else table.column(name).to_pylist() for name in table.column_names}


def take_pages(table: PageRows, rows: Int64Array) -> PageRows:
    """Return some rows of a page table, in the given order."""
    return table.take(arrow_integers(rows))


def join_pages(tables: Sequence[PageRows], columns: Sequence[str]) -> PageRows:
    """Return page tables one after the other, or one without rows."""
    return pa.concat_tables(tables) if tables else PAGE_SCHEMA.empty_table().select(columns)


def page_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a page table as dicts."""
    columns = page_columns(table)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _dates(table: pa.Table) -> list[datetime | None]:
    milliseconds = table.column("date").cast(pa.int64()).to_pylist()
    return [None if value is None else _EPOCH + timedelta(milliseconds=value) for value in milliseconds]


def arrow_integers(values: Int64Array) -> pa.Array:
    """Hand an array to Arrow as it is; `pyarrow.array` would import pandas to see whether it is one of its own."""
    values = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def read_places(url: str, storage_options: Mapping[str, Any] | None = None) -> list[tuple[str, int, int]]:
    """Return (file, offset, length) of each row of a crawl's columnar index, or of a table cut out of it."""
    with fsspec.open(url, "rb", **(storage_options or {})) as file:
        table = pq.ParquetFile(file)
        names = set(table.schema_arrow.names)
        columns = next((wanted for wanted in _PLACE_COLUMNS if names.issuperset(wanted)), None)
        if columns is None:
            raise SourceError(
                f"{url} has no columns {' or '.join(map(', '.join, _PLACE_COLUMNS))}; it has {sorted(names)}"
            )
        rows = table.read(columns=columns)
    return list(zip(*(rows.column(name).to_pylist() for name in columns), strict=True))


@contextmanager
def damage_errors(store: Store, name: str) -> Iterator[None]:
    """Name the file of an index that is missing or cannot be decoded."""
    try:
        yield
    except FileNotFoundError as error:
        # several may have been asked for, of which a file system names the one
        where = error.filename if store.is_local and error.filename else f"{store.url}/{name}"
        raise MissingFileError(f"{where} is missing; run check to see what else is") from None
    except (pa.ArrowInvalid, OSError) as error:
        if not isinstance(error, pa.ArrowInvalid) and type(error) is not OSError:  # such as a refused permission
            raise
        raise IndexFormatError(f"{store.url}/{name} is damaged: {error}; run check to see what else is") from None


def open_table(store: Store, name: str) -> pq.ParquetFile:
    """Open a Parquet file of a published segment."""
    with damage_errors(store, name):
        if store.is_local:
            return pq.ParquetFile(store.path(name), page_checksum_verification=True)  # mapped, it would count as memory
        return pq.ParquetFile(store.open_binary(name), page_checksum_verification=True)

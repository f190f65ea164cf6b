"""What one stage hands to the next: batches of arrays, never an object per node.

``Source`` -> ``PageBatch`` -> ``TreeBatch`` -> ``ShapeBatch`` is the order in which a build makes them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from itertools import compress
from typing import Literal

import numpy as np
from numpy.typing import NDArray

UInt16Array = NDArray[np.uint16]
UInt32Array = NDArray[np.uint32]
UInt64Array = NDArray[np.uint64]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Source:
    """One partition of a crawl: an archive file, or a group of plain HTML files.

    Parameters
    ----------
    url
        Names the source and with it its segment. An absolute URL: two spellings of one file are one source.
    kind
        ``"archive"`` (WARC or ARC), ``"html"`` (plain pages), or ``"extract"`` (some WARC records of an archive).
    members
        The files to read: the archive itself, or the HTML files of the group in sorted order. For an extract the
        archive and then, as ``offset+length``, its WARC records.
    size
        Bytes of all members, or None where listing the input did not tell.
    digest
        Of the members, where the url does not tell which they are: names and sizes of a group of HTML files.
    modified
        When the newest member was written, in seconds since 1970, where that can be seen: files of this machine.
    """

    url: str
    kind: Literal["archive", "html", "extract"]
    members: tuple[str, ...]
    size: int | None = None
    digest: str | None = None
    modified: float | None = None

    @property
    def root(self) -> str:
        """What the source is a part of, see `root_of`."""
        return root_of(self.url, self.kind)


def root_of(url: str, kind: str) -> str:
    """Return what a source is a part of: the folder or list a group of HTML files was cut from; an archive is whole.

    Examples
    --------
    >>> root_of("/saved#html-0-of-2", "html"), root_of("/a.warc#extract-5f", "extract"), root_of("/#1.warc", "archive")
    ('/saved', '/a.warc', '/#1.warc')
    """
    return url if kind == "archive" else url.rpartition("#")[0]


@dataclass(slots=True)
class PageBatch:
    """Some hundred pages of one source, a column per field.

    ``html`` holds bytes that an HTML parser reads as they are: ASCII-compatible, or re-encoded as UTF-8.
    ``date`` is in milliseconds since 1970 UTC. ``offset`` and ``length`` are those of the WARC record in the file
    ``warc`` as stored (compressed), so that one range request gives the page back. A ``length`` of 0 says that the WARC
    record shares its gzip member with others and cannot be read by itself; ``offset`` then counts decompressed bytes.
    A plain HTML file is its own ``warc``, from offset 0 to its end.
    """

    html: list[bytes] = field(default_factory=list)
    url: list[str] = field(default_factory=list)
    date: list[int | None] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    warc: list[str] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    digest: list[str | None] = field(default_factory=list)

    def append(
        self,
        html: bytes,
        url: str,
        date: int | None,
        status: int,
        warc: str,
        offset: int,
        length: int,
        digest: str | None,
    ) -> None:
        """Add a page."""
        self.html.append(html)
        self.url.append(url)
        self.date.append(date)
        self.status.append(status)
        self.warc.append(warc)
        self.offset.append(offset)
        self.length.append(length)
        self.digest.append(digest)

    def select(self, is_wanted: Sequence[bool]) -> PageBatch:
        """Return those of the pages that are wanted."""
        columns = (getattr(self, column.name) for column in fields(self))
        return PageBatch(*(list(compress(column, is_wanted)) for column in columns))

    def __len__(self) -> int:
        return len(self.html)


@dataclass(slots=True)
class SkippedLog:
    """What a source held that was not indexed: the reason, the file and the offset of each WARC record left out."""

    reason: list[str] = field(default_factory=list)
    warc: list[str] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)

    def add(self, reason: str, warc: str, offset: int) -> None:
        """Note that the WARC record at `offset` of `warc` was left out."""
        self.reason.append(reason)
        self.warc.append(warc)
        self.offset.append(offset)

    def select(self, reasons: Collection[str]) -> list[tuple[str, str, int]]:
        """Return the entries with one of the given reasons as (reason, warc, offset)."""
        entries = zip(self.reason, self.warc, self.offset, strict=True)
        return [entry for entry in entries if entry[0] in reasons]

    def __len__(self) -> int:
        return len(self.reason)


@dataclass(frozen=True, slots=True)
class ClassBatch:
    """The classes of the elements of a batch of pages, in CSR form.

    Parameters
    ----------
    indptr
        Shape (n_nodes + 1,), dtype int64.
    tokens
        Shape (n_tokens,), dtype uint32: stable hashes of the distinct class names of each element.
    """

    indptr: Int64Array
    tokens: UInt32Array


@dataclass(frozen=True, slots=True)
class TreeBatch:
    """The element tags of a batch of pages in document order.

    Parameters
    ----------
    tags
        Shape (n_nodes,), dtype uint16: vocabulary ids, never 0.
    depths
        Shape (n_nodes,), dtype int32: 0 for a root.
    indptr
        Shape (n_pages + 1,), dtype int64: the nodes of page i are ``indptr[i]:indptr[i + 1]``.
    classes
        The classes of the nodes, only where they were asked for.
    """

    tags: UInt16Array
    depths: Int32Array
    indptr: Int64Array
    classes: ClassBatch | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1


@dataclass(frozen=True, slots=True)
class ShapeBatch:
    """The binary branches of a batch of pages with their counts: sparse vectors in CSR form.

    Where an index counts another feature, its keys stand in the place of the branches.

    Parameters
    ----------
    indptr
        Shape (n_shapes + 1,), dtype int64.
    branches
        Shape (n_entries,), dtype uint32: distinct and ascending inside a row.
    counts
        Shape (n_entries,), dtype uint32: at least 1.
    """

    indptr: Int64Array
    branches: UInt32Array
    counts: UInt32Array

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def row(self, number: int) -> ShapeBatch:
        """Return one row as a batch that shares the memory of this one."""
        start, stop = int(self.indptr[number]), int(self.indptr[number + 1])
        return ShapeBatch(np.array([0, stop - start]), self.branches[start:stop], self.counts[start:stop])

    def take(self, rows: Int64Array) -> ShapeBatch:
        """Return the given rows, in the given order.

        Examples
        --------
        >>> batch = ShapeBatch(np.array([0, 1, 3]), np.array([7, 8, 9], np.uint32), np.array([1, 2, 3], np.uint32))
        >>> batch.take(np.array([1])).branches.tolist()
        [8, 9]
        """
        entries = row_entries(self.indptr, rows)
        lengths = self.indptr[rows + 1] - self.indptr[rows]
        return ShapeBatch(offsets_of(lengths), self.branches[entries], self.counts[entries])


def offsets_of(lengths: NDArray[np.integer]) -> Int64Array:
    """Return the CSR offsets of rows with the given lengths.

    Examples
    --------
    >>> offsets_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def row_entries(indptr: Int64Array, rows: Int64Array) -> Int64Array:
    """Return the entry positions of some CSR rows, row after row.

    Examples
    --------
    >>> row_entries(np.array([0, 2, 2, 5]), np.array([2, 0])).tolist()
    [2, 3, 4, 0, 1]
    """
    lengths = indptr[rows + 1] - indptr[rows]
    shifts = np.repeat(indptr[rows] - offsets_of(lengths)[:-1], lengths)
    return np.arange(len(shifts), dtype=np.int64) + shifts


def rank_in_runs(values: Int64Array) -> Int64Array:
    """Return the position of each element in its run of equal values.

    Examples
    --------
    >>> rank_in_runs(np.array([4, 4, 7, 7, 7])).tolist()
    [0, 1, 0, 1, 2]
    """
    if not len(values):
        return np.empty(0, np.int64)
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return np.arange(len(values)) - np.repeat(starts, np.diff(np.append(starts, len(values))))

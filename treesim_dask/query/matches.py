"""Matches by column: those of a block of queries are one table, and become objects when they are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treesim_dask.hashing.bands import candidate_probability
from treesim_dask.index.tables import PageRows, join_pages, page_columns, take_pages
from treesim_dask.query.options import SearchOptions
from treesim_dask.types import FloatArray, Int64Array, UInt32Array, UInt64Array, offsets_of, rank_in_runs, row_entries

MATCH_COLUMNS = ("url", "date", "warc", "offset", "length", "n_nodes")  # of the page table


class Match(NamedTuple):
    """An indexed page that resembles the query.

    ``page_id`` names it in the index; ``bands`` are the bands that fired; one range read of ``length`` bytes at
    ``offset`` of ``warc`` gives the page back. ``is_query`` marks the query page itself. ``probability`` is that with
    which the index finds a page of this Jaccard similarity, None where the family has no such formula.
    """

    rank: int
    score: float
    cosine: float
    jaccard: float
    bands: tuple[int, ...]
    url: str
    date: datetime | None
    warc: str
    offset: int
    length: int | None
    page_id: str
    n_nodes: int
    is_query: bool
    probability: float | None = None

    def to_row(self) -> dict[str, Any]:
        """Return the fields by name."""
        return self._asdict()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**self._asdict(), "bands": list(self.bands), "date": self.date.isoformat() if self.date else None}


@dataclass(frozen=True)
class MatchTable:
    """The matches of some queries, ordered by query, best first.

    Parameters
    ----------
    indptr
        Shape (n_queries + 1,), dtype int64: the matches of query i are ``indptr[i]:indptr[i + 1]``.
    keys
        Shape (n,), dtype float64: the scores, turned so that less is better.
    scores, cosines, jaccards
        Shape (n,), dtype float64.
    band_indptr, bands
        The bands that fired for match i are ``bands[band_indptr[i]:band_indptr[i + 1]]``, dtype uint32.
    names, origins
        The page ids: number in `names`, which are sorted, in the upper 32 bits and row below; shape (n,), dtype uint64.
    is_query
        Shape (n,), dtype bool.
    pages
        The columns of the page table.
    n_candidates, n_capped
        Shape (n_queries,), dtype int64: see `SegmentAnswer`.
    n_agree, bands_and_rows
        See `SegmentAnswer` and `SearchOptions`.
    """

    indptr: Int64Array
    keys: FloatArray
    scores: FloatArray
    cosines: FloatArray
    jaccards: FloatArray
    band_indptr: Int64Array
    bands: UInt32Array
    names: Sequence[str]
    origins: UInt64Array
    is_query: NDArray[np.bool_]
    pages: PageRows
    n_candidates: Int64Array
    n_capped: Int64Array
    n_agree: int | None
    bands_and_rows: tuple[int, int] | None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "matches"}

    def answers(self) -> list[SegmentAnswer]:
        """Return the answer to each query."""
        return [SegmentAnswer(self, query) for query in range(len(self.indptr) - 1)]

    @cached_property
    def matches(self) -> list[Match]:
        """All matches as objects, made at once: by column that takes a fraction of the time."""
        ranks = rank_in_runs(np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))) + 1
        scores = (column.tolist() for column in (self.scores, self.cosines, self.jaccards))
        bands, ends = self.bands.tolist(), self.band_indptr.tolist()
        fired = (tuple(bands[start:stop]) for start, stop in pairwise(ends))
        pages = page_columns(self.pages)
        n_nodes = pages.pop("n_nodes")
        numbers, rows = (self.origins >> np.uint64(32)).tolist(), (self.origins & np.uint64(2**32 - 1)).tolist()
        page_ids = (f"{self.names[number]}-{row}" for number, row in zip(numbers, rows, strict=True))
        known = (page_ids, n_nodes, self.is_query.tolist(), self._probabilities())
        return list(map(Match, ranks.tolist(), *scores, fired, *pages.values(), *known))

    def _probabilities(self) -> Sequence[float | None]:
        if self.bands_and_rows is None:
            return [None] * len(self.scores)
        # rounded, so that they are the same on every machine
        return [*candidate_probability(self.jaccards, *self.bands_and_rows).round(9).tolist()]


def no_matches(n_queries: int, options: SearchOptions) -> MatchTable:
    """Return a table without matches."""
    nothing, none = np.empty(0), np.zeros(n_queries, np.int64)
    return MatchTable(
        np.zeros(n_queries + 1, np.int64),
        *(nothing,) * 4,
        np.zeros(1, np.int64),
        np.empty(0, np.uint32),
        [],
        np.empty(0, np.uint64),
        np.empty(0, np.bool_),
        join_pages([], MATCH_COLUMNS),
        none,
        none,
        options.n_agree,
        options.bands_and_rows,
    )


class SegmentAnswer:
    """The best matches of one or more segments for a query, and how they were found.

    Parameters
    ----------
    table
        The matches of the query and of those that were asked with it.
    query
        Its number among them.
    """

    __slots__ = ("_query", "_table")

    def __init__(self, table: MatchTable, query: int) -> None:
        self._table, self._query = table, query

    @property
    def _rows(self) -> slice:
        return slice(int(self._table.indptr[self._query]), int(self._table.indptr[self._query + 1]))

    @property
    def matches(self) -> tuple[Match, ...]:
        """Best first."""
        return tuple(self._table.matches[self._rows])

    @property
    def scores(self) -> FloatArray:
        """Their scores alone, which takes no time. Shape (n_matches,), dtype float64."""
        return self._table.scores[self._rows]

    @property
    def n_candidates(self) -> int:
        """How many shapes were compared with the query, in each segment for itself."""
        return int(self._table.n_candidates[self._query])

    @property
    def n_capped(self) -> int:
        """How many entries of overfull buckets were passed over, if a cap was set."""
        return int(self._table.n_capped[self._query])

    @property
    def n_agree(self) -> int | None:
        """In how many rows of a band candidates had to agree, if fewer than all were enough; None otherwise."""
        return self._table.n_agree

    def __len__(self) -> int:
        return len(self.scores)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SegmentAnswer):
            return NotImplemented
        names = ("n_candidates", "n_capped", "n_agree", "matches")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<SegmentAnswer: {len(self)} matches among {self.n_candidates} candidates>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "n_candidates": self.n_candidates,
            "n_capped": self.n_capped,
            "n_agree": self.n_agree,
            "matches": [match.to_dict() for match in self.matches],
        }

    def notes(self) -> list[str]:
        """Return what a reader of the answer should know about it."""
        notes = [f"{self.n_capped:,} entries of overfull buckets were passed over"] if self.n_capped else []
        if self.n_agree is not None:
            rows = "row" if self.n_agree == 1 else f"{self.n_agree} rows"
            notes.append(f"too few pages share a bucket: also took those that agree in the first {rows} of a band")
        return notes


def stack_tables(tables: Sequence[MatchTable]) -> MatchTable:
    """Return the matches of several blocks of queries of one segment as those of one block."""
    joined = ("keys", "scores", "cosines", "jaccards", "bands", "is_query", "n_candidates", "n_capped")
    columns: dict[str, Any] = {name: _join(tables, name) for name in joined}
    names, origins = _join_origins(tables)
    return replace(
        tables[0],
        indptr=offsets_of(np.concatenate([np.diff(table.indptr) for table in tables])),
        band_indptr=offsets_of(np.concatenate([np.diff(table.band_indptr) for table in tables])),
        names=names,
        origins=origins,
        pages=join_pages([table.pages for table in tables], MATCH_COLUMNS),
        **columns,
    )


def merge_tables(tables: Sequence[MatchTable], options: SearchOptions) -> MatchTable:
    """Return the best k matches of each query of several tables. Ties are ordered by page id."""
    if len(tables) == 1:
        return tables[0]
    names, origins = _join_origins(tables)
    n_queries = len(tables[0].indptr) - 1
    of_query = np.concatenate([np.repeat(np.arange(n_queries), np.diff(table.indptr)) for table in tables])
    order = np.lexsort((origins, _join(tables, "keys"), of_query))
    pages = join_pages([table.pages for table in tables], MATCH_COLUMNS)
    if options.one_per is not None:
        urls = take_pages(pages, order).column("url").to_pylist()
        order = order[_is_first_of_site(of_query[order].tolist(), urls, options)]
    order = order[rank_in_runs(of_query[order]) < options.k]
    band_indptr = offsets_of(np.concatenate([np.diff(table.band_indptr) for table in tables]))
    columns = {name: _join(tables, name)[order] for name in ("keys", "scores", "cosines", "jaccards", "is_query")}
    return MatchTable(
        indptr=offsets_of(np.bincount(of_query[order], minlength=n_queries)),
        band_indptr=offsets_of(np.diff(band_indptr)[order]),
        bands=_join(tables, "bands")[row_entries(band_indptr, order)],
        names=names,
        origins=origins[order],
        pages=take_pages(pages, order),
        n_candidates=np.sum([table.n_candidates for table in tables], axis=0),
        n_capped=np.sum([table.n_capped for table in tables], axis=0),
        n_agree=options.n_agree,
        bands_and_rows=options.bands_and_rows,
        **columns,
    )


def _join(tables: Sequence[MatchTable], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(table, name) for table in tables])


def used_origins(names: Sequence[str], origins: UInt64Array) -> tuple[list[str], UInt64Array]:
    """Return the names that occur, and the origins with their numbers among these.

    A compacted segment has a name for each file that was indexed: what is merged, and what travels, are those of the
    matches alone.

    Examples
    --------
    >>> names, origins = used_origins(["a", "b", "c"], np.array([2 << 32 | 7, 1 << 32], np.uint64))
    >>> names, [divmod(origin, 2**32) for origin in origins.tolist()]
    (['b', 'c'], [(1, 7), (0, 0)])
    """
    numbers, place = np.unique(origins >> np.uint64(32), return_inverse=True)
    return [names[number] for number in numbers.tolist()], _renumber(origins, place.astype(np.uint64))


def _join_origins(tables: Sequence[MatchTable]) -> tuple[list[str], UInt64Array]:
    """Return the names of all tables, and their origins with the numbers that they have among these."""
    names = sorted({name for table in tables for name in table.names})
    number_of = {name: number for number, name in enumerate(names)}
    joined = [np.empty(0, np.uint64)]
    for table in tables:
        numbers = np.array([number_of[name] for name in table.names], np.uint64)
        joined.append(_renumber(table.origins, numbers[(table.origins >> np.uint64(32)).astype(np.int64)]))
    return names, np.concatenate(joined)


def _renumber(origins: UInt64Array, numbers: UInt64Array) -> UInt64Array:
    return numbers << np.uint64(32) | origins & np.uint64(2**32 - 1)


def _is_first_of_site(of_query: Sequence[int], urls: Sequence[str], options: SearchOptions) -> NDArray[np.bool_]:
    seen: set[tuple[int, str]] = set()
    is_first = np.zeros(len(urls), np.bool_)
    for i, (query, url) in enumerate(zip(of_query, urls, strict=True)):
        site = (query, options.site_of(url))
        is_first[i] = site not in seen
        seen.add(site)
    return is_first

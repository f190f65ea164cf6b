"""From candidate shapes, best first, to the k pages of each query that may be matches.

Pages are looked at in the order of their score, as many as may be needed, and more where conditions leave too few:
what is answered is the best k of the pages that fulfil them, without reading all pages of a frequent shape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treesim_dask.index.segment import Segment
from treesim_dask.index.tables import page_columns, page_rows
from treesim_dask.query.options import SearchOptions, host_of
from treesim_dask.query.page import QueryPage
from treesim_dask.types import FloatArray, Int64Array, UInt64Array, offsets_of, rank_in_runs

_GROWTH = 4  # how many times as many pages to look at, where the conditions left fewer than k


@dataclass(frozen=True, slots=True)
class Selected:
    """Pages chosen for queries, ordered by query, best first.

    Parameters
    ----------
    pairs
        Shape (n,), dtype int64: the pair of query and shape a page belongs to.
    rows
        Shape (n,), dtype int64: its row in the page table.
    origins
        Shape (n,), dtype uint64: as `Segment.page_origins` gives them.
    """

    pairs: Int64Array
    rows: Int64Array
    origins: UInt64Array

    def take(self, which: Any) -> Selected:
        """Return some of the pages."""
        return Selected(self.pairs[which], self.rows[which], self.origins[which])


def select_pages(
    segment: Segment,
    queries: Sequence[QueryPage],
    of_query: Int64Array,
    shapes: Int64Array,
    keys: FloatArray,
    options: SearchOptions,
) -> Selected:
    """Choose the best k pages of each query that may be matches.

    Parameters
    ----------
    segment, queries, options
        What is searched, for what, and how.
    of_query, shapes, keys
        Shape (n_pairs,): pairs of queries and shapes ordered by (query, key), the best, i.e. least, key first.
    """
    pending = np.arange(len(shapes), dtype=np.int64)
    n_looked_at = options.k if options.with_self else options.k + 1
    finished: list[Selected] = []
    while len(pending):
        found = _best_pages(segment, pending, of_query, shapes, keys, n_looked_at)
        n_found = np.bincount(of_query[found.pairs], minlength=len(queries))
        kept = found.take(_may_match(segment, queries, of_query, found, options))
        n_kept = np.bincount(of_query[kept.pairs], minlength=len(queries))
        is_done = (n_kept >= options.k) | (n_found < n_looked_at)
        kept = kept.take(is_done[of_query[kept.pairs]])
        finished.append(kept.take(rank_in_runs(of_query[kept.pairs]) < options.k))
        pending = pending[~is_done[of_query[pending]]]
        n_looked_at *= _GROWTH
    chosen = [np.concatenate([getattr(s, name) for s in finished]) for name in Selected.__slots__]
    # those that needed more than one round come after the others: the order is by query again, and kept inside each
    return Selected(*chosen).take(np.argsort(of_query[chosen[0]], kind="stable"))


def _best_pages(
    segment: Segment,
    pending: Int64Array,
    of_query: Int64Array,
    shapes: Int64Array,
    keys: FloatArray,
    n_wanted: int,
) -> Selected:
    """Return the first `n_wanted` pages of each query, ties ordered by page id."""
    # 1. the pairs that may hold them: each has a page at least, and those that tie with the last may come before it
    pairs = pending[_is_among_best(of_query[pending], keys[pending], np.ones(len(pending), np.int64), n_wanted)]
    # 2. of these as many as give enough pages
    pairs = pairs[np.argsort(shapes[pairs], kind="stable")]
    lengths = np.minimum(segment.count_pages(shapes[pairs]), n_wanted)
    order = np.argsort(pairs)
    is_needed = np.empty(len(pairs), np.bool_)
    is_needed[order] = _is_among_best(of_query[pairs[order]], keys[pairs[order]], lengths[order], n_wanted)
    pairs, lengths = pairs[is_needed], lengths[is_needed]
    # 3. their pages, a shape's in the order of their ids
    rows = segment.first_pages(shapes[pairs], lengths)
    origins = segment.page_origins(rows)
    of_pair = np.repeat(pairs, lengths)
    # 4. the best of all
    order = np.lexsort((origins, keys[of_pair], of_query[of_pair]))
    order = order[rank_in_runs(of_query[of_pair[order]]) < n_wanted]
    return Selected(of_pair[order], rows[order], origins[order])


def _is_among_best(of_query: Int64Array, keys: FloatArray, n_pages: Int64Array, n_wanted: int) -> NDArray[np.bool_]:
    """Tell which pairs are needed: the first of each query that have `n_wanted` pages together, and what ties.

    Examples
    --------
    >>> keys = np.array([0.1, 0.2, 0.2, 0.3, 0.1])
    >>> _is_among_best(np.array([0, 0, 0, 0, 1]), keys, np.ones(5, np.int64), 2).tolist()
    [True, True, True, False, True]
    """
    first = np.flatnonzero(np.append(True, of_query[1:] != of_query[:-1]))
    run = np.cumsum(np.append(False, of_query[1:] != of_query[:-1]))
    before = offsets_of(n_pages)[:-1]
    is_too_late = before - before[first][run] >= n_wanted
    last = np.append(first[1:], len(of_query)) - 1 - np.add.reduceat(is_too_late.astype(np.int64), first)
    return np.asarray(keys <= keys[last][run])


def _may_match(
    segment: Segment, queries: Sequence[QueryPage], of_query: Int64Array, found: Selected, options: SearchOptions
) -> NDArray[np.bool_]:
    """Tell which pages may be matches."""
    keep = segment.deletions.keep(found.origins) if segment.deletions else np.ones(len(found.rows), bool)
    number = of_query[found.pairs]
    if not options.with_self:
        keep &= ~is_query_page(segment, queries, number, found)
    if options.needs_pages:
        rows = np.flatnonzero(keep)
        pages = page_rows(segment.read_pages(found.rows[rows], ["url", "date", "n_nodes"]))
        keep[rows] = _fulfil_conditions(queries, number[rows].tolist(), pages, options)
    return np.asarray(keep)


def is_query_page(
    segment: Segment, queries: Sequence[QueryPage], of_query: Int64Array, found: Selected
) -> NDArray[np.bool_]:
    """Tell which pages are the very page they were found for.

    Parameters
    ----------
    of_query
        Shape (n,), dtype int64: the query of each page found.
    """
    is_query = np.array([query.page_id is not None for query in queries], bool)[of_query]
    if is_query.any():
        asked = np.array([_origin_of(query.page_id, segment.origins) for query in queries], np.uint64)
        is_query &= asked[of_query] == found.origins
    others = np.array([query.page_id is None and query.is_known for query in queries], bool)[of_query]
    if others.any():
        rows = np.flatnonzero(others)
        pages = page_columns(segment.read_pages(found.rows[rows], ["url", "warc", "offset", "digest"]))
        asked_by = [queries[i] for i in of_query[rows].tolist()]
        is_query[rows] = [query.is_same_page(*page) for query, *page in zip(asked_by, *pages.values(), strict=True)]
    return is_query


def _origin_of(page_id: str | None, names: Sequence[str]) -> int:
    """Return a page id as a segment with these names, which are sorted, knows it; what none has if it is not there.

    Examples
    --------
    >>> divmod(_origin_of("b-7", ["a", "b"]), 2**32), _origin_of("c-7", ["a", "b"]) == 2**64 - 1
    ((1, 7), True)
    """
    name, _, row = (page_id or "").rpartition("-")
    number = bisect_left(names, name)
    return number << 32 | int(row) if names[number : number + 1] == [name] else 2**64 - 1


def _fulfil_conditions(
    queries: Sequence[QueryPage], numbers: Sequence[int], pages: Sequence[dict[str, Any]], options: SearchOptions
) -> list[bool]:
    hosts = [host_of(query.url) if query.url else None for query in queries]
    seen: set[tuple[int, str]] = set()
    fulfilled = []
    for number, page in zip(numbers, pages, strict=True):
        keep = options.conditions.accepts(page, hosts[number])
        if keep and options.one_per is not None:
            site = (number, options.site_of(page["url"]))
            keep = site not in seen
            seen.add(site)
        fulfilled.append(keep)
    return fulfilled

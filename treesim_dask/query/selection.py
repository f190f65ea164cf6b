"""From candidate shapes, best first, to the k pages of each query that may be matches.

Pages are looked at in the order of their score, as many as may be needed, and more where conditions leave too few:
what is answered is the best k of the pages that fulfil them, without reading all pages of a frequent shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treesim_dask.index.segment import Segment
from treesim_dask.index.tables import page_columns, page_rows
from treesim_dask.query.options import SearchOptions, host_of
from treesim_dask.query.page import QueryPage
from treesim_dask.types import FloatArray, Int64Array, UInt64Array, offsets_of

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
    distinct, place = np.unique(shapes, return_inverse=True)
    n_pages = segment.count_pages(distinct)[place]
    pending = np.arange(len(shapes), dtype=np.int64)
    n_looked_at = options.k if options.with_self else options.k + 1
    finished: list[Selected] = []
    while len(pending):
        found = _best_pages(segment, pending, of_query, shapes, keys, n_pages, n_looked_at)
        n_found = np.bincount(of_query[found.pairs], minlength=len(queries))
        kept = found.take(_may_match(segment, queries, of_query, found, options))
        n_kept = np.bincount(of_query[kept.pairs], minlength=len(queries))
        totals = np.bincount(of_query, weights=n_pages, minlength=len(queries))
        is_done = (n_kept >= options.k) | (n_found >= totals)
        kept = kept.take(is_done[of_query[kept.pairs]])
        finished.append(kept.take(_rank_in_runs(of_query[kept.pairs]) < options.k))
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
    n_pages: Int64Array,
    n_wanted: int,
) -> Selected:
    """Return the first `n_wanted` pages of each query, ties ordered by page id."""
    # 1. the pairs that may hold them: as many as give enough pages, and all that tie with the last of these
    lengths = np.minimum(n_pages[pending], n_wanted)
    runs = of_query[pending]
    before = offsets_of(lengths)[:-1]
    first = np.flatnonzero(np.append(True, runs[1:] != runs[:-1]))
    run = np.cumsum(np.append(False, runs[1:] != runs[:-1]))
    enough = before - before[first][run] >= n_wanted
    last = np.append(first[1:], len(runs)) - 1 - np.add.reduceat(enough.astype(np.int64), first)
    pairs = pending[keys[pending] <= keys[pending][last][run]]
    # 2. their pages, a shape's in the order of their ids
    pairs = pairs[np.argsort(shapes[pairs], kind="stable")]
    lengths = np.minimum(n_pages[pairs], n_wanted)
    rows = segment.first_pages(shapes[pairs], lengths)
    origins = segment.page_origins(rows)
    of_pair = np.repeat(pairs, lengths)
    # 3. the best of all
    order = np.lexsort((origins, keys[of_pair], of_query[of_pair]))
    order = order[_rank_in_runs(of_query[of_pair[order]]) < n_wanted]
    return Selected(of_pair[order], rows[order], origins[order])


def _may_match(
    segment: Segment, queries: Sequence[QueryPage], of_query: Int64Array, found: Selected, options: SearchOptions
) -> NDArray[np.bool_]:
    """Tell which pages may be matches."""
    keep = segment.deletions.keep(found.origins) if segment.deletions else np.ones(len(found.rows), bool)
    number = of_query[found.pairs]
    if not options.with_self:
        keep &= ~_is_query(segment, queries, number, found)
    if options.needs_pages:
        rows = np.flatnonzero(keep)
        pages = page_rows(segment.read_pages(found.rows[rows], ["url", "date", "n_nodes"]))
        keep[rows] = _fulfil_conditions(queries, number[rows].tolist(), pages, options)
    return np.asarray(keep)


def _is_query(segment: Segment, queries: Sequence[QueryPage], number: Int64Array, found: Selected) -> NDArray[np.bool_]:
    """Tell which pages are the very page they were found for."""
    page_ids = segment.page_ids(found.origins)
    asked = [queries[i] for i in number.tolist()]
    if all(query.page_id is not None for query in queries):
        return np.array([q.page_id == page_id for q, page_id in zip(asked, page_ids, strict=True)], bool)
    pages = page_columns(segment.read_pages(found.rows, ["url", "warc", "offset", "digest"]))
    rows = zip(asked, page_ids, *pages.values(), strict=True)
    return np.array([query.is_same_page(*identity) for query, *identity in rows], bool)


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


def _rank_in_runs(values: Int64Array) -> Int64Array:
    """Return the position of each element in its run of equal values.

    Examples
    --------
    >>> _rank_in_runs(np.array([4, 4, 7, 7, 7])).tolist()
    [0, 1, 0, 1, 2]
    """
    if not len(values):
        return np.empty(0, np.int64)
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return np.arange(len(values)) - np.repeat(starts, np.diff(np.append(starts, len(values))))

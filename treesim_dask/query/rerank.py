"""From hits to pairs of a query and a candidate shape with their exact similarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treesim_dask.index.bands import Hits
from treesim_dask.index.parts import join_vectors
from treesim_dask.index.segment import Segment
from treesim_dask.kernels import kernel
from treesim_dask.query.metrics import METRICS, measure_pairs
from treesim_dask.query.options import SearchOptions
from treesim_dask.query.page import QueryPage
from treesim_dask.query.vectors import read_vectors
from treesim_dask.types import FloatArray, Int64Array, UInt32Array, offsets_of, row_entries

_SHAPES_AT_ONCE = 8192
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Queries and candidate shapes with their exact similarity, ordered by query, best first.

    Parameters
    ----------
    queries, shapes
        Shape (n_pairs,), dtype int64.
    keys
        Shape (n_pairs,), dtype float64: the score, turned so that less is better.
    scores, cosines, jaccards
        Shape (n_pairs,), dtype float64.
    hits, indptr, entries, places
        The hits of pair i are ``entries[indptr[places[i]]:indptr[places[i] + 1]]``, as `pair_hits` gave them.
    """

    queries: Int64Array
    shapes: Int64Array
    keys: FloatArray
    scores: FloatArray
    cosines: FloatArray
    jaccards: FloatArray
    hits: Hits
    indptr: Int64Array
    entries: Int64Array
    places: Int64Array

    def fired(self, pairs: Int64Array) -> tuple[Int64Array, UInt32Array]:
        """Return the bands that fired for some pairs, as offsets and bands."""
        places = self.places[pairs]
        lengths = self.indptr[places + 1] - self.indptr[places]
        return offsets_of(lengths), self.hits.bands[self.entries[row_entries(self.indptr, places)]]


def rerank(segment: Segment, queries: Sequence[QueryPage], hits: Hits, options: SearchOptions) -> Pairs:
    """Compare each query with each of its candidates, some thousand candidates at a time."""
    metric = options.ordering
    of_query, shapes, indptr, entries = pair_hits(hits.queries, hits.shapes, len(queries))
    # each vector is read once, for all queries that meet it
    by_shape = np.argsort(shapes)
    is_first = np.append(True, np.diff(shapes[by_shape]) != 0)
    candidates, place = shapes[by_shape[is_first]], np.cumsum(is_first) - 1
    cuts = np.searchsorted(place, np.arange(0, len(candidates) + _SHAPES_AT_ONCE, _SHAPES_AT_ONCE))
    names = (metric.name, "cosine", "jaccard")
    values = np.empty((len(names), len(shapes)))
    batch = join_vectors([query.shape for query in queries])
    for number, first in enumerate(range(0, len(candidates), _SHAPES_AT_ONCE)):
        some = slice(cuts[number], cuts[number + 1])
        vectors = read_vectors(segment, candidates[first : first + _SHAPES_AT_ONCE], options.storage_options)
        overlap = measure_pairs(batch, vectors, of_query[by_shape[some]], place[some] - first)
        for row, name in enumerate(names):
            values[row, by_shape[some]] = METRICS[name].scores(overlap)
    keys = values[0] if metric.is_distance else -values[0]
    # by (query, key, shape): sorted by the last first, each sort keeping the order of what is equal; small integers are
    # sorted in a tenth of the time
    best_first = by_shape[np.argsort(keys[by_shape], kind="stable")]
    best_first = best_first[np.argsort(of_query[best_first].astype(np.min_scalar_type(len(queries))), kind="stable")]
    scores, cosines, jaccards = values[:, best_first]
    pairs = (of_query[best_first], shapes[best_first], keys[best_first], scores, cosines, jaccards)
    return Pairs(*pairs, hits, indptr, entries, best_first)


@kernel
def pair_hits(
    queries: UInt32Array, shapes: UInt32Array, n_queries: int
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Gather the hits of each pair of query and shape.

    Parameters
    ----------
    queries, shapes
        Shape (n_hits,), dtype uint32.

    Returns
    -------
    tuple
        Query and shape of each pair, ordered by query; and its hits, in their order: those of pair i are
        ``hits[indptr[i]:indptr[i + 1]]``.

    Examples
    --------
    >>> pairs = pair_hits(np.array([1, 0, 1, 1], np.uint32), np.array([7, 7, 9, 7], np.uint32), 2)
    >>> [column.tolist() for column in pairs]
    [[0, 1, 1], [7, 7, 9], [0, 1, 3, 4], [1, 0, 3, 2]]
    """
    n_hits = len(queries)
    # 1. hits in the order of their queries
    starts = np.zeros(n_queries + 1, np.int64)
    for hit in range(n_hits):
        starts[queries[hit] + 1] += 1
    most = starts.max()
    for query in range(n_queries):
        starts[query + 1] += starts[query]
    by_query, nexts = np.empty(n_hits, np.int64), starts[:-1].copy()
    for hit in range(n_hits):
        by_query[nexts[queries[hit]]] = hit
        nexts[queries[hit]] += 1
    # 2. the distinct shapes of each query, by a hash table that is used for one after the other
    n_bits = 1
    while (1 << n_bits) < 2 * most:
        n_bits += 1
    slots, shift, mask = np.full(1 << n_bits, -1, np.int64), np.uint64(64 - n_bits), (1 << n_bits) - 1
    pair_query, pair_shape = np.empty(n_hits, np.int64), np.empty(n_hits, np.int64)
    lengths, pair_of = np.zeros(n_hits, np.int64), np.empty(n_hits, np.int64)
    n_pairs = 0
    for query in range(n_queries):
        first_pair = n_pairs
        for i in range(starts[query], starts[query + 1]):
            shape = np.int64(shapes[by_query[i]])
            slot = np.int64(np.uint64(shape) * _SPREAD >> shift)
            while slots[slot] >= first_pair and pair_shape[slots[slot]] != shape:  # what is before is another query's
                slot = (slot + 1) & mask
            if slots[slot] < first_pair:
                slots[slot] = n_pairs
                pair_query[n_pairs], pair_shape[n_pairs] = query, shape
                n_pairs += 1
            pair_of[i] = slots[slot]
            lengths[slots[slot]] += 1
    # 3. the hits of each pair
    indptr = np.zeros(n_pairs + 1, np.int64)
    for pair in range(n_pairs):
        indptr[pair + 1] = indptr[pair] + lengths[pair]
    hits, ends = np.empty(n_hits, np.int64), indptr[:-1].copy()
    for i in range(n_hits):
        hits[ends[pair_of[i]]] = by_query[i]
        ends[pair_of[i]] += 1
    return pair_query[:n_pairs].copy(), pair_shape[:n_pairs].copy(), indptr, hits

"""Exact similarity of branch vectors: one registry, each metric with its range and direction.

All metrics of a pair come from a few sums over the branches of both, computed once for all candidates of a query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.kernels import kernel
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, UInt32Array


@dataclass(frozen=True, slots=True)
class Overlap:
    """The sums that every metric is made of, for n pairs of a query q and a candidate c. Arrays of shape (n,), float64.

    ``n_shared`` distinct branches in both, ``n_query`` and ``n_candidate`` in each; ``dot`` is the sum of q*c,
    ``least`` of min(q, c), over counts; ``sum_*`` are the sums of the counts and ``square_*`` of their squares;
    ``log_dot`` and ``log_square_*`` are over log(1 + count).
    """

    n_shared: FloatArray
    n_query: FloatArray
    n_candidate: FloatArray
    dot: FloatArray
    least: FloatArray
    sum_query: FloatArray
    sum_candidate: FloatArray
    square_query: FloatArray
    square_candidate: FloatArray
    log_dot: FloatArray
    log_square_query: FloatArray
    log_square_candidate: FloatArray


def measure_overlap(query: ShapeBatch, candidates: ShapeBatch) -> Overlap:
    """Compare one shape with many.

    Parameters
    ----------
    query
        A batch of one.
    candidates
        A batch of any size.

    Examples
    --------
    >>> one = ShapeBatch(np.array([0, 2]), np.array([3, 5], np.uint32), np.array([1, 2], np.uint32))
    >>> two = ShapeBatch(np.array([0, 1]), np.array([5], np.uint32), np.array([4], np.uint32))
    >>> overlap = measure_overlap(one, two)
    >>> overlap.n_shared.tolist(), overlap.dot.tolist(), overlap.least.tolist()
    ([1.0], [8.0], [2.0])
    """
    n = len(candidates)
    return measure_pairs(query, candidates, np.zeros(n, np.int64), np.arange(n, dtype=np.int64))


def measure_pairs(queries: ShapeBatch, candidates: ShapeBatch, left: Int64Array, right: Int64Array) -> Overlap:
    """Compare pairs of shapes: row ``left[i]`` of `queries` with row ``right[i]`` of `candidates`.

    The sums run over the branches in ascending order, one after the other: a pair gives the same bits whatever else is
    in the batches.
    """
    logs = _logarithms()
    shared = _shared_sums(
        queries.indptr, queries.branches, queries.counts,
        candidates.indptr, candidates.branches, candidates.counts,
        left, right, logs,
    )  # fmt: skip
    n_query, sum_query, square_query, log_square_query = _row_sums(queries.indptr, queries.counts, logs)[:, left]
    of_candidates = _row_sums(candidates.indptr, candidates.counts, logs)[:, right]
    return Overlap(
        n_shared=shared[0],
        n_query=n_query,
        n_candidate=of_candidates[0],
        dot=shared[1],
        least=shared[2],
        sum_query=sum_query,
        sum_candidate=of_candidates[1],
        square_query=square_query,
        square_candidate=of_candidates[2],
        log_dot=shared[3],
        log_square_query=log_square_query,
        log_square_candidate=of_candidates[3],
    )


@cache
def _logarithms() -> FloatArray:
    """Return log(1 + count) of the usual counts."""
    return np.log1p(np.arange(2**12, dtype=np.float64))


@kernel
def _log_of(count: np.uint32, logs: FloatArray) -> np.float64:
    return np.float64(logs[count] if count < len(logs) else np.log1p(np.float64(count)))


@kernel
def _row_sums(indptr: Int64Array, counts: UInt32Array, logs: FloatArray) -> FloatArray:
    """Return the length of each row, and the sums of its counts, of their squares and of those of their logarithms."""
    sums = np.zeros((4, len(indptr) - 1))
    for row in range(len(indptr) - 1):
        sum_counts = sum_squares = sum_logs = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            count, log = np.float64(counts[entry]), _log_of(counts[entry], logs)
            sum_counts += count
            sum_squares += count * count
            sum_logs += log * log
        sums[0, row] = indptr[row + 1] - indptr[row]
        sums[1, row], sums[2, row], sums[3, row] = sum_counts, sum_squares, sum_logs
    return sums


@kernel
def _shared_sums(
    indptr: Int64Array,
    branches: UInt32Array,
    counts: UInt32Array,
    other_indptr: Int64Array,
    other_branches: UInt32Array,
    other_counts: UInt32Array,
    left: Int64Array,
    right: Int64Array,
    logs: FloatArray,
) -> FloatArray:
    """Return, for each pair, the number of shared branches, and the sums of q*c, min(q, c) and log*log over them."""
    sums = np.zeros((4, len(left)))
    for pair in range(len(left)):
        i, end = indptr[left[pair]], indptr[left[pair] + 1]
        j, other_end = other_indptr[right[pair]], other_indptr[right[pair] + 1]
        n_shared = dot = least = log_dot = 0.0
        while i < end and j < other_end:
            branch, other = branches[i], other_branches[j]
            if branch == other:
                count, other_count = np.float64(counts[i]), np.float64(other_counts[j])
                n_shared += 1.0
                dot += count * other_count
                least += min(count, other_count)
                log_dot += _log_of(counts[i], logs) * _log_of(other_counts[j], logs)
            i += branch <= other
            j += other <= branch
        sums[0, pair], sums[1, pair], sums[2, pair], sums[3, pair] = n_shared, dot, least, log_dot
    return sums


@dataclass(frozen=True, slots=True)
class Metric:
    """A way to compare two shapes.

    Parameters
    ----------
    name
        As given to ``--metric``.
    best, worst
        The values at its ends; a metric whose best value is the smaller one is a distance.
    score
        Maps an `Overlap` to the values, shape (n,).
    explanation
        One line for the help text.
    """

    name: str
    best: float
    worst: float
    score: Callable[[Overlap], FloatArray]
    explanation: str

    @property
    def is_distance(self) -> bool:
        """True where smaller is better."""
        return self.best < self.worst

    def scores(self, overlap: Overlap) -> FloatArray:
        """Return the values, rounded to 12 digits: what differs less is a tie on every machine."""
        return np.round(self.score(overlap), 12)


def _log_cosine(o: Overlap) -> FloatArray:
    return _ratio(o.log_dot, np.sqrt(o.log_square_query * o.log_square_candidate))


def _cosine(o: Overlap) -> FloatArray:
    return _ratio(o.dot, np.sqrt(o.square_query * o.square_candidate))


def _jaccard(o: Overlap) -> FloatArray:
    return _ratio(o.n_shared, o.n_query + o.n_candidate - o.n_shared)


def _dice(o: Overlap) -> FloatArray:
    return _ratio(2 * o.n_shared, o.n_query + o.n_candidate)


def _weighted_jaccard(o: Overlap) -> FloatArray:
    return _ratio(o.least, o.sum_query + o.sum_candidate - o.least)


def _bdist(o: Overlap) -> FloatArray:
    # sum |q - c| = sum q + sum c - 2 sum min; Yang et al.: it is at most five times the edit distance
    return (o.sum_query + o.sum_candidate - 2 * o.least) / 5


METRICS = {
    metric.name: metric
    for metric in (
        Metric("log-cosine", 1, 0, _log_cosine, "cosine of log(1 + count): long lists do not drown the rest"),
        Metric("cosine", 1, 0, _cosine, "cosine of the counts, as in the tree-similarity report"),
        Metric("jaccard", 1, 0, _jaccard, "shared distinct branches over all"),
        Metric("dice", 1, 0, _dice, "twice the shared distinct branches over both numbers"),
        Metric("weighted-jaccard", 1, 0, _weighted_jaccard, "sum of least counts over sum of greatest"),
        Metric("bdist", 0, float("inf"), _bdist, "lower bound of the tree edit distance, BDist / 5"),
    )
}
DEFAULT_METRIC = "log-cosine"


def find_metric(name: str) -> Metric:
    """Return a metric by name.

    Examples
    --------
    >>> find_metric("bdist").is_distance
    True
    """
    if name not in METRICS:
        raise ConfigError(f"metric must be one of {', '.join(METRICS)}, got {name!r}", "metric")
    return METRICS[name]


def check_metric(metric: Metric, config: IndexConfig) -> None:
    """Refuse a metric that means nothing for what an index counts.

    Examples
    --------
    >>> check_metric(find_metric("bdist"), IndexConfig(feature="paths"))
    Traceback (most recent call last):
    treesim_dask.errors.ConfigError: metric bdist is a bound of the tree edit distance for binary branches only, ...
    """
    if metric.name == "bdist" and config.feature != "branches":
        raise ConfigError(
            f"metric bdist is a bound of the tree edit distance for binary branches only, the index counts "
            f"{config.feature}; use {', '.join(name for name in METRICS if name != 'bdist')}"
        )


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide, with 0 for two empty shapes."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)

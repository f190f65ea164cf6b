"""Exact similarity of branch vectors: one registry, each metric with its range and direction.

All metrics of a pair come from a few sums over the branches of both, computed once for all candidates of a query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treesim_dask.errors import ConfigError
from treesim_dask.types import FloatArray, ShapeBatch


@dataclass(frozen=True, slots=True)
class Overlap:
    """The sums that every metric is made of, for one query q and n candidates c. Arrays of shape (n,), float64.

    ``n_shared`` distinct branches in both, ``n_query`` and ``n_candidate`` in each; ``dot`` is the sum of q*c,
    ``least`` of min(q, c), over counts; ``sum_*`` are the sums of the counts and ``square_*`` of their squares;
    ``log_dot`` and ``log_square_*`` are over log(1 + count).
    """

    n_shared: FloatArray
    n_query: float
    n_candidate: FloatArray
    dot: FloatArray
    least: FloatArray
    sum_query: float
    sum_candidate: FloatArray
    square_query: float
    square_candidate: FloatArray
    log_dot: FloatArray
    log_square_query: float
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
    n, lengths = len(candidates), np.diff(candidates.indptr)
    row = np.repeat(np.arange(n), lengths)
    counts = candidates.counts.astype(np.float64)
    query_counts = query.counts.astype(np.float64)
    # where each entry's branch stands in the query, and its count there: 0 if absent
    place = np.searchsorted(query.branches, candidates.branches)
    place[place == len(query.branches)] = 0
    shared = query.branches[place] == candidates.branches if len(query.branches) else np.zeros(len(row), bool)
    in_query = np.where(shared, query_counts[place], 0.0) if len(query.branches) else np.zeros(len(row))
    log_counts, log_in_query = np.log1p(counts), np.log1p(in_query)

    def sums(values: FloatArray) -> FloatArray:
        # bincount adds the entries of a row in their order: the same bits whatever else is in the batch
        return np.bincount(row, weights=values, minlength=n).astype(np.float64, copy=False)

    return Overlap(
        n_shared=sums(shared.astype(np.float64)),
        n_query=float(len(query.branches)),
        n_candidate=lengths.astype(np.float64),
        dot=sums(counts * in_query),
        least=sums(np.minimum(counts, in_query)),
        sum_query=float(query_counts.sum()),
        sum_candidate=sums(counts),
        square_query=float((query_counts**2).sum()),
        square_candidate=sums(counts**2),
        log_dot=sums(log_counts * log_in_query),
        log_square_query=_sequential_sum(np.log1p(query_counts) ** 2),
        log_square_candidate=sums(log_counts**2),
    )


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
        raise ConfigError(f"metric must be one of {', '.join(METRICS)}, got {name!r}")
    return METRICS[name]


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide, with 0 for two empty shapes."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _sequential_sum(values: FloatArray) -> float:
    """Add in order, as `numpy.bincount` does, so that a shape compared with itself scores exactly 1."""
    return float(np.bincount(np.zeros(len(values), np.int64), weights=values, minlength=1)[0])

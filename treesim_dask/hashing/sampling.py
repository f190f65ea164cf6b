"""Parameters measured on a sample of the user's own pages.

Some of the sample's shapes, the queries, are compared with all others exactly. Two things are learned: how similar
the pages are, which the choice of bands and rows needs; and which pairs really meet in a bucket. The S-curve is an
average over all hash functions. One index has one set of them, and pages that are a little alike meet, or not, all
together: at 25 bands of 5 rows the candidates of real pages vary by a third from seed to seed. So the expectations
reported are counted with the very hash functions of the index.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import Family, make_family, pair_similarities
from treesim_dask.hashing.tuning import BandChoice, SimilarityDistribution, tune_bands
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, UInt64Array

T = TypeVar("T", bound=np.generic)
CurvePoints = tuple[FloatArray, FloatArray, Int64Array]  # mean similarity, share of candidates, pairs of each bin


@dataclass(frozen=True, slots=True)
class Sample:
    """Queries drawn from a sample of shapes, and how similar they are to all others.

    Parameters
    ----------
    shapes
        The sample.
    queries
        Shape (n_queries,), dtype int64: rows of `shapes`.
    similarities
        Shape (n_queries, n_shapes - 1), dtype float64: the family's own similarity to all rows but the query.
    """

    shapes: ShapeBatch
    queries: Int64Array
    similarities: FloatArray


@dataclass(frozen=True, slots=True)
class SampleTuning:
    """A choice of bands and rows, what theory expects of it and what the sample shows.

    Parameters
    ----------
    expected
        The choice with the expectations of the S-curve: the average over all hash functions.
    counted
        The same choice with recall and candidates counted on the sample, with the hash functions of the index.
    points
        The share of candidates by similarity, to lay over the S-curve.
    """

    expected: BandChoice
    counted: BandChoice
    points: CurvePoints


def draw_sample(
    family: Family, shapes: ShapeBatch, n_queries: int = 100, seed: int = 0, queries: Int64Array | None = None
) -> Sample:
    """Draw queries from the shapes at random, or take the given rows, and compare each with all other shapes.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 1, 2, 4]), np.array([5, 5, 5, 6], np.uint32), np.ones(4, np.uint32))
    >>> draw_sample(make_family(IndexConfig()), shapes).similarities.tolist()
    [[1.0, 0.5], [1.0, 0.5], [0.5, 0.5]]
    """
    if len(shapes) < 2:
        raise ConfigError(f"a sample needs at least 2 pages, got {len(shapes)}")
    if queries is None:
        queries = np.sort(np.random.default_rng(seed).permutation(len(shapes))[:n_queries])
    others = _drop_queries(np.broadcast_to(np.arange(len(shapes)), (len(queries), len(shapes))), queries)
    left = np.repeat(queries, len(shapes) - 1)
    similarities = pair_similarities(family, shapes, left, others.ravel())
    return Sample(shapes, queries, similarities.reshape(others.shape))


def meeting_pairs(keys: UInt64Array, queries: Int64Array) -> NDArray[np.bool_]:
    """Say which rows share a bucket with each query.

    Parameters
    ----------
    keys
        Shape (n_shapes, n_bands), dtype uint64, as `band_keys` gives them.
    queries
        Shape (n_queries,), dtype int64: rows of `keys`.

    Returns
    -------
    numpy.ndarray
        Shape (n_queries, n_shapes - 1), dtype bool: all rows but the query itself.

    Examples
    --------
    >>> meeting_pairs(np.array([[1, 2], [1, 3], [4, 3]], np.uint64), np.array([1])).tolist()
    [[True, True]]
    """
    met = np.zeros((len(queries), len(keys)), np.bool_)
    for band in keys.T:
        met |= band[queries][:, None] == band[None, :]
    return _drop_queries(met, queries)


def best_pairs(scores: FloatArray, n_best: int) -> NDArray[np.bool_]:
    """Mark the `n_best` highest scores of each row, the first of equal ones.

    Examples
    --------
    >>> best_pairs(np.array([[0.1, 0.9, 0.9, 0.5]]), 2).tolist()
    [[False, True, True, False]]
    """
    marked = np.zeros(scores.shape, np.bool_)
    np.put_along_axis(marked, np.argsort(-scores, axis=1, kind="stable")[:, :n_best], True, axis=1)
    return marked


def curve_points(similarities: FloatArray, met: NDArray[np.bool_], n_bins: int = 20) -> CurvePoints:
    """Return the share of candidates among pairs by similarity: the points to lay over an S-curve.

    Parameters
    ----------
    similarities
        Any shape, dtype float64, from 0 to 1.
    met
        The same shape, dtype bool: pairs that are candidates.

    Returns
    -------
    tuple of numpy.ndarray
        Mean similarity, share of candidates and number of pairs of every bin that has any.

    Examples
    --------
    >>> points = curve_points(np.array([0.1, 0.9, 0.9]), np.array([False, True, False]), n_bins=10)
    >>> [column.tolist() for column in points]
    [[0.1, 0.9], [0.0, 0.5], [1, 2]]
    """
    values = np.ravel(similarities)
    bins = np.minimum((values * n_bins).astype(np.int64), n_bins - 1)
    sizes = np.bincount(bins, minlength=n_bins)
    used = sizes > 0
    means = np.bincount(bins, weights=values, minlength=n_bins)[used] / sizes[used]
    shares = np.bincount(bins, weights=np.ravel(met), minlength=n_bins)[used] / sizes[used]
    return means, shares, sizes[used]


def tune_on_sample(
    config: IndexConfig,
    sample: Sample,
    threshold: float,
    *,
    n_pages: float,
    recall: float = 0.0,
    max_candidates: float = np.inf,
    n_hashes: int = 128,
    false_positive_weight: float = 0.5,
    wanted: NDArray[np.bool_] | Int64Array | None = None,
    n_identical: int = 0,
) -> SampleTuning:
    """Choose bands and rows for an index of pages like those of the sample.

    Parameters
    ----------
    config
        Family, feature and seed of the index; its bands and rows are not looked at.
    sample
        Drawn with the family of `config`.
    n_pages
        The pages a query of the index is compared with.
    wanted
        Shape (n_queries, n_shapes - 1): the pairs queries should find, such as `best_pairs` of any ranking, or how
        many wanted pages have that shape. By default all from the threshold on.
    n_identical
        How many more wanted pages have the shape of their query: these are always found.
    threshold, recall, max_candidates, n_hashes, false_positive_weight
        See `tune_bands`.

    Examples
    --------
    >>> rows = [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5], [6, 7, 8, 9], [6, 7, 8, 9]]
    >>> keys = np.array(rows, np.uint32).ravel()
    >>> shapes = ShapeBatch(np.arange(0, 21, 4), keys, np.ones(20, np.uint32))
    >>> config = IndexConfig()
    >>> tuning = tune_on_sample(config, draw_sample(make_family(config), shapes), 0.5, n_pages=1000, recall=0.9)
    >>> tuning.counted.recall, round(tuning.counted.n_candidates)
    (1.0, 400)
    """
    if wanted is None:
        wanted = sample.similarities >= threshold
    elif not wanted.any() and not n_identical:
        raise ConfigError("wanted marks no pair, at least 1 is needed to count a recall; mark some or leave it out")
    counts = wanted.astype(np.int64)
    to_find = np.concatenate((np.repeat(sample.similarities.ravel(), counts.ravel()), np.ones(n_identical)))
    choice = tune_bands(
        SimilarityDistribution.measured(sample.similarities, n_pages),
        threshold,
        recall=recall,
        max_candidates=max_candidates,
        n_hashes=n_hashes,
        false_positive_weight=false_positive_weight,
        wanted=to_find if len(to_find) else None,
    )
    met = _meet(replace(config, n_bands=choice.n_bands, n_rows=choice.n_rows), sample)
    n_found = int(counts[met].sum()) + n_identical
    counted = replace(choice, recall=n_found / max(len(to_find), 1), n_candidates=float(met.mean() * n_pages))
    return SampleTuning(choice, counted, curve_points(sample.similarities, met))


def _meet(config: IndexConfig, sample: Sample) -> NDArray[np.bool_]:
    """Sign and band the sample as the index would."""
    signatures = make_family(config).sign(sample.shapes)
    return meeting_pairs(band_keys(signatures, config.n_bands), sample.queries)


def _drop_queries(rows: NDArray[T], queries: Int64Array) -> NDArray[T]:
    """Leave each query's own column out of its row. Shape (n_queries, n_shapes) to (n_queries, n_shapes - 1)."""
    others = np.ones(rows.shape, np.bool_)
    others[np.arange(len(queries)), queries] = False
    return rows[others].reshape(len(queries), rows.shape[1] - 1)

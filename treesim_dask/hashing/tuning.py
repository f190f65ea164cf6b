"""Choosing bands and rows: by a formula, or by how similar the pages at hand really are.

Similarity here is the probability s that one hash agrees (`pair_similarities`), so one S-curve serves every family.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treesim_dask.errors import ConfigError
from treesim_dask.hashing.bands import candidate_probability
from treesim_dask.types import FloatArray

_MOST_HASHES = 4096
_MOST_BANDS = _MOST_ROWS = 1024  # what an index may have
_N_BINS = 1000


@dataclass(frozen=True, slots=True)
class SimilarityDistribution:
    """How many pages of which similarity a query meets, on average.

    Parameters
    ----------
    similarity
        Shape (n_bins,), dtype float64, ascending: the mean similarity in each bin.
    n_pages
        Shape (n_bins,), dtype float64: pages of that similarity for one query.
    """

    similarity: FloatArray
    n_pages: FloatArray

    @classmethod
    def uniform(cls, n_pages: float = 1.0) -> SimilarityDistribution:
        """Assume that every similarity is as frequent as any other.

        Examples
        --------
        >>> SimilarityDistribution.uniform(500).n_pages.sum().round(6).item()
        500.0
        """
        return cls((np.arange(_N_BINS) + 0.5) / _N_BINS, np.full(_N_BINS, n_pages / _N_BINS))

    @classmethod
    def measured(cls, similarities: FloatArray, n_pages: float) -> SimilarityDistribution:
        """Take the similarities of a sample of pairs for those of a query to all `n_pages` pages.

        Parameters
        ----------
        similarities
            Any shape, dtype float64, from 0 to 1: queries drawn at random against pages drawn at random.
        n_pages
            The pages a query is compared with.

        Examples
        --------
        >>> measured = SimilarityDistribution.measured(np.array([0.25, 0.25, 0.5, 1.0]), n_pages=1000)
        >>> measured.similarity.tolist(), measured.n_pages.tolist()
        ([0.25, 0.5, 1.0], [500.0, 250.0, 250.0])
        """
        values = np.ravel(similarities)
        bins = np.minimum((values * _N_BINS).astype(np.int64), _N_BINS - 1)
        sizes = np.bincount(bins, minlength=_N_BINS)
        used = sizes > 0
        means = np.bincount(bins, weights=values, minlength=_N_BINS)[used] / sizes[used]
        return cls(means, np.asarray(sizes[used] * (n_pages / len(values)), np.float64))


@dataclass(frozen=True, slots=True)
class BandChoice:
    """Bands and rows, and what is to be expected of them.

    Parameters
    ----------
    recall
        Share of the wanted pages that become candidates.
    n_candidates
        Candidates of one query.
    """

    n_bands: int
    n_rows: int
    recall: float
    n_candidates: float


def choose_bands(threshold: float, probability: float, n_hashes: int = 128) -> tuple[int, int]:
    """Choose (bands, rows) so that pairs at the threshold become candidates with the wanted probability.

    Among all splits of at most `n_hashes` that reach the target, the one with the most rows is taken, and with as
    few bands as reach it: the steepest curve, so the fewest candidates below the threshold.

    Examples
    --------
    >>> n_bands, n_rows = choose_bands(threshold=0.7, probability=0.99)
    >>> n_bands, n_rows, round(float(candidate_probability(0.7, n_bands, n_rows)), 3)
    (17, 4, 0.991)
    """
    _check_share("threshold", threshold)
    _check_share("probability", probability)
    _check_n_hashes(n_hashes)
    for n_rows in range(min(n_hashes, _MOST_ROWS), 0, -1):
        if candidate_probability(threshold, min(n_hashes // n_rows, _MOST_BANDS), n_rows) >= probability:
            return math.ceil(math.log1p(-probability) / math.log1p(-(threshold**n_rows))), n_rows
    needed = math.ceil(math.log1p(-probability) / math.log1p(-threshold))
    if needed > _MOST_BANDS:
        raise ConfigError(
            f"{_MOST_BANDS} bands, the most an index may have, cannot make pairs at {threshold} candidates with "
            f"probability {probability}; use a higher threshold or a lower probability"
        )
    raise ConfigError(
        f"{n_hashes} hashes cannot make pairs at {threshold} candidates with probability {probability}; "
        f"use at least {needed} hashes, a higher threshold or a lower probability"
    )


def tune_bands(
    distribution: SimilarityDistribution,
    threshold: float,
    *,
    recall: float = 0.0,
    max_candidates: float = np.inf,
    n_hashes: int = 128,
    false_positive_weight: float = 0.5,
    wanted: FloatArray | None = None,
) -> BandChoice:
    """Choose bands and rows for the pages at hand.

    Of all splits of at most `n_hashes` that keep to `recall` and `max_candidates`, take the one with the least
    weighted sum of false positives (candidates below the threshold) and false negatives (pages at or above it that
    are no candidates). Over a uniform distribution and without bounds this is the parameter search of datasketch.

    Parameters
    ----------
    distribution
        What a query meets.
    threshold
        Similarity from which on a page is wanted.
    recall
        The least expected share of wanted pages among the candidates.
    max_candidates
        The most candidates one query may have, on average.
    n_hashes
        Length of the signature, at most.
    false_positive_weight
        From 0 to 1; false negatives weigh the rest.
    wanted
        Similarities of the pages that queries should find, such as those of the exact best ten, whatever they were
        ranked by; recall is then the share of these. By default all pages of the distribution from the threshold on.

    Examples
    --------
    >>> tune_bands(SimilarityDistribution.uniform(), threshold=0.7, false_positive_weight=0.8).n_rows
    12
    """
    _check_share("threshold", threshold)
    _check_n_hashes(n_hashes)
    if not 0 <= false_positive_weight <= 1:
        what = f"false_positive_weight must lie from 0 to 1, got {false_positive_weight}"
        raise ConfigError(what, "false_positive_weight")
    above = distribution.similarity >= threshold
    if wanted is None and not distribution.n_pages[above].sum():
        raise ConfigError(f"no pair in the sample is as similar as {threshold}; lower it or take a larger sample")
    weights = np.array([false_positive_weight, 1 - false_positive_weight])
    best: tuple[float, BandChoice] | None = None
    nearest: BandChoice | None = None
    for n_bands, n_rows in _splits(n_hashes):
        choice, errors = _expect(distribution, above, wanted, n_bands, n_rows)
        if choice.n_candidates > max_candidates:
            continue
        if nearest is None or choice.recall > nearest.recall:
            nearest = choice
        error = float(weights @ errors)
        if choice.recall >= recall and (best is None or error < best[0]):
            best = error, choice
    if best is None:
        raise ConfigError(_why_none(nearest, recall, max_candidates, n_hashes))
    return best[1]


def expect_bands(
    distribution: SimilarityDistribution, threshold: float, n_bands: int, n_rows: int, wanted: FloatArray | None = None
) -> BandChoice:
    """Say what is to be expected of given bands and rows; the parameters are those of `tune_bands`.

    Examples
    --------
    >>> expected = expect_bands(SimilarityDistribution.uniform(100), 0.7, n_bands=20, n_rows=5)
    >>> round(expected.recall, 3), round(expected.n_candidates)
    (0.998, 50)
    """
    return _expect(distribution, distribution.similarity >= threshold, wanted, n_bands, n_rows)[0]


def _splits(n_hashes: int) -> Iterator[tuple[int, int]]:
    """Yield all (bands, rows) of at most `n_hashes` hashes that an index may have."""
    for n_rows in range(1, min(n_hashes, _MOST_ROWS) + 1):
        for n_bands in range(1, min(n_hashes // n_rows, _MOST_BANDS) + 1):
            yield n_bands, n_rows


def _expect(
    distribution: SimilarityDistribution, above: np.ndarray, wanted: FloatArray | None, n_bands: int, n_rows: int
) -> tuple[BandChoice, tuple[float, float]]:
    """Return the choice with its expectations, and the false positives and false negatives of one query."""
    n_found = candidate_probability(distribution.similarity, n_bands, n_rows) * distribution.n_pages
    n_right, n_wanted = float(n_found[above].sum()), float(distribution.n_pages[above].sum())
    n_candidates = float(n_found.sum())
    if wanted is None:
        recall = n_right / n_wanted if n_wanted else 1.0
    else:
        recall = float(candidate_probability(wanted, n_bands, n_rows).mean())
    return BandChoice(n_bands, n_rows, recall, n_candidates), (n_candidates - n_right, n_wanted - n_right)


def _why_none(nearest: BandChoice | None, recall: float, max_candidates: float, n_hashes: int) -> str:
    if nearest is None:
        return f"no split of {n_hashes} hashes has at most {max_candidates} candidates a query; allow more"
    return (
        f"with {n_hashes} hashes and at most {max_candidates} candidates a query the recall is at most "
        f"{nearest.recall:.3f}, {recall} was asked for; use more hashes, allow more candidates or lower the recall"
    )


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ConfigError(f"{name} must lie between 0 and 1, got {value}", name)


def _check_n_hashes(n_hashes: int) -> None:
    if not 1 <= n_hashes <= _MOST_HASHES:
        raise ConfigError(f"n_hashes must be a whole number from 1 to {_MOST_HASHES}, got {n_hashes}", "n_hashes")

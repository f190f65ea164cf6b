"""Signatures to bucket keys, and what a number of bands and rows means.

Two pages of similarity s agree in all r rows of one band with probability s**r, and in at least one of b bands with
probability 1 - (1 - s**r)**b: the S-curve, which rises near (1/b)**(1/r).
"""

from __future__ import annotations

import math

import numpy as np

from treesim_dask.errors import ConfigError
from treesim_dask.hashing.mixing import mix64
from treesim_dask.kernels import kernel
from treesim_dask.types import UInt32Array, UInt64Array

_MOST_HASHES = 1024


def band_keys(signatures: UInt32Array, n_bands: int) -> UInt64Array:
    """Hash each band of each signature to one bucket key.

    Parameters
    ----------
    signatures
        Shape (n_shapes, n_hashes), dtype uint32.
    n_bands
        Must divide n_hashes.

    Returns
    -------
    numpy.ndarray
        Shape (n_shapes, n_bands), dtype uint64. The number of the band is part of what is hashed.

    Examples
    --------
    >>> keys = band_keys(np.array([[1, 2, 3, 4], [1, 2, 9, 4]], np.uint32), n_bands=2)
    >>> (keys[0] == keys[1]).tolist()
    [True, False]
    """
    n_hashes = signatures.shape[1]
    if n_hashes % n_bands:
        raise ConfigError(f"n_bands must divide n_hashes, got {n_bands} and {n_hashes}")
    return _band_keys(signatures, n_bands)


def candidate_probability(similarity: float, n_bands: int, n_rows: int) -> float:
    """Return the probability that a pair becomes a candidate: 1 - (1 - s**r)**b.

    Examples
    --------
    >>> round(candidate_probability(0.8, n_bands=20, n_rows=5), 4)
    0.9996
    """
    # log1p/expm1 keep the small probabilities exact where 1 - s**r rounds to 1
    power = similarity**n_rows
    return 1.0 if power >= 1 else -math.expm1(n_bands * math.log1p(-power))


def choose_bands(threshold: float, probability: float, n_hashes: int = 128) -> tuple[int, int]:
    """Choose (bands, rows) so that pairs at the threshold become candidates with the wanted probability.

    Among all splits of at most `n_hashes` that reach the target, the one with the most rows is taken, and with as
    few bands as reach it: the steepest curve, so the fewest candidates below the threshold.

    Examples
    --------
    >>> n_bands, n_rows = choose_bands(threshold=0.7, probability=0.99)
    >>> n_bands, n_rows, round(candidate_probability(0.7, n_bands, n_rows), 3)
    (17, 4, 0.991)
    """
    for name, value in (("threshold", threshold), ("probability", probability)):
        if not 0 < value < 1:
            raise ConfigError(f"{name} must lie between 0 and 1, got {value}")
    if not 1 <= n_hashes <= _MOST_HASHES:
        raise ConfigError(f"n_hashes must be a whole number from 1 to {_MOST_HASHES}, got {n_hashes}")
    for n_rows in range(n_hashes, 0, -1):
        if candidate_probability(threshold, n_hashes // n_rows, n_rows) >= probability:
            return math.ceil(math.log1p(-probability) / math.log1p(-(threshold**n_rows))), n_rows
    needed = math.ceil(math.log1p(-probability) / math.log1p(-threshold))
    raise ConfigError(
        f"{n_hashes} hashes cannot make pairs at {threshold} candidates with probability {probability}; "
        f"use at least {needed} hashes, a higher threshold or a lower probability"
    )


@kernel
def _band_keys(signatures: UInt32Array, n_bands: int) -> UInt64Array:
    n_shapes, n_hashes = signatures.shape
    n_rows = n_hashes // n_bands
    keys = np.empty((n_shapes, n_bands), np.uint64)
    for shape in range(n_shapes):
        for band in range(n_bands):
            key = np.uint64(band + 1)
            for i in range(band * n_rows, (band + 1) * n_rows):
                key = mix64(np.uint64(key * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(signatures[shape, i]))
            keys[shape, band] = key
    return keys

"""Signatures to bucket keys, and what a number of bands and rows means.

Two pages whose hashes agree with probability s (for MinHash the Jaccard similarity) agree in all r rows of one band
with probability s**r, and in at least one of b bands with probability 1 - (1 - s**r)**b: the S-curve, which rises
near (1/b)**(1/r).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from treesim_dask.errors import ConfigError
from treesim_dask.hashing.amplification import banding
from treesim_dask.kernels import kernel
from treesim_dask.mixing import mix64
from treesim_dask.types import FloatArray, UInt32Array, UInt64Array


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


def candidate_probability(similarity: ArrayLike, n_bands: int, n_rows: int) -> FloatArray:
    """Return the probability that a pair becomes a candidate: 1 - (1 - s**r)**b. Any shape, dtype float64.

    Examples
    --------
    >>> candidate_probability([0.4, 0.8], n_bands=20, n_rows=5).round(4).tolist()
    [0.186, 0.9996]
    """
    return banding(n_bands, n_rows).probability(similarity)


def rise(n_bands: int, n_rows: int) -> float:
    """Return the similarity at which the S-curve is steepest, about: (1/b)**(1/r).

    Examples
    --------
    >>> round(rise(n_bands=20, n_rows=5), 2)
    0.55
    """
    return float((1 / n_bands) ** (1 / n_rows))


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

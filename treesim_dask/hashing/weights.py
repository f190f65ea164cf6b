"""Counts to whole-number weights, for the families that see a shape as a vector.

On raw counts one long list drowns the rest of a page, so the default weight is the logarithm. It is computed in whole
numbers, to 8 binary places: the same bits everywhere, and a sum over 16 million branches still fits 32 bits.
"""

from __future__ import annotations

import numpy as np

from treesim_dask.kernels import kernel
from treesim_dask.types import ShapeBatch, UInt32Array

_LOG_PLACES = 8
# what a weight of 1 is stored as
SCALES = {"log": 1 << _LOG_PLACES, "count": 1, "presence": 1}


def weigh(shapes: ShapeBatch, weighting: str) -> ShapeBatch:
    """Replace counts by weights.

    Parameters
    ----------
    shapes
        Counts, dtype uint32.
    weighting
        One of the names `IndexConfig` allows: ``"log"`` for log2(1 + count) in units of 1/256, rounded down;
        ``"count"`` for the count itself; ``"presence"`` for 1.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 3]), np.array([4, 5, 6], np.uint32), np.array([1, 2, 3], np.uint32))
    >>> weigh(shapes, "log").counts.tolist()
    [256, 405, 512]
    """
    if weighting == "count":
        return shapes
    weights = log_weights(shapes.counts) if weighting == "log" else np.ones_like(shapes.counts)
    return ShapeBatch(shapes.indptr, shapes.branches, weights)


@kernel
def log_weights(counts: UInt32Array) -> UInt32Array:
    """Return log2(1 + count) in units of 1/256, rounded down. Shape (n_entries,), dtype uint32."""
    weights = np.empty(len(counts), np.uint32)
    for entry in range(len(counts)):
        value = np.uint64(counts[entry]) + np.uint64(1)
        whole = np.uint64(0)
        while value >> (whole + np.uint64(1)):
            whole += np.uint64(1)
        # value / 2**whole as a fixed-point number in [1, 2) with 31 places; each squaring gives one place of the log
        fraction = (value << np.uint64(31)) >> whole
        weight = whole
        for _ in range(_LOG_PLACES):
            fraction = (fraction * fraction) >> np.uint64(31)
            bit = fraction >> np.uint64(32)
            fraction >>= bit
            weight = (weight << np.uint64(1)) | bit
        weights[entry] = weight
    return weights

"""Seeded integer hashing with the same bits on every machine: multiplications, shifts and exclusive or, nothing else.

The constants are those of lowbias32 (C. Wellons, hash-prospector) and SplitMix64 (Steele, Lea, Flood 2014). Both
mixers are bijections, so a seeded one is a permutation of its universe, as MinHash wants it.
"""

from __future__ import annotations

import numpy as np

from treesim_dask.kernels import kernel
from treesim_dask.types import UInt32Array


@kernel
def mix32(value: np.uint32) -> np.uint32:
    """Scramble 32 bits."""
    value = np.uint32(value ^ (value >> np.uint32(16)))
    value = np.uint32(value * np.uint32(0x7FEB352D))
    value = np.uint32(value ^ (value >> np.uint32(15)))
    value = np.uint32(value * np.uint32(0x846CA68B))
    return np.uint32(value ^ (value >> np.uint32(16)))


@kernel
def mix64(value: np.uint64) -> np.uint64:
    """Scramble 64 bits."""
    value = np.uint64((value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    value = np.uint64((value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    return np.uint64(value ^ (value >> np.uint64(31)))


@kernel
def seed_stream(seed: int, n_seeds: int) -> UInt32Array:
    """Return the first `n_seeds` 32-bit seeds of a SplitMix64 stream.

    Examples
    --------
    >>> seed_stream(1, 3).dtype, len(set(seed_stream(1, 1000).tolist()))
    (dtype('uint32'), 1000)
    """
    seeds = np.empty(n_seeds, np.uint32)
    state = np.uint64(seed)
    for i in range(n_seeds):
        state = np.uint64(state + np.uint64(0x9E3779B97F4A7C15))
        seeds[i] = np.uint32(mix64(state) >> np.uint64(32))
    return seeds

"""p-stable projections: shapes are thrown onto random lines cut into segments; near ones fall into the same segment.

The line of a hash has one normally distributed coordinate for every branch, so that the projected difference of two
shapes is normal with their Euclidean distance as its deviation (the normal distribution is 2-stable). The
coordinates are whole numbers: the bits set in a 32-bit hash of the branch, which are binomial, with four more bits of
the hash to fill the steps between them. Even for a pair that differs in one branch only, where no sum helps, the
collision probability is within 0.005 of that of true normal deviates; the more branches differ, the nearer it comes.
Only whole numbers are added, multiplied and divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treesim_dask.hashing.distances import euclidean_distances
from treesim_dask.hashing.weights import SCALES, weigh
from treesim_dask.kernels import kernel
from treesim_dask.mixing import mix32, seed_stream
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, UInt32Array

# of a coordinate 32 * (bits set) + 2 * (a number from 0 to 15) - 527: 32**2 * 32/4 + 2**2 * (16**2 - 1)/12
_VARIANCE = 8277


@dataclass(frozen=True, slots=True)
class Projections:
    """The p-stable family, for the Euclidean distance of weighted branch vectors.

    Parameters
    ----------
    width
        Length of a segment, in the unit of the distance: with weighting by logarithm, a branch that one of the
        pages has once and the other not at all makes a distance of 1.
    weighting
        The vectors whose distance is meant: see `weigh`.

    Examples
    --------
    >>> family = Projections(n_hashes=4, seed=1, width=4.0, weighting="log")
    >>> family.collision_probability(np.array([2.0, 8.0])).round(3).tolist()
    [0.61, 0.195]
    """

    name: ClassVar[str] = "projections"
    distance: ClassVar[str] = "Euclidean distance"

    n_hashes: int
    seed: int
    width: float
    weighting: str

    def sign(self, shapes: ShapeBatch) -> UInt32Array:
        """Return the segments. Shape (n_shapes, n_hashes), dtype uint32: signed segment numbers modulo 2**32."""
        vectors = weigh(shapes, self.weighting)
        seeds = seed_stream(self.seed, 2 * self.n_hashes)
        segment = self._segment()
        shifts = (seeds[self.n_hashes :].astype(np.int64) * segment) >> 32
        return _project(vectors.indptr, vectors.branches, vectors.counts, seeds[: self.n_hashes], shifts, segment)

    def distances(self, shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
        """Return the Euclidean distances of pairs of rows."""
        return euclidean_distances(weigh(shapes, self.weighting), left, right) / SCALES[self.weighting]

    def collision_probability(self, distances: FloatArray) -> FloatArray:
        """Return the probability that two shapes fall into one segment, averaged over where the segments begin."""
        from scipy.special import ndtr

        distances = np.asarray(distances, np.float64)
        apart = distances > 0
        c = self.width / np.where(apart, distances, 1.0)
        shared = 1 - 2 * ndtr(-c) + 2 * np.expm1(-c * c / 2) / (math.sqrt(2 * math.pi) * c)
        return np.where(apart, shared, 1.0)

    def _segment(self) -> int:
        """Return the length of a segment in the whole-number units of a projection."""
        width = round(self.width * SCALES[self.weighting] * 2**16)  # fixed point: a width need not be whole
        return max(1, math.isqrt(_VARIANCE * width**2) >> 16)


@kernel
def _coordinate(bits: np.uint32) -> np.int64:
    """Make a nearly normal number of variance 8277 and mean 0 out of a 32-bit hash."""
    step = np.uint32(np.uint32(bits * np.uint32(0x9E3779B1)) >> np.uint32(28))
    return np.int64(np.uint32(_count_bits(bits) << np.uint32(5)) + np.uint32(step << np.uint32(1))) - np.int64(527)


@kernel
def _count_bits(value: np.uint32) -> np.uint32:
    value = np.uint32(value - ((value >> np.uint32(1)) & np.uint32(0x55555555)))
    value = np.uint32((value & np.uint32(0x33333333)) + ((value >> np.uint32(2)) & np.uint32(0x33333333)))
    value = np.uint32((value + (value >> np.uint32(4))) & np.uint32(0x0F0F0F0F))
    return np.uint32(np.uint32(value * np.uint32(0x01010101)) >> np.uint32(24))


@kernel
def _project(
    indptr: Int64Array, keys: UInt32Array, weights: UInt32Array, seeds: UInt32Array, shifts: Int64Array, segment: int
) -> UInt32Array:
    n_shapes, n_hashes = len(indptr) - 1, len(seeds)
    segments = np.empty((n_shapes, n_hashes), np.uint32)
    sums = np.empty(n_hashes, np.int64)
    for row in range(n_shapes):
        sums[:] = shifts
        for entry in range(indptr[row], indptr[row + 1]):
            key, weight = keys[entry], np.int64(weights[entry])
            for i in range(n_hashes):
                sums[i] += weight * _coordinate(mix32(key ^ seeds[i]))
        for i in range(n_hashes):
            segments[row, i] = np.uint32(sums[i] // segment)
    return segments

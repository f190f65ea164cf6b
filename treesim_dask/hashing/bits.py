"""Bit sampling: each branch sets one of many bits, a hash looks at some of them.

Two columns of R bits that differ in h of them agree in a random one with probability 1 - h/R. The bit of a branch is
the leading part of its 32-bit hash; so OR-ing neighbouring rows of the bit matrix in pairs, which halves R, only
drops the last of those leading bits, and every matrix of the pyramid from 2**32 rows down to 1 is at hand without
being built.

Bits say most where a column is neither nearly empty nor nearly full. With a fixed R that holds for pages of one size
only. *Folding* instead looks at each shape in the three levels of the pyramid in which about 20 to 80 % of its bits
are set: a third of the hashes each. The level is part of the hash, so columns meet only within a level; shapes of
about equal size share all three levels or two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treesim_dask.hashing.distances import hamming_distances
from treesim_dask.kernels import kernel
from treesim_dask.mixing import mix32, seed_stream
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, UInt32Array

_N_FOLDS = 3


@dataclass(frozen=True, slots=True)
class BitSampling:
    """The bit sampling family, for the Hamming distance of hashed presence bits, as a share of their number.

    Parameters
    ----------
    bits_per_hash
        Bits to one hash of the signature, from 1 to 24: a hash is the level, in 5 bits, above the sampled bits.
    log2_rows
        The bits of a column number ``2**log2_rows``; 0 folds each column to medium density instead.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 2, 4]), np.array([3, 5, 3, 6], np.uint32), np.ones(4, np.uint32))
    >>> family = BitSampling(n_hashes=3, seed=1, bits_per_hash=4, log2_rows=8)
    >>> (family.distances(shapes, np.array([0]), np.array([1])) * 256).tolist()
    [2.0]
    """

    name: ClassVar[str] = "bits"
    distance: ClassVar[str] = "share of differing bits"

    n_hashes: int
    seed: int
    bits_per_hash: int
    log2_rows: int

    def sign(self, shapes: ShapeBatch) -> UInt32Array:
        """Return the signatures. Shape (n_shapes, n_hashes), dtype uint32: level and sampled bits."""
        places = seed_stream(self.seed, self.n_hashes * self.bits_per_hash)
        return _sample_bits(shapes.indptr, shapes.branches, self._levels(shapes), places, self.n_hashes)

    def distances(self, shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
        """Return the shares of bits in which pairs of rows differ.

        Of folded columns this is the mean over the levels, a level that only one column has counting as 1. With
        k bits a hash it is the mean that leaves the collision probability of one hash exact:
        1 - (mean of (1 - d)**k)**(1/k). The hashes of a band share a level, so that folded columns meet in more bands
        than the S-curve says: count on a sample (`tune`, `eval`) rather than expect.
        """
        levels = self._levels(shapes)
        agreements = [
            self._agreements(shapes, levels[:, fold], left, right) ** self.bits_per_hash
            for fold in range(levels.shape[1])
        ]
        return np.asarray(1 - np.mean(agreements, axis=0) ** (1 / self.bits_per_hash))

    def collision_probability(self, distances: FloatArray) -> FloatArray:
        """Return the probability that all bits of one hash agree: (1 - distance)**bits_per_hash."""
        return (1 - distances) ** self.bits_per_hash

    def _levels(self, shapes: ShapeBatch) -> Int64Array:
        """Return the binary logarithm of the rows each shape is looked at with. Shape (n_shapes, 1 or 3)."""
        if self.log2_rows:
            return np.full((len(shapes), 1), self.log2_rows, np.int64)
        return medium_levels(np.diff(shapes.indptr))

    def _agreements(self, shapes: ShapeBatch, levels: Int64Array, left: Int64Array, right: Int64Array) -> FloatArray:
        columns = ShapeBatch(*_hashed_columns(shapes.indptr, shapes.branches, levels))
        n_different = hamming_distances(columns, left, right)
        return np.where(levels[left] == levels[right], 1 - n_different / 2.0 ** levels[left], 0.0)


def medium_levels(n_branches: Int64Array) -> Int64Array:
    """Return the three levels of the pyramid in which about 20 to 80 % of a column's bits are set.

    n branches set 1 - exp(-n/R) of R bits: 80 % at R = n/1.6. The least power of two not below that is the first
    level, then come its double and its fourfold. Column c of the result holds the level that is c modulo 3, so that
    a neighbour whose size is a little beyond the next power of two still shares two columns.

    Examples
    --------
    >>> medium_levels(np.array([100, 103])).tolist()
    [[6, 7, 8], [9, 7, 8]]
    """
    n_bits = np.ones(len(n_branches), np.int64)
    first = np.zeros(len(n_branches), np.int64)
    while (short := 8 * n_bits < 5 * n_branches).any():
        n_bits[short] *= 2
        first[short] += 1
    folds = np.arange(_N_FOLDS)
    return first[:, None] + (folds - first[:, None]) % _N_FOLDS


@kernel
def _hash_row(key: np.uint32, log2_rows: int) -> np.uint64:
    """Return the row of the bit matrix a branch sets: the leading bits of its hash."""
    return np.uint64(mix32(key)) >> np.uint64(32 - log2_rows)


@kernel
def _hashed_columns(
    indptr: Int64Array, keys: UInt32Array, levels: Int64Array
) -> tuple[Int64Array, UInt32Array, UInt32Array]:
    """Return the set bits of each column in ascending order, as a sparse batch."""
    rows = np.empty_like(keys)
    starts = np.zeros_like(indptr)
    n_rows = 0
    for column in range(len(indptr) - 1):
        first = n_rows
        hashed = np.sort(
            np.array([_hash_row(keys[i], levels[column]) for i in range(indptr[column], indptr[column + 1])], np.uint64)
        )
        for row in hashed:
            if n_rows == first or rows[n_rows - 1] != row:
                rows[n_rows] = row
                n_rows += 1
        starts[column + 1] = n_rows
    return starts, rows[:n_rows].copy(), np.ones(n_rows, np.uint32)


@kernel
def _sample_bits(
    indptr: Int64Array, keys: UInt32Array, levels: Int64Array, places: UInt32Array, n_hashes: int
) -> UInt32Array:
    n_shapes, n_folds = levels.shape
    bits_per_hash = len(places) // n_hashes
    samples = np.empty((n_shapes, n_hashes), np.uint32)
    column = np.zeros(1 << levels.max() if len(levels) else 1, np.bool_)
    for shape in range(n_shapes):
        for fold in range(n_folds):
            level = levels[shape, fold]
            for entry in range(indptr[shape], indptr[shape + 1]):
                column[_hash_row(keys[entry], level)] = True
            for i in range(fold * n_hashes // n_folds, (fold + 1) * n_hashes // n_folds):
                sample = np.uint32(level)
                for place in places[i * bits_per_hash : (i + 1) * bits_per_hash]:
                    bit = column[np.uint64(place) >> np.uint64(32 - level)]
                    sample = np.uint32(sample << np.uint32(1)) | np.uint32(bit)
                samples[shape, i] = sample
            for entry in range(indptr[shape], indptr[shape + 1]):
                column[_hash_row(keys[entry], level)] = False
    return samples

"""Random hyperplanes: two sketches agree in a bit with probability 1 - angle/180.

The normal vector of a hyperplane has +1 or -1 for every branch, one bit of a hash of the branch; a bit of the sketch
says on which side of the hyperplane the shape lies (a shape on the hyperplane counts as above). Vectors of +1 and -1
are as good as uniform directions once a pair differs in some dozens of branches; for very small shapes the
probability is only near 1 - angle/180.

One bit tells little, so a hash of the signature is several bits, all of which must agree: 25 bands of 5 hashes of 4
bits look at 500 hyperplanes in 500 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treesim_dask.hashing.distances import angles
from treesim_dask.hashing.weights import weigh
from treesim_dask.kernels import kernel
from treesim_dask.mixing import mix32, seed_stream
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, UInt32Array


@dataclass(frozen=True, slots=True)
class Hyperplanes:
    """The random hyperplane family, for the angle between weighted branch vectors, in degrees.

    Parameters
    ----------
    bits_per_hash
        Hyperplanes to one hash of the signature, from 1 to 24.
    weighting
        The vectors whose angle is meant: see `weigh`.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 2, 4]), np.array([3, 5, 3, 6], np.uint32), np.ones(4, np.uint32))
    >>> family = Hyperplanes(n_hashes=3, seed=1, bits_per_hash=4, weighting="log")
    >>> bool((family.sign(shapes) < 16).all()), family.distances(shapes, np.array([0]), np.array([1])).round(3).tolist()
    (True, [60.0])
    """

    name: ClassVar[str] = "hyperplanes"
    distance: ClassVar[str] = "angle in degrees"

    n_hashes: int
    seed: int
    bits_per_hash: int
    weighting: str

    def sign(self, shapes: ShapeBatch) -> UInt32Array:
        """Return the sketches. Shape (n_shapes, n_hashes), dtype uint32, `bits_per_hash` bits in each."""
        vectors = weigh(shapes, self.weighting)
        n_bits = self.n_hashes * self.bits_per_hash
        seeds = seed_stream(self.seed, -(-n_bits // 32))
        return _sketch(vectors.indptr, vectors.branches, vectors.counts, seeds, self.n_hashes, self.bits_per_hash)

    def distances(self, shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
        """Return the angles of pairs of rows."""
        return angles(weigh(shapes, self.weighting), left, right)

    def collision_probability(self, distances: FloatArray) -> FloatArray:
        """Return the probability that all bits of one hash agree: (1 - angle/180)**bits_per_hash."""
        return (1 - distances / 180) ** self.bits_per_hash

    def estimate_angles(self, left: UInt32Array, right: UInt32Array) -> FloatArray:
        """Estimate angles from sketches: 180 degrees times the share of bits that differ.

        Parameters
        ----------
        left, right
            Shape (n_pairs, n_hashes), dtype uint32.

        Returns
        -------
        numpy.ndarray
            Shape (n_pairs,), dtype float64.

        Examples
        --------
        >>> family = Hyperplanes(n_hashes=3, seed=1, bits_per_hash=1, weighting="count")
        >>> family.estimate_angles(np.array([[1, 1, 0]], np.uint32), np.array([[1, 0, 1]], np.uint32)).round().tolist()
        [120.0]
        """
        n_different = np.bitwise_count(left ^ right).sum(axis=1, dtype=np.int64)
        return np.asarray(180 * n_different / (self.n_hashes * self.bits_per_hash))


@kernel
def _sketch(
    indptr: Int64Array, keys: UInt32Array, weights: UInt32Array, seeds: UInt32Array, n_hashes: int, bits_per_hash: int
) -> UInt32Array:
    n_shapes = len(indptr) - 1
    sketches = np.zeros((n_shapes, n_hashes), np.uint32)
    above = np.empty((32, len(seeds)), np.uint32)
    for row in range(n_shapes):
        entries = slice(indptr[row], indptr[row + 1])
        _weigh_sides(keys[entries], weights[entries], seeds, above)
        total = np.uint64(0)
        for weight in weights[entries]:
            total += np.uint64(weight)
        for bit in range(n_hashes * bits_per_hash):
            # above - (total - above) >= 0
            if np.uint64(above[bit % 32, bit // 32]) * np.uint64(2) >= total:
                sketches[row, bit // bits_per_hash] |= np.uint32(1) << np.uint32(bit % bits_per_hash)
    return sketches


@kernel
def _weigh_sides(keys: UInt32Array, weights: UInt32Array, seeds: UInt32Array, above: UInt32Array) -> None:
    """Sum the weights on the +1 side of each hyperplane: number 32 * word + bit goes to ``above[bit, word]``.

    One hash of a branch gives its signs for 32 hyperplanes. The words lie side by side, so that one vector
    instruction handles 8 or 16 of them: ten times as fast as the other way round.
    """
    words = np.empty_like(seeds)
    above[:] = 0
    for entry in range(len(keys)):
        weight = weights[entry]
        for word in range(len(seeds)):
            words[word] = mix32(keys[entry] ^ seeds[word])
        for bit in range(32):
            side, shift = above[bit], np.uint32(bit)
            for word in range(len(seeds)):
                sign = np.uint32(np.uint32(words[word] >> shift) & np.uint32(1))
                side[word] = np.uint32(side[word] + np.uint32(sign * weight))

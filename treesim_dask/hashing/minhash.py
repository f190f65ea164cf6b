"""MinHash: two signatures agree in a place with the Jaccard similarity of the sets, or of the bags.

Each hash is a seeded permutation of all 2**32 branches; the signature holds the least permuted value of the set.
For bags the n copies of a branch count as n different items, numbered from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treesim_dask.hashing.distances import jaccard_distances, weighted_jaccard_distances
from treesim_dask.kernels import kernel
from treesim_dask.mixing import mix32, seed_stream
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, UInt32Array


@dataclass(frozen=True, slots=True)
class MinHash:
    """The MinHash family, for the Jaccard distance of the sets of branches.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 2, 4]), np.array([3, 5, 3, 5], np.uint32), np.ones(4, np.uint32))
    >>> signatures = MinHash(n_hashes=4, seed=1).sign(shapes)
    >>> signatures.shape, bool((signatures[0] == signatures[1]).all())
    ((2, 4), True)
    """

    name: ClassVar[str] = "minhash"
    distance: ClassVar[str] = "Jaccard distance"

    n_hashes: int
    seed: int

    def sign(self, shapes: ShapeBatch) -> UInt32Array:
        """Return the signatures. Shape (n_shapes, n_hashes), dtype uint32; 2**32 - 1 everywhere for an empty set."""
        return _least_hashes(shapes.indptr, shapes.branches, seed_stream(self.seed, self.n_hashes))

    def distances(self, shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
        """Return the Jaccard distances of pairs of rows."""
        return jaccard_distances(shapes, left, right)

    def collision_probability(self, distances: FloatArray) -> FloatArray:
        """Return the probability that one hash agrees: the Jaccard similarity."""
        return 1 - distances


@dataclass(frozen=True, slots=True)
class WeightedMinHash:
    """The MinHash family over bags, for the weighted Jaccard distance: 1 - sum of least / sum of greatest counts.

    Signing takes time with the number of nodes, not of distinct branches: four to eight times that of `MinHash`.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 1, 2]), np.array([7, 7], np.uint32), np.array([1, 4], np.uint32))
    >>> signatures = WeightedMinHash(n_hashes=1000, seed=1).sign(shapes)
    >>> 0.2 < float((signatures[0] == signatures[1]).mean()) < 0.3
    True
    """

    name: ClassVar[str] = "weighted-minhash"
    distance: ClassVar[str] = "weighted Jaccard distance"

    n_hashes: int
    seed: int

    def sign(self, shapes: ShapeBatch) -> UInt32Array:
        """Return the signatures. Shape (n_shapes, n_hashes), dtype uint32; 2**32 - 1 everywhere for an empty bag."""
        copies = _number_copies(shapes.indptr, shapes.branches, shapes.counts)
        return _least_hashes(*copies, seed_stream(self.seed, self.n_hashes))

    def distances(self, shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
        """Return the weighted Jaccard distances of pairs of rows."""
        return weighted_jaccard_distances(shapes, left, right)

    def collision_probability(self, distances: FloatArray) -> FloatArray:
        """Return the probability that one hash agrees: the weighted Jaccard similarity."""
        return 1 - distances


@kernel
def _least_hashes(indptr: Int64Array, branches: UInt32Array, seeds: UInt32Array) -> UInt32Array:
    n_shapes, n_hashes = len(indptr) - 1, len(seeds)
    least = np.full((n_shapes, n_hashes), np.uint32(0xFFFFFFFF), np.uint32)
    for row in range(n_shapes):
        signature = least[row]
        for entry in range(indptr[row], indptr[row + 1]):
            branch = branches[entry]
            for i in range(n_hashes):  # one vector instruction handles 8 or 16 of these
                signature[i] = min(signature[i], mix32(branch ^ seeds[i]))
    return least


@kernel
def _number_copies(indptr: Int64Array, branches: UInt32Array, counts: UInt32Array) -> tuple[Int64Array, UInt32Array]:
    """Write each branch as often as it is counted, every copy as an item of its own."""
    copies = np.empty(np.sum(counts), np.uint32)
    starts = np.zeros_like(indptr)
    n_copies = 0
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            item = mix32(branches[entry])
            for _ in range(counts[entry]):
                item = np.uint32(item + np.uint32(0x9E3779B9))
                copies[n_copies] = item
                n_copies += 1
        starts[row + 1] = n_copies
    return starts, copies

"""MinHash over the set of branches: two signatures agree in a place with the Jaccard similarity of the sets.

Each hash is a seeded permutation of all 2**32 branches; the signature holds the least permuted value of the set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treesim_dask.hashing.mixing import mix32, seed_stream
from treesim_dask.kernels import kernel
from treesim_dask.types import Int64Array, ShapeBatch, UInt32Array


@dataclass(frozen=True, slots=True)
class MinHash:
    """The MinHash family, for Jaccard similarity.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 2, 4]), np.array([3, 5, 3, 5], np.uint32), np.ones(4, np.uint32))
    >>> signatures = MinHash(n_hashes=4, seed=1).sign(shapes)
    >>> signatures.shape, bool((signatures[0] == signatures[1]).all())
    ((2, 4), True)
    """

    n_hashes: int
    seed: int

    def sign(self, shapes: ShapeBatch) -> UInt32Array:
        """Return the signatures. Shape (n_shapes, n_hashes), dtype uint32; 2**32 - 1 everywhere for an empty set."""
        return _least_hashes(shapes.indptr, shapes.branches, seed_stream(self.seed, self.n_hashes))

    def collision_probability(self, similarity: float) -> float:
        """Return the probability that one hash agrees, given the Jaccard similarity: the similarity itself."""
        return similarity


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

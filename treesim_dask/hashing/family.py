"""What an LSH family is, and which ones there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.amplification import Sensitivity
from treesim_dask.hashing.bits import BitSampling
from treesim_dask.hashing.hyperplanes import Hyperplanes
from treesim_dask.hashing.minhash import MinHash, WeightedMinHash
from treesim_dask.hashing.projections import Projections
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, UInt32Array


class Family(Protocol):
    """Hash functions under which near shapes collide more often than others."""

    @property
    def name(self) -> str:
        """The name in the registry."""

    @property
    def distance(self) -> str:
        """The distance the family is for, in words."""

    @property
    def n_hashes(self) -> int:
        """Length of a signature."""

    def sign(self, shapes: ShapeBatch) -> UInt32Array:
        """Hash each shape. Shape (n_shapes, n_hashes), dtype uint32; a row depends on its shape alone."""

    def distances(self, shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
        """Return the exact distances of pairs of rows. Shape (n_pairs,), dtype float64."""

    def collision_probability(self, distances: FloatArray) -> FloatArray:
        """Return the probability that one hash agrees on a pair at the given distance; it never rises with it."""


FAMILIES: dict[str, Callable[[IndexConfig], Family]] = {
    "minhash": lambda config: MinHash(config.n_hashes, config.seed),
    "weighted-minhash": lambda config: WeightedMinHash(config.n_hashes, config.seed),
    "hyperplanes": lambda config: Hyperplanes(config.n_hashes, config.seed, config.bits_per_hash, config.weighting),
    "bits": lambda config: BitSampling(config.n_hashes, config.seed, config.bits_per_hash, config.log2_rows),
    "projections": lambda config: Projections(config.n_hashes, config.seed, config.width, config.weighting),
}


def make_family(config: IndexConfig) -> Family:
    """Return the family an index is built with.

    Examples
    --------
    >>> make_family(IndexConfig(n_bands=2, n_rows=3)).n_hashes
    6
    """
    if config.family not in FAMILIES:
        raise ConfigError(f"family must be one of {', '.join(FAMILIES)}, got {config.family!r}", "family")
    return FAMILIES[config.family](config)


def pair_similarities(family: Family, shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
    """Return the family's own similarities of pairs of rows: the probability that one hash agrees.

    It runs from 0 to 1 for every family, ranks pairs as the distance does, and is the s of the S-curve.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 2, 5]), np.array([1, 2, 1, 2, 3], np.uint32), np.ones(5, np.uint32))
    >>> pair_similarities(MinHash(1, 1), shapes, np.array([0]), np.array([1])).round(3).tolist()
    [0.667]
    """
    return family.collision_probability(family.distances(shapes, left, right))


def sensitivity(family: Family, near: float, far: float) -> Sensitivity:
    """Return the (d1, d2, p1, p2) sensitivity of one hash of a family.

    Examples
    --------
    >>> sensitivity(MinHash(1, 1), 0.25, 0.5)
    Sensitivity(near=0.25, far=0.5, p_near=0.75, p_far=0.5)
    """
    p_near, p_far = family.collision_probability(np.array([near, far])).tolist()
    return Sensitivity(near, far, p_near, p_far)

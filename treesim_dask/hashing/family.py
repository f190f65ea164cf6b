"""What an LSH family is, and which ones there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.minhash import MinHash
from treesim_dask.types import ShapeBatch, UInt32Array


class Family(Protocol):
    """Hash functions under which similar shapes collide more often than others."""

    @property
    def n_hashes(self) -> int:
        """Length of a signature."""

    def sign(self, shapes: ShapeBatch) -> UInt32Array:
        """Hash each shape. Shape (n_shapes, n_hashes), dtype uint32; a row depends on its shape alone."""

    def collision_probability(self, similarity: float) -> float:
        """Return the probability that one hash agrees on two shapes of the given similarity."""


FAMILIES: dict[str, Callable[[int, int], Family]] = {"minhash": MinHash}


def make_family(config: IndexConfig) -> Family:
    """Return the family an index is built with.

    Examples
    --------
    >>> make_family(IndexConfig(n_bands=2, n_rows=3)).n_hashes
    6
    """
    if config.family not in FAMILIES:
        raise ConfigError(f"family must be one of {', '.join(FAMILIES)}, got {config.family!r}")
    return FAMILIES[config.family](config.n_hashes, config.seed)

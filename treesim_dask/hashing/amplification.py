"""AND and OR: from one hash function to a steeper one, nested as wanted.

A construction joins several hashes into one decision. ``And(r)`` wants all r to agree, ``Or(b)`` at least one of b;
either may stand over the other: ``Or(b, And(r))`` is banding, ``And(r, Or(b))`` is OR-then-AND. If one hash agrees
with probability p, ``And(r)`` agrees with p**r and ``Or(b)`` with 1 - (1 - p)**b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treesim_dask.errors import ConfigError
from treesim_dask.types import FloatArray


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What (d1, d2, p1, p2)-sensitive says of a family of hash functions.

    Pairs at distance `near` or less agree with probability `p_near` or more, pairs at distance `far` or more with
    probability `p_far` or less.
    """

    near: float
    far: float
    p_near: float
    p_far: float

    def __post_init__(self) -> None:
        if not 0 <= self.near < self.far:
            raise ConfigError(f"near must lie below far and not below 0, got {self.near} and {self.far}")


class Construction(Protocol):
    """A way to decide on a pair from several hashes that agree or not."""

    @property
    def n_hashes(self) -> int:
        """How many hashes one decision takes."""

    def probability(self, p: ArrayLike) -> FloatArray:
        """Return the probability of agreeing, given that of one hash. Any shape, dtype float64."""

    def agrees(self, equal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Decide from the hashes that agree. Shape (..., n_hashes) to shape (...)."""


@dataclass(frozen=True, slots=True)
class Single:
    """One hash, as it comes."""

    @property
    def n_hashes(self) -> int:
        """One."""
        return 1

    def probability(self, p: ArrayLike) -> FloatArray:
        """Return `p`."""
        return np.asarray(p, np.float64)

    def agrees(self, equal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Drop the last axis, of length 1."""
        return equal[..., 0]


@dataclass(frozen=True, slots=True)
class And:
    """Agree where all of `n` agree.

    Examples
    --------
    >>> round(float(And(5).probability(0.8)), 3)
    0.328
    """

    n: int
    of: Construction = Single()

    def __post_init__(self) -> None:
        _check_size(self.n)

    @property
    def n_hashes(self) -> int:
        """Hashes of all parts together."""
        return self.n * self.of.n_hashes

    def probability(self, p: ArrayLike) -> FloatArray:
        """Return q**n, q being the probability of one part."""
        return self.of.probability(p) ** self.n

    def agrees(self, equal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Decide from the hashes that agree; part i takes the i-th run of ``of.n_hashes`` places."""
        return np.asarray(self.of.agrees(_split(equal, self)).all(axis=-1))


@dataclass(frozen=True, slots=True)
class Or:
    """Agree where at least one of `n` agrees.

    Examples
    --------
    >>> round(float(Or(20, And(5)).probability(0.8)), 4), round(float(And(4, Or(4)).probability(0.8)), 4)
    (0.9996, 0.9936)
    """

    n: int
    of: Construction = Single()

    def __post_init__(self) -> None:
        _check_size(self.n)

    @property
    def n_hashes(self) -> int:
        """Hashes of all parts together."""
        return self.n * self.of.n_hashes

    def probability(self, p: ArrayLike) -> FloatArray:
        """Return 1 - (1 - q)**n, q being the probability of one part."""
        # log1p and expm1 keep small probabilities exact where 1 - q rounds to 1; q = 1 goes through minus infinity
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(self.n * np.log1p(-self.of.probability(p))))

    def agrees(self, equal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Decide from the hashes that agree; part i takes the i-th run of ``of.n_hashes`` places."""
        return np.asarray(self.of.agrees(_split(equal, self)).any(axis=-1))


def banding(n_bands: int, n_rows: int) -> Or:
    """Return the construction of an index: a pair is a candidate if some band agrees in all its rows.

    Examples
    --------
    >>> equal = np.array([True, True, False, True])
    >>> bool(banding(2, 2).agrees(equal)), bool(banding(1, 4).agrees(equal))
    (True, False)
    """
    return Or(n_bands, And(n_rows))


def amplify(sensitivity: Sensitivity, construction: Construction) -> Sensitivity:
    """Return the sensitivity of the family built by a construction over a family of the given sensitivity.

    Examples
    --------
    >>> amplified = amplify(Sensitivity(0.2, 0.6, 0.8, 0.4), Or(4, And(4)))
    >>> round(amplified.p_near, 4), round(amplified.p_far, 4)
    (0.8785, 0.0985)
    """
    p_near, p_far = construction.probability([sensitivity.p_near, sensitivity.p_far]).tolist()
    return Sensitivity(sensitivity.near, sensitivity.far, p_near, p_far)


def _check_size(n: int) -> None:
    if n < 1:
        raise ConfigError(f"a construction joins at least 1 hash, got {n}")


def _split(equal: NDArray[np.bool_], construction: And | Or) -> NDArray[np.bool_]:
    """Give each part its own run of places. Shape (..., n_hashes) to shape (..., n, n_hashes of a part)."""
    if equal.shape[-1] != construction.n_hashes:
        raise ConfigError(f"the construction takes {construction.n_hashes} hashes, got {equal.shape[-1]}")
    return equal.reshape(*equal.shape[:-1], construction.n, construction.of.n_hashes)

"""How the inner loops are compiled: one decorator, typed, so that kernels stay ordinary functions to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a loop over arrays to machine code at its first call, and keep the code on disk.

    Only integer arithmetic belongs in kernels whose results are stored: it gives the same bits everywhere.
    """
    return cast(F, numba.njit(cache=True, nogil=True)(function))

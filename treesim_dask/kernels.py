"""How the inner loops are compiled: one decorator, typed, so that kernels stay ordinary functions to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a loop over arrays to machine code at its first call, and keep the code on disk where that is possible.

    Only integer arithmetic belongs in kernels whose results are stored: it gives the same bits everywhere.
    """
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # neither the package's folder nor the home of the user can be written to
        return cast(F, numba.njit(nogil=True)(function))


def _load_word(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = context.get_value_type(numba.uint64)
        return builder.load(builder.inttoptr(arguments[0], word.as_pointer()))

    return numba.uint64(numba.uint64), generate


# Inside a kernel: the 64-bit word at an address. Nothing checks that there is one.
load_word = cast(Callable[[np.uint64], np.uint64], intrinsic(_load_word))

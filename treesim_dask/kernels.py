"""How the inner loops are compiled: one decorator, typed, so that kernels stay ordinary functions to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])
_raw_memcpy: Any = cgutils.raw_memcpy  # numba has no types for it


def kernel(function: F) -> F:
    """Compile a loop over arrays to machine code at its first call, and keep the code on disk where that is possible.

    Only integer arithmetic belongs in kernels whose results are stored: it gives the same bits everywhere.
    """
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # neither the package's folder nor the home of the user can be written to
        return cast(F, numba.njit(nogil=True)(function))


def address_of(array: NDArray[Any]) -> int:
    """Return where the values of an array begin: kernels take many arrays at once as an array of their addresses.

    Whoever asks keeps the array for as long as the address is used.
    """
    address: int = array.__array_interface__["data"][0]
    return address


def _loading(kind: Any) -> Any:
    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], context.get_value_type(kind).as_pointer())
            return builder.load(pointer, align=1)  # packed numbers begin at any byte

        return kind(numba.uint64), generate

    return intrinsic(load)


def _copy_bytes(typing_context: Any, target: Any, source: Any, n_bytes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = context.get_value_type(numba.uint8).as_pointer()
        pointers = [builder.inttoptr(address, byte) for address in arguments[:2]]
        _raw_memcpy(builder, *pointers, arguments[2], 1)
        return context.get_dummy_value()

    return numba.void(numba.uint64, numba.uint64, numba.int64), generate


# Inside a kernel: the 64-bit or the 32-bit word at an address, and as many bytes from one address to another. Nothing
# checks that there are such.
load_word = cast(Callable[[np.uint64], np.uint64], _loading(numba.uint64))
load_half_word = cast(Callable[[np.uint64], np.uint32], _loading(numba.uint32))
copy_bytes = cast(Callable[[np.uint64, np.uint64, int], None], intrinsic(_copy_bytes))

"""What is worth keeping between queries, up to a bound of memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

from treesim_dask.errors import ConfigError

DEFAULT_MEMORY = 512 * 2**20
# What a piece takes beside its content: its key, its place in the order, its array or table objects, and what the C
# library loses between blocks of different sizes.
PIECE_BYTES = 1024

V = TypeVar("V")


class Cache:
    """Keeps decoded pieces of an index, those used least recently going first once the bound is reached.

    Parameters
    ----------
    limit
        Bytes that may be kept, what each piece takes beside its content included. A piece larger than that is handed
        out but not kept.

    Attributes
    ----------
    n_missed
        How often a piece was asked for that was not kept, and so had to be read.

    Examples
    --------
    >>> cache = Cache(limit=PIECE_BYTES + 10)
    >>> cache.get("a", lambda: b"12345", len), cache.get("b", lambda: b"1234567", len)
    (b'12345', b'1234567')
    >>> cache.n_bytes - PIECE_BYTES, cache.find("a") is None
    (7, True)
    """

    def __init__(self, limit: int = DEFAULT_MEMORY) -> None:
        if limit < 0:
            raise ConfigError(f"memory must be a number of bytes, 0 or more, got {limit}")
        self.limit = limit
        self.n_bytes = 0
        self.n_missed = 0
        self._pieces: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def find(self, key: Hashable) -> Any | None:
        """Return a piece that is kept, or None."""
        with self._lock:
            found = self._pieces.get(key)
            if found is None:
                self.n_missed += 1
                return None
            self._pieces.move_to_end(key)
            return found[0]

    def keep(self, key: Hashable, piece: Any, n_bytes: int) -> None:
        """Keep a piece of the given size."""
        n_bytes += PIECE_BYTES
        if n_bytes > self.limit:
            return
        with self._lock:
            if key in self._pieces:
                self.n_bytes -= self._pieces.pop(key)[1]
            self._pieces[key] = (piece, n_bytes)
            self.n_bytes += n_bytes
            while self.n_bytes > self.limit:
                self.n_bytes -= self._pieces.popitem(last=False)[1][1]

    def get(self, key: Hashable, load: Callable[[], V], size: Callable[[V], int]) -> V:
        """Return a piece, loading and keeping it if it is not there."""
        piece: V | None = self.find(key)
        if piece is None:
            piece = load()
            self.keep(key, piece, size(piece))
        return piece

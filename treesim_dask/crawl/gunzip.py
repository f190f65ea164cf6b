"""Whole gzip members at once, by FastWARC's decoder. The only module that knows FastWARC.

It takes half of zlib's time, but runs members together and does not mind one that breaks off. So it is given one
member at a time, and what it makes of it counts only with proof that the member was whole; the rest is left to the
decoder that can deal with everything.
"""

from __future__ import annotations

import importlib.util
from io import BytesIO
from typing import Any

from treesim_dask.crawl.sniffing import GZIP_MAGIC

LEAST_MEMBER_BYTES = 20  # header, an empty block, trailer
_MOST_BYTES = 2**22  # longer members are worth no second attempt
_LENGTH_BYTES = 4  # at the end of a member: how long it is decoded

# Without the extra `fast` zlib decodes all; it gives the same.
IS_INSTALLED = importlib.util.find_spec("fastwarc") is not None


class FastGunzip:
    """Decodes gzip members, each given as a whole.

    One reader decodes them all, since a new one costs as much as a short member. The first byte of the next member
    is given with each, and is the same for all: when the reader takes it for the beginning of another, the one before
    was whole, its checksum and length included.
    """

    def __init__(self) -> None:
        self._start()

    def unpack(self, data: memoryview) -> bytes | None:
        """Decode one gzip member; None for everything else, and for a long one.

        Parameters
        ----------
        data
            Without the bytes that a member begins with behind its first `LEAST_MEMBER_BYTES`: it holds no second one.
        """
        n_decoded = int.from_bytes(data[-_LENGTH_BYTES:], "little")
        if n_decoded > _MOST_BYTES or data[: len(GZIP_MAGIC)] != GZIP_MAGIC:
            return None
        self._feed(data[1:], GZIP_MAGIC[:1])
        self._n_fed += len(data)
        try:
            member: bytes = self._reader.read(n_decoded + 1)
        except OSError:  # its word for damage of any kind: the other decoder says which
            member = b""
        if self._reader.frame_start_position() == self._n_fed and len(member) == n_decoded:
            return member
        self._start()
        return None

    def _start(self) -> None:
        from fastwarc.stream_io import GzipReader

        self._file = BytesIO()
        self._reader: Any = GzipReader(self._file)
        self._n_fed = 0
        self._feed(GZIP_MAGIC[:1])
        self._reader.read(1)

    def _feed(self, *pieces: bytes | memoryview) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._file.writelines(pieces)
        self._file.seek(0)

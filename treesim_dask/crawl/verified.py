"""WARC records as FastWARC reads them, each proven to be whole. The only module that knows FastWARC.

FastWARC is the fastest reader of gzip archives, but it neither says how long a member is nor where damage lies, and it
passes over what separates WARC records without a word. So its records are believed only with proof: a gzip member ends
with the length of what it decodes to, and if that is the length of header, content and the empty lines behind, the
member is that one WARC record and nothing else. The proof needs the place where the next record begins, so the last
record before an end, before damage or before anything unusual is never taken: the bytes from there on are put back for
the reader that can deal with everything.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from io import BytesIO, RawIOBase
from typing import NamedTuple

from treesim_dask.crawl.streams import ByteStream
from treesim_dask.crawl.usual import RECORD_END, UsualRecord, read_usual_header

_LENGTH_BYTES = 4  # of a gzip trailer: the decoded length modulo 2**32
_MAX_UNPROVEN = 2**26  # bytes of a file that may wait for a proof

# Without the extra `fast` the other reader reads all; it gives the same.
IS_INSTALLED = importlib.util.find_spec("fastwarc") is not None


class VerifiedRecord(NamedTuple):
    """One WARC record that is alone in its gzip member.

    Parameters
    ----------
    record
        The WARC record.
    content
        Empty if it is no response: not worth a copy.
    offset, length
        Of the member in the file.
    n_decoded
        How many bytes the member decodes to.
    """

    record: UsualRecord
    content: bytes
    offset: int
    length: int
    n_decoded: int


def read_verified(raw: ByteStream, max_content: int) -> Iterator[VerifiedRecord]:
    """Yield the usual WARC records from the position of a file on, and leave the position behind them.

    Parameters
    ----------
    raw
        The file, where a gzip member begins.
    max_content
        Longer WARC records are left to the other reader.
    """
    from fastwarc.warc import ArchiveIterator

    tap = _Tap(raw)
    record: UsualRecord | None = None
    content, offset, n_decoded = b"", 0, 0
    try:
        for found in ArchiveIterator(tap, parse_http=False):
            position = found.stream_pos
            if record is not None:
                if not tap.prove(position - offset, n_decoded):
                    break
                yield VerifiedRecord(record, content, offset, position - offset, n_decoded)
            header = BytesIO()
            found.headers.write(header)
            record = read_usual_header(header.getvalue(), found.content_length)
            if record is None or record.n_content > max_content:
                break
            content = found.reader.read() if record.is_response else b""
            offset, n_decoded = position, len(record.header) + record.n_content + len(RECORD_END)
    except OSError:  # FastWARC's word for damage of any kind: the other reader says which
        pass
    finally:
        raw.put_back(tap.unproven)
    if tap.failure is not None:
        raise tap.failure


class _Tap(RawIOBase):
    """A file for FastWARC to read from, which keeps the bytes that wait for a proof."""

    def __init__(self, raw: ByteStream) -> None:
        self._raw = raw
        self.unproven = bytearray()
        self.failure: Exception | None = None

    def tell(self) -> int:
        """Return the place in the file."""
        return self._raw.position

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, none at the end.

        A failed request looks like the end and is told afterwards: FastWARC would make an error of its own of it.
        """
        if self.failure is not None or len(self.unproven) >= _MAX_UNPROVEN:
            return b""
        try:
            data = bytes(self._raw.peek()[:size])
        except Exception as failure:
            self.failure = failure
            return b""
        self._raw.advance(len(data))
        self.unproven += data
        return data

    def prove(self, length: int, n_decoded: int) -> bool:
        """Say whether the first bytes are a member that decodes to so many bytes, and if so forget them."""
        unproven = self.unproven
        trailer = unproven[length - _LENGTH_BYTES : length]
        if length <= 0 or trailer != (n_decoded & 0xFFFFFFFF).to_bytes(_LENGTH_BYTES, "little"):
            return False
        del unproven[:length]
        return True

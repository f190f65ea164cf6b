"""Integer columns of a Parquet file, decoded without a look at its footer.

A query wants a small row group of each band, from all over a large table. Through pyarrow each of them takes a tenth of
a millisecond, and the footer, which describes them all, grows with the table: it is read and kept for the sake of 25
row groups. What is in a row group is simple enough to be read as it is (Parquet format, data page version 1, encoding
``DELTA_BINARY_PACKED``): a header, a checksum, and differences packed into as few bits as they need.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from treesim_dask.index.compression import decompress
from treesim_dask.kernels import kernel, load_word

_DELTA_BINARY_PACKED = 5
_HEADER_BYTES = 48  # enough for the fields that are looked at
_MOST_BYTES_PER_VALUE = 16
_MOST_VALUES = 2**24  # row groups have some thousand: no memory is taken for a number that somebody made up
_MOST_BLOCK_VALUES = 2**16  # the format says a multiple of 128, Arrow writes 128
_UNEXPECTED = "a row group is not what was written"
_PADDING = bytes(16)  # differences are loaded two words at a time


def decode_integers(chunk: bytes, n_values: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return the values of a column chunk: one data page, compressed with zstd, with a checksum and without gaps.

    Raises OSError if it is anything else.
    """
    n_raw, n_stored, checksum, n_found, encoding = _read_header(np.frombuffer(chunk, np.uint8)[:_HEADER_BYTES])
    is_expected = n_found == n_values and encoding == _DELTA_BINARY_PACKED
    is_bounded = 0 < n_values <= _MOST_VALUES and 0 < n_raw <= _MOST_BYTES_PER_VALUE * n_values + 1024
    if not is_expected or not is_bounded or not 0 < n_stored <= len(chunk):
        raise OSError(_UNEXPECTED)
    stored = memoryview(chunk)[len(chunk) - n_stored :]
    if zlib.crc32(stored) != checksum & 0xFFFFFFFF:
        raise OSError("a row group does not match its checksum")
    page = decompress(stored, n_raw) + _PADDING
    n_levels = int.from_bytes(page[:4], "little")  # say of each value that it is there
    values = np.empty(n_values, dtype)
    if not _add_differences(np.frombuffer(page, np.uint8)[4 + n_levels :], values):
        raise OSError(_UNEXPECTED)
    return values


@kernel
def _read_number(data: NDArray[np.uint8], place: int) -> tuple[np.uint64, int]:
    """Return a number of variable length, and where it ends."""
    value, shift = np.uint64(0), np.uint64(0)
    while place < len(data) and shift < 64:
        byte = np.uint64(data[place])
        place += 1
        value |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
        if byte < 128:
            break
    return value, place


@kernel
def _unfold(value: np.uint64) -> np.uint64:
    """Turn 0, 1, 2, 3, 4 ... into 0, -1, 1, -2, 2 ..., modulo 2**64."""
    return np.uint64((value >> np.uint64(1)) ^ (np.uint64(0) - (value & np.uint64(1))))


@kernel
def _read_header(data: NDArray[np.uint8]) -> tuple[int, int, int, int, int]:
    """Return sizes before and after compression, checksum, number of values and encoding of a data page.

    They are the first fields of a Thrift structure, each a byte for its type and a number; the last two are the first
    ones of a structure in it. A field more or less gives sizes that do not fit.
    """
    fields = np.zeros(6, np.int64)
    place = 0
    for i in range(6):
        place += 2 if i == 4 else 1  # the inner structure has a byte of its own
        value, place = _read_number(data, place)
        fields[i] = np.int64(_unfold(value))
    return fields[1], fields[2], fields[3], fields[4], fields[5]


@kernel
def _add_differences(data: NDArray[np.uint8], values: NDArray[Any]) -> bool:
    """Decode ``DELTA_BINARY_PACKED`` integers, modulo 2**64; False if what the data say of themselves cannot be true.

    Words are loaded by their address: no number of the file is used for one before it is known to lie in the data, of
    which the last two words are padding.
    """
    n_values, end = len(values), len(data) - len(_PADDING)
    block_size, place = _read_number(data, 0)
    number, place = _read_number(data, place)
    _, place = _read_number(data, place)
    first, place = _read_number(data, place)
    if place > end or block_size % 128 or not 0 < block_size <= _MOST_BLOCK_VALUES or not 0 < number <= block_size:
        return False
    n_miniblocks, n_miniblock = int(np.int64(number)), int(np.int64(block_size // number))
    if n_miniblocks * n_miniblock != int(np.int64(block_size)) or n_miniblock % 8:  # each ends with a byte
        return False
    value = _unfold(first)
    values[0] = value
    n = 1
    while n < n_values:
        folded, place = _read_number(data, place)
        least = _unfold(folded)
        widths = place
        place += n_miniblocks
        if place > end:
            return False
        for i in range(n_miniblocks):
            width = np.uint64(data[widths + i]) if n < n_values else np.uint64(0)
            n_bytes = n_miniblock * int(np.int64(width)) // 8
            if width > 64 or n_bytes > end - place:
                return False
            mask = np.uint64(2**64 - 1) >> (np.uint64(64) - width) if width else np.uint64(0)
            start, bit = np.uint64(data.ctypes.data) + np.uint64(place), np.uint64(0)
            for _ in range(min(n_miniblock, n_values - n)):
                word, shift = start + (bit >> np.uint64(3)), bit & np.uint64(7)
                low = load_word(word) >> shift
                high = load_word(word + np.uint64(8)) << np.uint64(1) << (np.uint64(63) - shift)
                value = np.uint64(value + least + ((low | high) & mask))
                values[n] = value
                n += 1
                bit += width
            place += n_bytes
    return True

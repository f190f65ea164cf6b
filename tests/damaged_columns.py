"""Decodes column chunks that somebody made up, checksum included, and compares each with a decoder in plain Python.

A child process of the tests runs it: a decoder that reads where it should not may end its process.
"""

import sys
import zlib
from itertools import pairwise

import numpy as np
import zstandard

from treesim_dask.index.columns import decode_integers

N_VALUES = 300


def number(value: int) -> bytes:
    """A number of variable length."""
    parts = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(part | 128 for part in parts[:-1]), parts[-1]])


def folded(value: int) -> bytes:
    """A number with a sign."""
    return number(value * 2 if value >= 0 else -value * 2 - 1)


def chunk_of(page: bytes, n_values: int) -> bytes:
    """A column chunk with a page of the given bytes, whose header says so."""
    stored = zstandard.compress(page)
    checksum = int.from_bytes(zlib.crc32(stored).to_bytes(4, "big"), "big", signed=True)
    sizes = (b"\x15" + folded(value) for value in (0, len(page), len(stored), checksum))
    return b"".join(sizes) + b"\x2c\x15" + folded(n_values) + b"\x15" + folded(5) + bytes(8) + stored


def page_of(values: list[int], block_size: int = 128, n_miniblocks: int = 4) -> bytearray:
    """Integers as the format encodes them."""
    n_miniblock = block_size // n_miniblocks
    page = bytearray(bytes(4) + number(block_size) + number(n_miniblocks) + number(len(values)) + folded(values[0]))
    differences = [b - a for a, b in pairwise(values)]
    for start in range(0, len(differences), block_size):
        block = differences[start : start + block_size]
        least = min(block)
        rest = [value - least for value in block] + [0] * (block_size - len(block))
        pieces = [rest[i : i + n_miniblock] for i in range(0, block_size, n_miniblock)]
        widths = [max(piece).bit_length() for piece in pieces]
        page += folded(least) + bytes(widths)
        for piece, width in zip(pieces, widths, strict=True):
            packed = sum(value << i * width for i, value in enumerate(piece))
            page += packed.to_bytes(n_miniblock * width // 8, "little")
    return page


def plain_values(page: bytes, n_values: int) -> list[int] | None:
    """The values of a page, None if it does not hold so many."""
    data, place = page[4 + int.from_bytes(page[:4], "little") :], 0

    def read() -> int:
        nonlocal place
        value = 0
        for shift in range(0, 70, 7):
            byte = data[place]
            place += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
        return value % 2**64

    def read_folded() -> int:
        value = read()
        return value >> 1 ^ -(value & 1)

    try:
        block_size, n_miniblocks, _, first = read(), read(), read(), read_folded()
        if not 0 < block_size <= 2**16 or block_size % 128 or not 0 < n_miniblocks <= block_size:
            return None
        n_miniblock = block_size // n_miniblocks
        if n_miniblock * n_miniblocks != block_size or n_miniblock % 8:
            return None
        values = [first]
        while len(values) < n_values:
            least = read_folded()
            widths = [data[place + i] for i in range(n_miniblocks)]
            place += n_miniblocks
            for width in widths:
                if len(values) < n_values:
                    n_bytes = n_miniblock * width // 8
                    if width > 64 or place + n_bytes > len(data):
                        return None
                    packed = int.from_bytes(data[place : place + n_bytes], "little")
                    for i in range(min(n_miniblock, n_values - len(values))):
                        values.append(values[-1] + least + (packed >> i * width & 2**width - 1))
                    place += n_bytes
    except IndexError:
        return None
    return [value % 2**64 for value in values]


def decoded(page: bytes, n_values: int) -> list[int] | None:
    """What the package makes of it."""
    try:
        return decode_integers(chunk_of(page, n_values), n_values, np.uint64).tolist()
    except OSError:
        return None


def made_up(rng: np.random.Generator) -> bytes:
    """A page of random values in blocks of some size, with some bytes changed and perhaps its end gone."""
    values = (rng.integers(0, 2**63, N_VALUES) >> rng.integers(0, 63)).tolist()
    page = page_of(values, *[(128, 4), (256, 2), (512, 64), (384, 6)][rng.integers(4)])
    for _ in range(rng.integers(4)):
        page[rng.integers(min(len(page), [16, len(page)][rng.integers(2)]))] = rng.integers(256)
    return bytes(page[: rng.integers(len(page)) if rng.random() < 0.2 else None])


def main(n_pages: int) -> None:
    """Compare many, and say how many of them could be decoded."""
    # block sizes, miniblocks and widths that lead out of the data, all sizes being in order otherwise
    for block_size, n_miniblocks, width in [(2**40, 2, 64), (2**63, 1, 8), (128, 0, 8), (128, 3, 8), (128, 4, 255)]:
        header = bytes(4) + number(block_size) + number(n_miniblocks) + number(N_VALUES) + folded(5) + folded(1)
        page = header + bytes([width] * 4) + bytes(64)
        assert decoded(page, N_VALUES) is plain_values(page, N_VALUES) is None, (block_size, n_miniblocks, width)
    rng = np.random.default_rng(3)
    n_decoded = 0
    for number_of_page in range(n_pages):
        page = made_up(rng)
        expected = plain_values(page, N_VALUES)
        assert decoded(page, N_VALUES) == expected, number_of_page
        n_decoded += expected is not None
    print(n_decoded)


if __name__ == "__main__":
    main(int(sys.argv[1]))

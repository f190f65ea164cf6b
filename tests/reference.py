"""The hashing written a second time, in plain Python and from the definitions: what the kernels are held against."""

from __future__ import annotations

import math
from collections import Counter

M32, M64 = 2**32 - 1, 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix32(value):
    value ^= value >> 16
    value = value * 0x7FEB352D & M32
    value ^= value >> 15
    value = value * 0x846CA68B & M32
    return value ^ value >> 16


def unmix32(value):
    """The inverse of mix32: the key that hashes to a wanted value."""
    value ^= value >> 16
    value = value * pow(0x846CA68B, -1, 2**32) & M32
    value ^= value >> 15 ^ value >> 30
    value = value * pow(0x7FEB352D, -1, 2**32) & M32
    return value ^ value >> 16


def mix64(value):
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & M64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & M64
    return value ^ value >> 31


def seed_stream(seed, n_seeds):
    return [mix64((seed + (i + 1) * GOLDEN) & M64) >> 32 for i in range(n_seeds)]


def band_keys(signature, n_bands):
    n_rows = len(signature) // n_bands
    keys = []
    for band in range(n_bands):
        key = band + 1
        for value in signature[band * n_rows : (band + 1) * n_rows]:
            key = mix64((key * GOLDEN & M64) ^ value)
        keys.append(key)
    return keys


def minhash(shape, n_hashes, seed):
    return [min((mix32(key ^ s) for key in shape), default=M32) for s in seed_stream(seed, n_hashes)]


def weighted_minhash(shape, n_hashes, seed):
    items = [mix32(key) + copy * (GOLDEN >> 32) & M32 for key, count in shape.items() for copy in range(1, count + 1)]
    return minhash(items, n_hashes, seed)


def weight(count, weighting):
    """The largest w with 2**(w/256) <= 1 + count, in whole numbers: 2**w <= (1 + count)**256."""
    return {"log": ((1 + count) ** 256).bit_length() - 1, "count": count, "presence": 1}[weighting]


def hyperplanes(shape, n_hashes, seed, bits_per_hash, weighting):
    seeds = seed_stream(seed, math.ceil(n_hashes * bits_per_hash / 32))

    def side(plane):
        word, bit = divmod(plane, 32)
        signs = {key: 1 if mix32(key ^ seeds[word]) >> bit & 1 else -1 for key in shape}
        return sum(signs[key] * weight(count, weighting) for key, count in shape.items()) >= 0

    return [sum(side(i * bits_per_hash + bit) << bit for bit in range(bits_per_hash)) for i in range(n_hashes)]


def bit_levels(n_keys, log2_rows):
    """One fixed level, or the three from the first on at which at most 80 % of the bits are set."""
    if log2_rows:
        return [log2_rows]
    first = next(level for level in range(64) if 2**level >= n_keys / 1.6)
    return sorted(range(first, first + 3), key=lambda level: level % 3)


def bit_column(shape, level):
    return {mix32(key) >> 32 - level for key in shape}


def bits(shape, n_hashes, seed, bits_per_hash, log2_rows):
    places = seed_stream(seed, n_hashes * bits_per_hash)
    levels = bit_levels(len(shape), log2_rows)
    signature = []
    for i in range(n_hashes):
        level = next(level for fold, level in enumerate(levels) if i < (fold + 1) * n_hashes // len(levels))
        column = bit_column(shape, level)
        value = level
        for place in places[i * bits_per_hash : (i + 1) * bits_per_hash]:
            value = value << 1 | (place >> 32 - level in column)
        signature.append(value)
    return signature


def projections(shape, n_hashes, seed, width, weighting):
    scale = 256 if weighting == "log" else 1
    segment = math.isqrt(8277 * round(width * scale * 2**16) ** 2) >> 16
    seeds = seed_stream(seed, 2 * n_hashes)

    def coordinate(bits):
        return 32 * bits.bit_count() + 2 * ((bits * 0x9E3779B1 & M32) >> 28) - 527

    signature = []
    for s, shift in zip(seeds[:n_hashes], seeds[n_hashes:], strict=True):
        place = sum(weight(count, weighting) * coordinate(mix32(key ^ s)) for key, count in shape.items())
        signature.append((place + (shift * segment >> 32)) // segment & M32)
    return signature


def hash_sequence(start, values):
    state = start << 32
    for value in values:
        state = mix64((state * GOLDEN & M64) ^ value)
    return state


def shingles(tags, length):
    windows = [tags[i : i + length] for i in range(max(len(tags) - length + 1, min(len(tags), 1)))]
    return Counter(hash_sequence(1, window) >> 32 for window in windows)


def paths(tree, tag_id, above=()):
    tag, children = tree
    path = (*above, tag_id(tag))
    counts = Counter([hash_sequence(2, path) >> 32])
    for child in children:
        counts.update(paths(child, tag_id, path))
    return counts


def pq_grams(tree, tag_id, p, q, above=()):
    """All pairs of a stem and a base, with epsilon (0) where the tree has no node."""
    tag, children = tree
    stem = ((0,) * p + (*above, tag_id(tag)))[-p:]
    labels = [0] * (q - 1) + [tag_id(child[0]) for child in children] + [0] * (q - 1) if children else [0] * q
    counts = Counter()
    for i in range(len(labels) - q + 1):
        packed = sum(label << 10 * (q - 1 - place) for place, label in enumerate(labels[i : i + q]))
        counts[mix64((hash_sequence(3, stem) * GOLDEN & M64) ^ packed) >> 32] += 1
    for child in children:
        counts.update(pq_grams(child, tag_id, p, q, (*above, tag_id(tag))))
    return counts

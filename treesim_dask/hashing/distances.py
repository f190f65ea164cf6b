"""Exact distances between shapes: what the families approximate, for checks and for choosing parameters.

Every function takes a batch of sparse integer vectors and pairs of row numbers, and walks the two ascending rows of
a pair side by side. Nothing here is stored, so floats are allowed.
"""

from __future__ import annotations

import numpy as np

from treesim_dask.kernels import kernel
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, UInt32Array

_COMMON, _UNION, _LEAST, _GREATEST, _DOT, _LEFT_SQUARE, _RIGHT_SQUARE = range(7)


def jaccard_distances(shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
    """Return 1 - |A and B| / |A or B| of the sets of keys; 0 for two empty sets. Shape (n_pairs,), dtype float64.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 2, 5]), np.array([1, 2, 1, 2, 3], np.uint32), np.ones(5, np.uint32))
    >>> jaccard_distances(shapes, np.array([0]), np.array([1])).round(3).tolist()
    [0.333]
    """
    sums = _pair_sums(shapes.indptr, shapes.branches, shapes.counts, left, right)
    return 1 - _share(sums[:, _COMMON], sums[:, _UNION])


def weighted_jaccard_distances(shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
    """Return 1 - sum of least / sum of greatest counts; 0 for two empty bags. Shape (n_pairs,), dtype float64.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 1, 2]), np.array([7, 7], np.uint32), np.array([1, 4], np.uint32))
    >>> weighted_jaccard_distances(shapes, np.array([0]), np.array([1])).tolist()
    [0.75]
    """
    sums = _pair_sums(shapes.indptr, shapes.branches, shapes.counts, left, right)
    return 1 - _share(sums[:, _LEAST], sums[:, _GREATEST])


def angles(shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
    """Return the angles between the count vectors in degrees; 0 between empty ones. Shape (n_pairs,), dtype float64.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 1, 3]), np.array([7, 7, 8], np.uint32), np.array([2, 1, 1], np.uint32))
    >>> angles(shapes, np.array([0]), np.array([1])).round(6).tolist()
    [45.0]
    """
    sums = _pair_sums(shapes.indptr, shapes.branches, shapes.counts, left, right).astype(np.float64)
    norms = np.sqrt(sums[:, _LEFT_SQUARE] * sums[:, _RIGHT_SQUARE])
    both_empty = (sums[:, _LEFT_SQUARE] == 0) & (sums[:, _RIGHT_SQUARE] == 0)
    cosines = np.divide(sums[:, _DOT], norms, out=both_empty.astype(np.float64), where=norms > 0)
    return np.asarray(np.degrees(np.arccos(np.clip(cosines, -1, 1))))


def hamming_distances(shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
    """Return in how many keys the sets differ. Shape (n_pairs,), dtype float64.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 2, 5]), np.array([1, 4, 1, 2, 3], np.uint32), np.ones(5, np.uint32))
    >>> hamming_distances(shapes, np.array([0]), np.array([1])).tolist()
    [3.0]
    """
    sums = _pair_sums(shapes.indptr, shapes.branches, shapes.counts, left, right)
    return (sums[:, _UNION] - sums[:, _COMMON]).astype(np.float64)


def euclidean_distances(shapes: ShapeBatch, left: Int64Array, right: Int64Array) -> FloatArray:
    """Return the lengths of the differences of the count vectors. Shape (n_pairs,), dtype float64.

    Examples
    --------
    >>> shapes = ShapeBatch(np.array([0, 1, 3]), np.array([7, 7, 8], np.uint32), np.array([4, 1, 4], np.uint32))
    >>> euclidean_distances(shapes, np.array([0]), np.array([1])).tolist()
    [5.0]
    """
    sums = _pair_sums(shapes.indptr, shapes.branches, shapes.counts, left, right)
    return np.sqrt((sums[:, _LEFT_SQUARE] + sums[:, _RIGHT_SQUARE] - 2 * sums[:, _DOT]).astype(np.float64))


def _share(part: Int64Array, whole: Int64Array) -> FloatArray:
    return np.divide(part, whole, out=np.ones(len(whole), np.float64), where=whole > 0)


@kernel
def _pair_sums(
    indptr: Int64Array, keys: UInt32Array, counts: UInt32Array, left: Int64Array, right: Int64Array
) -> Int64Array:
    sums = np.zeros((len(left), 7), np.int64)
    for pair in range(len(left)):
        i, j = indptr[left[pair]], indptr[right[pair]]
        i_end, j_end = indptr[left[pair] + 1], indptr[right[pair] + 1]
        common = union = least = greatest = dot = left_square = right_square = np.int64(0)
        while i < i_end or j < j_end:
            a = b = np.int64(0)
            take_left = j == j_end or (i < i_end and keys[i] <= keys[j])
            take_right = i == i_end or (j < j_end and keys[j] <= keys[i])
            if take_left:
                a = np.int64(counts[i])
                i += 1
            if take_right:
                b = np.int64(counts[j])
                j += 1
            common += take_left and take_right
            union += 1
            least += min(a, b)
            greatest += max(a, b)
            dot += a * b
            left_square += a * a
            right_square += b * b
        sums[pair] = (common, union, least, greatest, dot, left_square, right_square)
    return sums

"""Every figure of the lecture documents that this package can be asked for."""

import numpy as np
import pytest
import reference
from strategies import shape_batch, tree_batch

from treesim_dask.dom.branches import count_rows
from treesim_dask.dom.features import tag_shingles
from treesim_dask.hashing.amplification import And, Or, Sensitivity, amplify, banding
from treesim_dask.hashing.bands import band_keys, candidate_probability, rise
from treesim_dask.hashing.bits import BitSampling
from treesim_dask.hashing.distances import angles, hamming_distances, jaccard_distances
from treesim_dask.hashing.family import sensitivity
from treesim_dask.hashing.hyperplanes import Hyperplanes
from treesim_dask.hashing.minhash import MinHash
from treesim_dask.hashing.projections import Projections

# rows (numbered from 1) in which each column has a 1, and the orders in which the rows are looked at
SEVEN_ROWS = {1: {1, 2, 6, 7}, 2: {3, 4, 5}, 3: {1, 6, 7}, 4: {2, 3, 4, 5}}
SEVEN_ORDERS = [(3, 4, 7, 6, 1, 2, 5), (4, 2, 3, 1, 6, 7, 5), (1, 3, 7, 6, 2, 5, 4)]
FIVE_ROWS = {1: {1, 3, 4}, 2: {2, 5}, 3: {1, 2, 4}}
FIVE_ORDERS = [(1, 2, 3, 4, 5), (5, 4, 3, 2, 1), (3, 4, 5, 1, 2)]


def column_batch(columns):
    return shape_batch([dict.fromkeys(rows, 1) for rows in columns.values()])


def pair(i, j):
    return np.array([i - 1]), np.array([j - 1])


def minhash_signatures(columns, ranks, seed=9):
    """Sign with hash functions that are given as a table: row -> rank.

    The mixer is a bijection, so each row gets the very key that the seeded hash turns into the wanted rank.
    """
    (hash_seed,) = reference.seed_stream(seed, 1)
    signatures = []
    for rank in ranks:
        keys = {row: reference.unmix32(rank(row)) ^ hash_seed for row in set().union(*columns.values())}
        shapes = shape_batch([{keys[row]: 1 for row in rows} for rows in columns.values()])
        signatures.append(MinHash(1, seed).sign(shapes)[:, 0].tolist())
    return np.array(signatures)


def rank_in(order):
    return lambda row: order.index(row) + 1


def test_unmix32_inverts_the_mixer():
    assert all(reference.mix32(reference.unmix32(value)) == value for value in (0, 1, 7, 2**31, 2**32 - 1, 123456789))


class TestMinHash:
    def test_signatures_of_the_seven_row_matrix(self):
        positions = minhash_signatures(SEVEN_ROWS, [rank_in(order) for order in SEVEN_ORDERS])
        # the slides write down the row that is met first
        rows = [[order[p - 1] for p in places] for order, places in zip(SEVEN_ORDERS, positions, strict=True)]
        assert rows == [[7, 3, 7, 3], [2, 4, 1, 4], [1, 3, 1, 3]]

    @pytest.mark.parametrize(
        ("i", "j", "columns", "signatures"), [(1, 3, 0.75, 0.67), (2, 4, 0.75, 1.0), (1, 2, 0, 0), (3, 4, 0, 0)]
    )
    def test_similarities_of_the_seven_row_matrix(self, i, j, columns, signatures):
        assert 1 - jaccard_distances(column_batch(SEVEN_ROWS), *pair(i, j)) == pytest.approx(columns)
        signed = minhash_signatures(SEVEN_ROWS, [rank_in(order) for order in SEVEN_ORDERS])
        assert (signed[:, i - 1] == signed[:, j - 1]).mean() == pytest.approx(signatures, abs=0.005)

    def test_signatures_of_the_five_row_matrix(self):
        positions = minhash_signatures(FIVE_ROWS, [rank_in(order) for order in FIVE_ORDERS])
        assert positions.tolist() == [[1, 2, 1], [2, 1, 2], [1, 3, 2]]
        rows = [[order[p - 1] for p in places] for order, places in zip(FIVE_ORDERS, positions, strict=True)]
        assert rows == [[1, 2, 1], [4, 5, 4], [3, 5, 4]]

    @pytest.mark.parametrize(("i", "j", "share"), [(1, 2, 0.0), (1, 3, 0.67), (2, 3, 0.0)])
    def test_similarities_of_the_five_row_signatures(self, i, j, share):
        signed = minhash_signatures(FIVE_ROWS, [rank_in(order) for order in FIVE_ORDERS])
        assert (signed[:, i - 1] == signed[:, j - 1]).mean() == pytest.approx(share, abs=0.005)

    def test_slots_of_the_two_hash_functions(self):
        columns = {1: {1, 3, 4}, 2: {2, 3, 5}}
        signed = minhash_signatures(columns, [lambda x: (x - 1) % 5 + 1, lambda x: 2 * x % 5 + 1])
        assert signed.tolist() == [[1, 2], [2, 1]]

    def test_two_common_rows_of_five(self):
        columns = column_batch({1: {1, 2, 3}, 2: {2, 3, 4, 5}})
        assert 1 - jaccard_distances(columns, *pair(1, 2)) == pytest.approx(2 / 5)

    @pytest.mark.parametrize(("near", "far"), [(0.2, 0.6), (0.0, 1.0)])
    def test_sensitivity(self, near, far):
        assert sensitivity(MinHash(1, 1), near, far) == Sensitivity(near, far, 1 - near, 1 - far)


class TestBanding:
    @pytest.mark.parametrize(
        ("similarity", "probability"),
        [(0.2, 0.006), (0.3, 0.047), (0.4, 0.186), (0.5, 0.470), (0.6, 0.802), (0.7, 0.975)],
    )
    def test_s_curve_of_20_bands_of_5_rows(self, similarity, probability):
        assert candidate_probability(similarity, 20, 5) == pytest.approx(probability, abs=0.0005)

    def test_pairs_at_80_percent(self):
        assert And(5).probability(0.8) == pytest.approx(0.328, abs=0.0005)
        assert candidate_probability(0.8, 20, 5) == pytest.approx(0.9996, abs=0.00005)
        assert 1 / (1 - candidate_probability(0.8, 20, 5)) == pytest.approx(3000, rel=0.1)

    def test_pairs_at_40_percent(self):
        assert And(5).probability(0.4) == pytest.approx(0.01024)
        assert 1 - candidate_probability(0.4, 20, 5) == pytest.approx(0.814, abs=0.0005)

    def test_where_the_curve_rises(self):
        assert rise(20, 5) == pytest.approx((1 / 20) ** (1 / 5))

    def test_columns_that_share_a_bucket(self):
        band = np.array([[1, 0, 0, 0, 2], [3, 2, 1, 2, 2], [0, 1, 3, 1, 1]], np.uint32)
        keys = band_keys(np.ascontiguousarray(band.T), n_bands=1)[:, 0].tolist()
        assert [(i, j) for i in range(5) for j in range(i) if keys[i] == keys[j]] == [(3, 1)]


class TestAmplification:
    @pytest.mark.parametrize(
        ("p", "amplified"),
        [(0.2, 0.0064), (0.3, 0.0320), (0.4, 0.0985), (0.5, 0.2275), (0.6, 0.4260), (0.7, 0.6666), (0.8, 0.8785),
         (0.9, 0.9860)],
    )  # fmt: skip
    def test_and_then_or(self, p, amplified):
        assert Or(4, And(4)).probability(p) == pytest.approx(amplified, abs=0.00005)
        assert banding(4, 4).probability(p) == Or(4, And(4)).probability(p)

    @pytest.mark.parametrize(
        ("p", "amplified"),
        [(0.1, 0.0140), (0.2, 0.1215), (0.3, 0.3334), (0.4, 0.5740), (0.5, 0.7725), (0.6, 0.9015), (0.7, 0.9680),
         (0.8, 0.9936)],
    )  # fmt: skip
    def test_or_then_and(self, p, amplified):
        assert And(4, Or(4)).probability(p) == pytest.approx(amplified, abs=0.00005)

    @pytest.mark.parametrize(
        ("construction", "p_near", "p_far"), [(Or(4, And(4)), 0.8785, 0.0985), (And(4, Or(4)), 0.9936, 0.5740)]
    )
    def test_sensitivity(self, construction, p_near, p_far):
        amplified = amplify(Sensitivity(0.2, 0.6, 0.8, 0.4), construction)
        assert (amplified.near, amplified.far) == (0.2, 0.6)
        assert (amplified.p_near, amplified.p_far) == pytest.approx((p_near, p_far), abs=0.00005)


class TestHyperplanes:
    VECTORS = ((3, 4, 5, 6), (4, 3, 2, 1))

    def sketches(self, normals, seed=5):
        """Sketch with given normal vectors: each coordinate gets the key whose hash has their signs as its bits."""
        family = Hyperplanes(n_hashes=len(normals), seed=seed, bits_per_hash=1, weighting="count")
        (word_seed,) = reference.seed_stream(seed, 1)
        patterns = [sum((normal[d] > 0) << bit for bit, normal in enumerate(normals)) for d in range(4)]
        keys = [reference.unmix32(pattern | d << 30) ^ word_seed for d, pattern in enumerate(patterns)]
        shapes = shape_batch([dict(zip(keys, vector, strict=True)) for vector in self.VECTORS])
        sketches = family.sign(shapes)
        return sketches, family.estimate_angles(sketches[:1], sketches[1:])

    def test_three_normal_vectors(self):
        sketches, angle = self.sketches([(1, -1, 1, 1), (-1, 1, -1, 1), (1, 1, -1, -1)])
        assert sketches.tolist() == [[1, 1, 0], [1, 0, 1]]
        assert angle == pytest.approx(120)

    def test_all_sixteen_normal_vectors(self):
        normals = [tuple(1 if number >> d & 1 else -1 for d in range(4)) for number in range(16)]
        assert self.sketches(normals)[1] == pytest.approx(45)

    def test_the_true_angle(self):
        shapes = shape_batch([dict(enumerate(vector, start=1)) for vector in self.VECTORS])
        assert angles(shapes, *pair(1, 2)).round() == 38

    def test_sensitivity(self):
        near_far = sensitivity(Hyperplanes(1, 1, 1, "count"), 30, 60)
        assert (near_far.p_near, near_far.p_far) == pytest.approx(((180 - 30) / 180, (180 - 60) / 180))


class TestBits:
    def test_hamming_distance(self):
        bits = ["10101", "11110"]
        shapes = shape_batch([{i + 1: 1 for i, bit in enumerate(word) if bit == "1"} for word in bits])
        assert hamming_distances(shapes, *pair(1, 2)) == 3

    def test_sensitivity(self):
        d = 2**5
        expected = Sensitivity(3 / d, 8 / d, 1 - 3 / d, 1 - 8 / d)
        assert sensitivity(BitSampling(1, 1, 1, 5), 3 / d, 8 / d) == expected

    def test_amplification_of_ones(self):
        column = [0, 0, 1, 1, 0, 0, 1, 0]
        # a key whose hash begins with the number of its row; an empty second column leaves only the first one's bits
        keys = [reference.unmix32(row << 29) for row, bit in enumerate(column) if bit]
        shapes = shape_batch([dict.fromkeys(keys, 1), {}])
        for level, n_ones in ((3, 3), (2, 2), (1, 2)):
            share = BitSampling(1, 1, 1, level).distances(shapes, *pair(1, 2))
            assert share * 2**level == pytest.approx(n_ones)
            column = column if level == 3 else [a | b for a, b in zip(column[::2], column[1::2], strict=True)]
            assert sum(column) == n_ones


def test_segments_on_a_line():
    family = Projections(1, 1, width=4.0, weighting="count")
    near_far = sensitivity(family, 4.0 / 2, 2 * 4.0)
    assert near_far.p_near >= 1 / 2
    assert near_far.p_far <= 1 / 3


def test_two_shingles_as_set_and_as_bag():
    letters = {letter: number for number, letter in enumerate("abc ", start=1)}
    keys, indptr = tag_shingles(tree_batch([[(letters[letter], 0) for letter in "abcab bc"]]), length=2)
    bag = count_rows(keys, indptr)
    assert len(bag.branches) == len({"ab", "bc", "ca", "b ", " b"})
    assert sorted(bag.counts.tolist()) == [1, 1, 1, 2, 2]

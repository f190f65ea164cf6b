"""One suite over every LSH family: theory, sensitivity, and the same bits everywhere."""

import hashlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import shape_batch, shape_rows

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.amplification import And, Or, banding
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import FAMILIES, make_family, pair_similarities, sensitivity
from treesim_dask.hashing.weights import log_weights
from treesim_dask.mixing import mix32, mix64, seed_stream

# every family, and every option that changes what it computes
SETTINGS = {
    "minhash": {"family": "minhash"},
    "weighted-minhash": {"family": "weighted-minhash"},
    "hyperplanes": {"family": "hyperplanes"},
    "hyperplanes-one-bit": {"family": "hyperplanes", "bits_per_hash": 1},
    "hyperplanes-count": {"family": "hyperplanes", "weighting": "count"},
    "hyperplanes-presence": {"family": "hyperplanes", "weighting": "presence", "bits_per_hash": 7},
    "bits": {"family": "bits"},
    "bits-one-of-1024": {"family": "bits", "bits_per_hash": 1, "log2_rows": 10},
    "bits-folded": {"family": "bits", "log2_rows": 0},
    "projections": {"family": "projections"},
    "projections-count": {"family": "projections", "weighting": "count", "width": 30},
    "projections-presence": {"family": "projections", "weighting": "presence", "width": 9},
    "projections-narrow": {"family": "projections", "weighting": "presence", "width": 1.5},
}
N_HASHES = 4096


def config_of(setting, n_bands=4, n_rows=4, seed=1):
    return IndexConfig(n_bands=n_bands, n_rows=n_rows, seed=seed, **SETTINGS[setting])


def graded_shapes(n_branches=160, n_steps=12):
    """A shape, then ever less similar ones: ever more of its branches are replaced and counts changed."""
    rng = np.random.default_rng(5)
    keys = rng.choice(2**30, size=2 * n_branches, replace=False).tolist()
    counts = (1 + rng.geometric(0.4, size=2 * n_branches)).tolist()
    rows = []
    for step in range(n_steps):
        n_replaced = n_branches * step // (n_steps - 1)
        kept, new = range(n_replaced, n_branches), range(n_branches, n_branches + n_replaced)
        rows.append({keys[i]: counts[i] + step * (i % 3) for i in (*kept, *new)})
    return shape_batch(rows)


def measure_agreement(family, shapes):
    """Exact distance of row 0 to each row, and the share of hashes that agree."""
    signatures = family.sign(shapes)
    others = np.arange(len(shapes))
    distances = family.distances(shapes, np.zeros(len(shapes), np.int64), others)
    return distances, (signatures == signatures[0]).mean(axis=1)


def allowed_error(probability, n_hashes):
    """Five binomial deviations, and what +1/-1 directions and whole-number normals differ from the ideal."""
    return 5 * np.sqrt(probability * (1 - probability) / n_hashes) + 0.005


def test_every_family_is_in_the_suite():
    assert {values["family"] for values in SETTINGS.values()} == set(FAMILIES)
    assert {make_family(config_of(setting)).name for setting in SETTINGS} == set(FAMILIES)


@pytest.mark.parametrize("setting", SETTINGS)
def test_collision_rate_follows_theory(setting):
    family = make_family(config_of(setting, n_bands=4, n_rows=N_HASHES // 4))
    distances, rates = measure_agreement(family, graded_shapes())
    expected = family.collision_probability(distances)
    assert np.all(np.abs(rates - expected) <= allowed_error(expected, N_HASHES))
    assert distances[0] == 0
    assert rates[0] == expected[0] == 1
    assert expected[-1] < 0.8  # the pairs do reach from like to unlike


@pytest.mark.parametrize("setting", SETTINGS)
def test_sensitivity_holds(setting):
    family = make_family(config_of(setting, n_bands=4, n_rows=N_HASHES // 4))
    distances, rates = measure_agreement(family, graded_shapes())
    near, far = np.quantile(distances, [0.3, 0.7]).tolist()
    bounds = sensitivity(family, near, far)
    assert bounds.p_near > bounds.p_far
    assert np.all(rates[distances <= near] >= bounds.p_near - allowed_error(bounds.p_near, N_HASHES))
    assert np.all(rates[distances >= far] <= bounds.p_far + allowed_error(bounds.p_far, N_HASHES))


@pytest.mark.parametrize("setting", SETTINGS)
def test_collision_probability_never_rises(setting):
    family = make_family(config_of(setting))
    most = {"hyperplanes": 180.0, "projections": 1000.0}.get(SETTINGS[setting]["family"], 1.0)
    probabilities = family.collision_probability(np.linspace(0, most, 1001))
    assert probabilities[0] == 1
    assert probabilities.min() >= 0
    assert np.all(np.diff(probabilities) <= 1e-12)


@pytest.mark.parametrize("construction", [banding(8, 4), And(4, Or(3)), Or(2, And(3, Or(2)))])
@pytest.mark.parametrize("setting", ["minhash", "hyperplanes-one-bit", "bits-one-of-1024", "projections"])
def test_amplified_families_follow_theory(setting, construction):
    n_trials = N_HASHES // construction.n_hashes
    family = make_family(config_of(setting, n_bands=n_trials, n_rows=construction.n_hashes))
    shapes = graded_shapes()
    signatures = family.sign(shapes)
    equal = (signatures == signatures[0]).reshape(len(shapes), n_trials, construction.n_hashes)
    similarities = pair_similarities(family, shapes, np.zeros(len(shapes), np.int64), np.arange(len(shapes)))
    expected = construction.probability(similarities)
    slack = 0.02  # the 0.005 of one hash, through a curve with a slope of up to 4
    assert np.all(
        np.abs(construction.agrees(equal).mean(axis=1) - expected) <= allowed_error(expected, n_trials) + slack
    )


def test_folded_columns_of_unlike_size_share_no_level():
    family = make_family(config_of("bits-folded"))
    shapes = shape_batch([dict.fromkeys(range(1, n), 1) for n in (20, 2000)])
    assert family.distances(shapes, np.array([0]), np.array([1])) == 1
    assert not np.any(np.equal(*family.sign(shapes)))


def test_angles_are_estimated_from_sketches():
    family = make_family(config_of("hyperplanes", n_bands=4, n_rows=256))
    shapes = graded_shapes()
    sketches = family.sign(shapes)
    estimates = family.estimate_angles(np.broadcast_to(sketches[0], sketches.shape), sketches)
    exact = family.distances(shapes, np.zeros(len(shapes), np.int64), np.arange(len(shapes)))
    share = exact / 180
    assert np.all(np.abs(estimates / 180 - share) <= allowed_error(share, 4 * 1024))


@given(st.lists(shape_rows(), max_size=12), st.data())
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("setting", SETTINGS)
def test_batches_of_any_size_give_the_same_bits(setting, rows, data):
    family = make_family(config_of(setting))
    whole = family.sign(shape_batch(rows))
    assert whole.shape == (len(rows), 16)
    assert whole.dtype == np.uint32
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    parts = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    assert np.array_equal(whole, np.concatenate([family.sign(shape_batch(part)) for part in parts]))


REFERENCES = {
    "minhash": lambda shape, c: reference.minhash(shape, c.n_hashes, c.seed),
    "weighted-minhash": lambda shape, c: reference.weighted_minhash(shape, c.n_hashes, c.seed),
    "hyperplanes": lambda shape, c: reference.hyperplanes(shape, c.n_hashes, c.seed, c.bits_per_hash, c.weighting),
    "bits": lambda shape, c: reference.bits(shape, c.n_hashes, c.seed, c.bits_per_hash, c.log2_rows),
    "projections": lambda shape, c: reference.projections(shape, c.n_hashes, c.seed, c.width, c.weighting),
}


@given(shape_rows(max_size=12, max_branch=2**32 - 1, max_count=60), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("setting", SETTINGS)
def test_signatures_equal_those_of_the_reference(setting, shape, seed):
    config = config_of(setting, n_bands=3, n_rows=3, seed=seed)
    ours = make_family(config).sign(shape_batch([shape]))
    assert ours.tolist() == [REFERENCES[config.family](shape, config)]
    assert band_keys(ours, 3).tolist() == [reference.band_keys(ours[0].tolist(), 3)]


# A few literal bits, computed by the reference: a change of any of them makes stored indexes unreadable.
GOLDEN_SHAPE = {1: 1, 7: 2, 42_000_000: 3, 1_000_000_000: 40}
GOLDEN_SIGNATURES = [
    ({"family": "minhash"}, [463165814, 1541785669, 148250129, 101205561]),
    ({"family": "weighted-minhash"}, [12475429, 25533878, 51048786, 47285161]),
    ({"family": "hyperplanes", "bits_per_hash": 16}, [62484, 45992, 49334, 40382]),
    ({"family": "bits", "bits_per_hash": 16, "log2_rows": 4}, [301242, 262787, 319488, 270976]),
    ({"family": "bits", "bits_per_hash": 16, "log2_rows": 0}, [235966, 262787, 195922, 141961]),
    ({"family": "projections", "width": 0.5}, [4294967295, 9, 4294967283, 4294967277]),
]


@pytest.mark.parametrize(("values", "signature"), GOLDEN_SIGNATURES)
def test_golden_signatures(values, signature):
    config = IndexConfig(n_bands=2, n_rows=2, seed=1, **values)
    assert make_family(config).sign(shape_batch([GOLDEN_SHAPE])).tolist() == [signature]
    assert REFERENCES[config.family](GOLDEN_SHAPE, config) == signature


def test_golden_bucket_keys_and_seeds():
    signature = np.array([GOLDEN_SIGNATURES[0][1]], np.uint32)
    assert band_keys(signature, 2).tolist() == [[0x6D6D795B0156DB01, 0xD0EDD3D3AA84E44A]]
    # the first output of SplitMix64 seeded with 1 is 0x910A2DEC89025CC1
    assert seed_stream(1, 4).tolist() == [0x910A2DEC, 0xBEEB8DA1, 0xF893A2EE, 0x71C18690]


@given(st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_mixers_equal_those_of_the_reference(value):
    assert mix64(np.uint64(value)) == reference.mix64(value)
    assert mix32(np.uint32(value & reference.M32)) == reference.mix32(value & reference.M32)


def digest_signatures():
    """A digest over the signatures and bucket keys of every family."""
    digest = hashlib.sha256()
    for setting in SETTINGS:
        signatures = make_family(config_of(setting)).sign(graded_shapes())
        digest.update(signatures.astype("<u4").tobytes())
        digest.update(band_keys(signatures, 4).astype("<u8").tobytes())
    return digest.hexdigest()


def test_another_process_gives_the_same_bits():
    program = "import test_families; print(test_families.digest_signatures())"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest_signatures()


@given(st.integers(1, 2**32 - 1))
@settings(deadline=None)
def test_log_weights_round_down(count):
    assert log_weights(np.array([count], np.uint32))[0] in {
        reference.weight(count, "log"),
        # with 31 places a value less than 2**-14 above a step may fall to the step before
        math.floor(256 * math.log2(1 + count) - 2**-14),
    }


def test_log_weights_of_small_counts_are_exact():
    counts = np.arange(1, 3000, dtype=np.uint32)
    assert log_weights(counts).tolist() == [reference.weight(count, "log") for count in counts.tolist()]


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match=r"family must be one of minhash, .*, got 'simhash'"):
        make_family(IndexConfig(family="simhash"))
    with pytest.raises(ConfigError, match="weighting must be one of log, count, presence, got 'tfidf'"):
        IndexConfig(weighting="tfidf")


@pytest.mark.parametrize(
    ("name", "value"),
    [("bits_per_hash", 5), ("log2_rows", 9), ("width", 2.5), ("weighting", "count"), ("feature", "paths"),
     ("shingle_length", 3), ("gram_stem", 3), ("gram_base", 2)],
)  # fmt: skip
def test_every_parameter_is_part_of_the_fingerprint(name, value):
    config = IndexConfig(**{name: value})
    assert config.fingerprint != IndexConfig().fingerprint
    assert IndexConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("name", "value"),
    [("bits_per_hash", 0), ("bits_per_hash", 25), ("log2_rows", -1), ("width", 0), ("shingle_length", 0),
     ("gram_base", 7), ("gram_stem", 1.5), ("width", 2**16 + 1), ("seed", -1), ("n_rows", True)],
)  # fmt: skip
def test_parameters_out_of_range_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name} must be a"):
        IndexConfig(**{name: value})


def test_the_widest_segments_collide_as_foretold():
    family = make_family(IndexConfig(family="projections", width=2**16, n_bands=100, n_rows=10))
    shapes = shape_batch([{1: 1}, dict.fromkeys(range(1, 40_000), 1)])
    distance = family.distances(shapes, np.array([0]), np.array([1]))
    shared = np.mean(np.equal(*family.sign(shapes)))
    assert shared == pytest.approx(family.collision_probability(distance)[0], abs=0.04)
    # where segments begin is spread over their whole length: a page at 0 has -1 and 0 for neighbours, never others
    assert set(family.sign(shapes)[0].view(np.int32).tolist()) <= {-1, 0, 1}

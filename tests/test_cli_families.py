"""Families, features and collapsing from the command line: build, look, ask, judge."""

import json

import pytest
from commands import assert_refused, run

from treesim_dask.config import FAMILY_NAMES, FEATURE_NAMES
from treesim_dask.dom.features import FEATURES
from treesim_dask.hashing.family import FAMILIES
from treesim_dask.query.metrics import METRICS

COMBINATIONS = {
    "weighted-minhash": ("--family", "weighted-minhash", "--feature", "shingles", "--shingle-length", 3),
    "hyperplanes": ("--family", "hyperplanes", "--bits-per-hash", 3, "--weighting", "count", "--feature", "styles"),
    "bits": ("--family", "bits", "--log2-rows", 0, "--feature", "branches+styles"),
    "projections": ("--family", "projections", "--width", 30, "--feature", "paths"),
    "pqgrams": ("--feature", "pqgrams", "--gram-stem", 3, "--gram-base", 2, "--seed", 7),
}


def build(capsys, archives, index, *options):
    # a shard runs in this process: no cluster for a hundred pages
    code, _, err = run(capsys, "build", *archives, "--index", index, "--shard", "1/1", "--quiet", *options)
    assert code == 0, err


def parameters(capsys, index):
    _, out, _ = run(capsys, "info", index, "--json")
    return json.loads(out)["parameters"]


def first_page(capsys, index):
    from treesim_dask import open_index

    return f"id:{open_index(str(index)).segments[0].segment_id}-0"


def test_the_names_in_the_help_are_those_of_the_registries(capsys):
    assert tuple(FAMILIES) == FAMILY_NAMES
    assert tuple(FEATURES) == FEATURE_NAMES
    _, out, _ = run(capsys, "build", "--help")
    for name in (*FAMILY_NAMES, *FEATURE_NAMES):
        assert name in out


@pytest.mark.parametrize("options", COMBINATIONS.values(), ids=COMBINATIONS)
def test_every_family_and_feature_builds_answers_and_is_judged(options, small_crawl, tmp_path, capsys):
    index, archives = tmp_path / "index", sorted(small_crawl.rglob("*.warc.gz"))[:2]
    build(capsys, archives, index, *options)
    given = dict(zip(options[::2], options[1::2], strict=True))
    stored = parameters(capsys, index)
    for option, value in given.items():
        assert stored[option.strip("-").replace("-", "_")] == value
    _, out, _ = run(capsys, "info", index)
    assert f"counted        {stored['feature']}" in out
    assert stored["family"] in out
    page = first_page(capsys, index)
    _, out, _ = run(capsys, "query", page, "-k", 1, "--json", "--index", index)
    assert json.loads(out)[0]["matches"][0]["is_query"]
    labels = small_crawl / "labels.csv"
    code, out, _ = run(capsys, "eval", index, "--labels", labels, "--min-pages", 2, "-k", 1, "--json", "--quiet")
    assert code == 0
    assert json.loads(out)["recall"] > 0.8


def test_a_batch_of_pages_is_counted_as_the_index_is(small_crawl, tmp_path, capsys):
    index, archive = tmp_path / "index", sorted(small_crawl.rglob("*.warc.gz"))[0]
    build(capsys, [archive], index, "--feature", "paths", "--collapse-repeats")
    _, out, _ = run(capsys, "query", "--batch", archive, "-k", 1, "--metric", "jaccard", "--index", index)
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) >= 10
    assert {answer["matches"][0]["score"] for answer in answers} == {1.0}


def test_collapsed_index_from_end_to_end(small_crawl, tmp_path, capsys, tree_digest):
    archives = sorted(small_crawl.rglob("*.warc.gz"))[:2]
    for name in ("one", "two"):
        build(capsys, archives, tmp_path / name, "--collapse-repeats")
    build(capsys, archives, tmp_path / "plain")
    assert tree_digest(tmp_path / "one") == tree_digest(tmp_path / "two")
    assert parameters(capsys, tmp_path / "one")["collapse_repeats"] is True
    assert parameters(capsys, tmp_path / "plain")["collapse_repeats"] is False
    _, out, _ = run(capsys, "info", tmp_path / "one")
    assert "repeated records collapsed" in out
    n_items = {"long.html": 90, "short.html": 9}
    for name, n in n_items.items():
        items = "<div class=item><img><h3><a>name</a></h3><p>text</p></div>" * n
        (tmp_path / name).write_text(f"<nav><ul><li><a>a</a></ul></nav><main>{items}</main>")
    build(capsys, [tmp_path / "long.html"], tmp_path / "one")
    build(capsys, [tmp_path / "long.html"], tmp_path / "plain")
    scores = {}
    for name in ("one", "plain"):
        page = tmp_path / "short.html"
        _, out, _ = run(capsys, "query", page, "-k", 1, "--metric", "cosine", "--json", "--index", tmp_path / name)
        scores[name] = json.loads(out)[0]["matches"][0]["score"]
    assert scores["one"] == 1.0
    assert scores["plain"] < 1.0
    labels = small_crawl / "labels.csv"
    code, out, _ = run(capsys, "eval", tmp_path / "one", "--labels", labels, "--min-pages", 2, "-k", 3, "--json")
    assert code == 0
    assert json.loads(out)["precision"] > 0.7


def test_an_existing_index_keeps_its_family(small_crawl, tmp_path, capsys):
    first, second = sorted(small_crawl.rglob("*.warc.gz"))[:2]
    build(capsys, [first], tmp_path / "index", "--family", "bits")
    build(capsys, [second], tmp_path / "index")
    assert parameters(capsys, tmp_path / "index")["family"] == "bits"
    result = run(capsys, "build", second, "--family", "minhash", "--index", tmp_path / "index", "--quiet")
    assert_refused(result, "--family bits and minhash")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--family", "simhash"), "family must be one of minhash, weighted-minhash"),
        (("--feature", "words"), "feature must be one of branches, shingles"),
        (("--feature", "branches+words"), "'words'"),
        (("--feature", "styles", "--collapse-repeats"), "cannot go with the feature 'styles'"),
        (("--weighting", "tfidf"), "weighting must be one of log, count, presence"),
        (("--bits-per-hash", 0), "--bits-per-hash must be a whole number from 1"),
        (("--log2-rows", 99), "--log2-rows must be a whole number"),
        (("--width", 0), "width must be a number"),
        (("--width", "wide"), "invalid float value: 'wide'"),
        (("--shingle-length", 0), "--shingle-length must be"),
        (("--gram-stem", 0), "--gram-stem must be"),
        (("--gram-base", 9), "--gram-base must be"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_written(options, word, demo_archives, tmp_path, capsys):
    index = tmp_path / "index"
    assert_refused(run(capsys, "build", demo_archives[0], "--index", index, "--quiet", *options), word)
    assert not index.exists()


def test_a_bound_of_the_edit_distance_needs_branches(small_crawl, tmp_path, capsys):
    index = tmp_path / "index"
    build(capsys, sorted(small_crawl.rglob("*.warc.gz"))[:1], index, "--feature", "paths")
    page = first_page(capsys, index)
    others = ", ".join(name for name in METRICS if name != "bdist")
    assert_refused(run(capsys, "query", page, "--metric", "bdist", "--index", index), "counts paths", others)
    labels = small_crawl / "labels.csv"
    assert_refused(run(capsys, "eval", index, "--labels", labels, "--metric", "bdist"), "counts paths")

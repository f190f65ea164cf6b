"""The report's worked example, step by step, and what the reference promises on any tree."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from record_pages import node_ranges, trees

from treesim_dask.dom.repeats import (
    cut_lengths,
    encode_tree,
    find_sequences,
    first_occurrences,
    merge_runs,
    resolve_containment,
)
from treesim_dask.dom.suffix_tree import build_suffix_tree, find_repeats
from treesim_dask.dom.tree import parse_trees
from treesim_dask.dom.vocabulary import tag_id, tag_name

# From the report: the sequence of its figure 1, what its suffix tree repeats, the cut, the merged result, the rest.
SEQUENCE = "html1 head2 meta3 meta3 body2 " + "div3 a4 div4 img5 " * 3 + "div3"
REPEATED = [
    "a4 div4 img5 div3",
    "a4 div4 img5 div3 a4 div4 img5 div3",
    "div4 img5 div3",
    "div4 img5 div3 a4 div4 img5 div3",
    "img5 div3",
    "img5 div3 a4 div4 img5 div3",
    "div3",
    # the report prints `div3` a second time here: ten lines, as there are ten inner nodes, one line cut off
    "div3 a4 div4 img5 div3 a4 div4 img5 div3",
    "div3 a4 div4 img5 div3",
    "meta3",
]
CUT = ["a4 div4 img5", "div4 img5", "img5", "div3", "div3 a4 div4 img5", "meta3"]
MERGED = {"div3 a4 div4 img5", "meta3"}
SIMPLIFIED = "html1 head2 meta3 body2 div3 a4 div4 img5 div3"


def read_sequence(text):
    """Turn `div3 a4` into tags and depths; the report counts depth from 1."""
    parts = re.findall(r"([a-z]+)(\d+)", text)
    tags = np.array([tag_id(name) for name, _ in parts], np.uint16)
    return tags, np.array([int(depth) - 1 for _, depth in parts], np.int32)


def write_sequence(tags, depths):
    return " ".join(f"{tag_name(t)}{d + 1}" for t, d in zip(tags.tolist(), depths.tolist(), strict=True))


def test_the_reports_page_gives_its_sequence():
    item = "<div><a></a><div><img></div></div>"
    tree = parse_trees([f"<html><head><meta><meta></head><body>{item * 3}<div></div>".encode()])
    assert write_sequence(tree.tags, tree.depths) == SEQUENCE


def test_the_reports_repeated_sequences_before_the_cut():
    tags, depths = read_sequence(SEQUENCE)
    repeats = find_repeats(build_suffix_tree(encode_tree(tags, depths)))
    words = [write_sequence(tags[s : s + n], depths[s : s + n]) for s, n in first_and_length(repeats, repeats.lengths)]
    assert sorted(words) == sorted(REPEATED)


def first_and_length(repeats, lengths):
    return [(repeats.occurrences(row)[0], lengths[row]) for row in range(len(repeats))]


def test_the_reports_sequences_after_the_cut():
    tags, depths = read_sequence(SEQUENCE)
    repeats = find_repeats(build_suffix_tree(encode_tree(tags, depths)))
    cuts = cut_lengths(repeats, tags, depths)
    words = {write_sequence(tags[s : s + n], depths[s : s + n]) for s, n in first_and_length(repeats, cuts)}
    assert words == set(CUT)


def test_the_reports_merged_result():
    tags, depths = read_sequence(SEQUENCE)
    repeats = find_repeats(build_suffix_tree(encode_tree(tags, depths)))
    found = resolve_containment(repeats, cut_lengths(repeats, tags, depths))
    words = {write_sequence(tags[s:e], depths[s:e]) for s, e in zip(found.starts, found.ends, strict=True)}
    assert words == MERGED
    assert np.diff(merge_runs(found)).tolist() == [2, 3]


def test_the_reports_simplified_sequence():
    tags, depths = read_sequence(SEQUENCE)
    left = first_occurrences(find_sequences(tags, depths), len(tags))
    assert write_sequence(tags[left], depths[left]) == SIMPLIFIED


def test_childless_siblings_are_one_sequence_each():
    tags, depths = read_sequence("ul1 li2 li2 li2 li2")
    found = find_sequences(tags, depths)
    assert node_ranges(found.starts, found.ends) == [(1, 2), (2, 3), (3, 4), (4, 5)]
    assert merge_runs(found).tolist() == [0, 4]


def test_a_tree_without_repeats_has_no_sequences():
    found = find_sequences(*read_sequence("html1 head2 body2"))
    assert len(found) == 0
    assert merge_runs(found).tolist() == [0]
    assert first_occurrences(found, 3).all()


@given(trees())
def test_places_are_disjoint_repeated_and_never_cross_a_border(tree):
    tags, depths = tree
    found = find_sequences(tags, depths)
    assert (found.starts < found.ends).all()
    assert (found.ends[:-1] <= found.starts[1:]).all()
    codes = encode_tree(tags, depths)
    words = {}
    for start, end, number in zip(found.starts, found.ends, found.sequences, strict=True):
        assert (np.diff(depths[start:end]) >= 0).all()
        words.setdefault(int(number), []).append(tuple(codes[start:end].tolist()))
    assert all(len(places) > 1 and len(set(places)) == 1 for places in words.values())

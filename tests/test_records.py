"""Repeated records: exact ones against the suffix tree, planted ones on whole pages, near ones by example."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from record_pages import HtmlNode, html_records, nested_tree, node_ranges, plant_records, trees

from treesim_dask.dom.collapse import digest_subtrees
from treesim_dask.dom.records import find_regions
from treesim_dask.dom.repeats import encode_tree, find_sequences, merge_runs
from treesim_dask.dom.similar import survey_subtrees
from treesim_dask.dom.suffix_tree import build_suffix_tree, find_repeats
from treesim_dask.dom.tree import parse_trees
from treesim_dask.errors import ConfigError
from treesim_dask.types import TreeBatch


def siblings(depths):
    """Every pair of next siblings with the end of the second, by looking at depths alone."""
    n = len(depths)
    ends = [next((j for j in range(i + 1, n) if depths[j] <= depths[i]), n) for i in range(n)]
    return [(i, ends[i], ends[ends[i]]) for i in range(n) if ends[i] < n and depths[ends[i]] == depths[i]]


def records_of(regions, i):
    part = slice(regions.indptr[i], regions.indptr[i + 1])
    return node_ranges(regions.starts[part], regions.ends[part])


def equal_by_suffix_tree(repeats, a, b, length):
    """Whether the two sequences of this length are one repeated substring."""
    row = repeats.longest[a]
    while row >= 0 and repeats.shorter[row] >= length:
        row = repeats.parents[row]
    return row >= 0 and length <= repeats.lengths[row] and b in repeats.occurrences(row)


@given(trees())
def test_equal_siblings_are_those_of_the_suffix_tree(tree):
    """The production path compares digests; the suffix tree knows nothing of them."""
    tags, depths = tree
    repeats = find_repeats(build_suffix_tree(encode_tree(tags, depths)))
    regions = find_regions(tags, depths)
    found = {record: i for i in range(len(regions)) for record in records_of(regions, i)}
    for a, b, end in siblings(depths.tolist()):
        equal = b - a == end - b and equal_by_suffix_tree(repeats, a, b, b - a)
        together = (a, b) in found and found.get((b, end)) == found[(a, b)]
        assert together == equal


@given(trees())
def test_records_of_a_region_are_equal_when_asked_for(tree):
    tags, depths = tree
    regions = find_regions(tags, depths)
    for i in range(len(regions)):
        forests = {tuple(zip(tags[s:e].tolist(), depths[s:e].tolist(), strict=True)) for s, e in records_of(regions, i)}
        if regions.outer[i] < 0:
            assert len(forests) == 1


@given(trees(max_nodes=100), st.floats(0.3, 1))
def test_regions_are_well_formed(tree, similarity):
    tags, depths = tree
    regions = find_regions(tags, depths, similarity=similarity)
    assert (np.diff(regions.indptr) >= 2).all()
    assert (np.diff(regions.n_covered) <= 0).all()
    for i in range(len(regions)):
        records = records_of(regions, i)
        assert all(a_end <= b for (_, a_end), (b, _) in itertools.pairwise(records))
        assert sum(e - s for s, e in records) == regions.n_covered[i]
        assert {depths[s] for s, _ in records} == {regions.depths[i]}
        for start, end in records:
            assert depths[start:end].min() == depths[start]
            assert end == len(depths) or depths[end] <= depths[start]
        if regions.outer[i] >= 0:
            around = records_of(regions, regions.outer[i])
            assert all(any(a <= s and e <= b for a, b in around) for s, e in records)


def test_the_reports_example():
    item = "<div><a></a><div><img></div></div>"
    tree = parse_trees([f"<html><head><meta><meta></head><body>{item * 3}<div></div>".encode()])
    regions = find_regions(tree.tags, tree.depths)
    assert records_of(regions, 0) == [(5, 9), (9, 13), (13, 17)]
    assert records_of(regions, 1) == [(2, 3), (3, 4)]
    assert len(regions) == 2
    sequences = find_sequences(tree.tags, tree.depths)
    runs = merge_runs(sequences)
    assert node_ranges(sequences.starts, sequences.ends) == sorted(records_of(regions, 0) + records_of(regions, 1))
    assert runs.tolist() == [0, 2, 5]


@given(html_records(), st.integers(2, 12), st.randoms())
def test_planted_records_are_found_where_they_are(record, n_copies, random):
    html, first = plant_records(record, n_copies, random)
    tree = parse_trees([html.encode()])
    regions = find_regions(tree.tags, tree.depths)
    planted = [(first + i * record.n_nodes, first + (i + 1) * record.n_nodes) for i in range(n_copies)]
    assert planted in [records_of(regions, i) for i in range(len(regions))]


@given(st.lists(html_records(), min_size=2, max_size=3), st.integers(3, 8))
def test_records_of_several_siblings(parts, n_copies):
    for number, part in enumerate(parts):
        part.tag = f"x-{number}"
    html = "<main>" + "".join(str(part) for part in parts) * n_copies + "</main>"
    tree = parse_trees([html.encode()])
    size = sum(part.n_nodes for part in parts)
    assume(len(set(tree.tags[4:].tolist())) >= len(parts))
    regions = find_regions(tree.tags, tree.depths)
    assert [(4 + i * size, 4 + (i + 1) * size) for i in range(n_copies)] in [
        records_of(regions, i) for i in range(len(regions))
    ]


def near_regions(html, **options):
    tree = parse_trees([html.encode()])
    regions = find_regions(tree.tags, tree.depths, **{"similarity": 0.6, "min_records": 3, **options})
    return [records_of(regions, i) for i in range(len(regions))], regions


def test_optional_children_do_not_break_a_list():
    full = "<div><img><h2></h2><p></p><span></span></div>"
    lean = "<div><img><h2></h2><p></p></div>"
    exact, _ = near_regions(f"<main>{full}{full}{lean}{full}{lean}{full}</main>", similarity=1.0)
    near, _ = near_regions(f"<main>{full}{full}{lean}{full}{lean}{full}</main>")
    assert max(map(len, exact), default=0) < 6
    assert len(near[0]) == 6


def test_an_advertisement_does_not_break_a_list():
    item, advert = "<div><img><h2></h2><p></p></div>", "<section><iframe></iframe></section>"
    near, _ = near_regions(f"<main>{item * 3}{advert}{item * 4}</main>")
    assert len(near[0]) == 7


def test_lists_inside_records_may_have_any_length():
    items = "".join(f"<div><h2></h2><p>{'<a></a>' * n}</p></div>" for n in (1, 9, 3, 20))
    near, _ = near_regions(f"<main>{items}</main>")
    assert [len(records) for records in near] == [4, 33]


def test_cells_of_a_grid_are_one_region_with_its_short_last_row():
    cell = "<div><img><p></p></div>"
    near, regions = near_regions(f"<main>{f'<section>{cell * 3}</section>' * 4}<section>{cell}</section></main>")
    assert [len(records) for records in near] == [5, 13]
    assert regions.outer.tolist() == [-1, 0]


def test_rows_that_some_other_row_is_like_are_one_list():
    """A heading row and a row with a list have little in common, but each is like a plain row."""
    heading, plain, long = "<tr><td>", "<tr><td><td>", "<tr><td><td><ul><li><li></ul>"
    near, _ = near_regions(f"<table>{heading}{plain * 2}{heading}{long}{plain}{heading}{plain}</table>")
    assert len(near[0]) == 8


def test_two_lists_of_one_kind_are_one_region():
    lists = [f"<div><h3></h3><ul>{'<li></li>' * n}</ul></div>" for n in (2, 5)]
    tree = parse_trees([f"<main>{''.join(lists)}</main>".encode()])
    for of_one_kind in (True, False):
        kinds = np.zeros(len(tree.tags), np.int64)
        kinds[np.flatnonzero(tree.depths == 3)] = [1, 1 if of_one_kind else 2]
        regions = find_regions(tree.tags, tree.depths, min_records=3, similarity=0.6, kinds=kinds)
        assert [len(records_of(regions, i)) for i in range(len(regions))] == [7 if of_one_kind else 5]


def test_headings_with_their_paragraphs_are_records():
    near, _ = near_regions("<main><p></p><h3></h3><p></p><p></p><h3></h3><p></p><h3></h3><p></p><p></p><p></p></main>")
    assert near[0] == [(5, 8), (8, 10), (10, 14)]


def test_lists_side_by_side_are_regions_of_their_own():
    near, _ = near_regions(f"<ul>{'<li><a></a>' * 5}</ul><table>{'<tr><td><td>' * 4}</table>")
    assert sorted(len(records) for records in near) == [4, 5, 8]


@pytest.mark.parametrize("options", [{"min_records": 1}, {"similarity": 0.0}, {"similarity": 1.5}])
def test_parameters_are_checked(options):
    with pytest.raises(ConfigError, match="min_records must be at least 2"):
        near_regions("<p></p>", **options)


def test_a_very_deep_page_needs_no_recursion():
    assert near_regions("<div>" * 5_000)[0] == []


def test_nested_tree_of_the_strategies():
    assert nested_tree(np.array([1, 2, 3]), np.array([0, 1, 1])) == (1, ((2, ()), (3, ())))


def test_html_nodes_count_themselves():
    assert HtmlNode("p", [HtmlNode("a", [])]).n_nodes == 2


@given(trees())
def test_a_walk_over_a_collapsed_tree_takes_a_step_for_each_node_that_stays(tree):
    """However many siblings repeat: between two nodes that stay there is one skip at most for each level between."""
    tags, depths = tree
    subtrees = survey_subtrees(tags, depths, exact=False)
    _, stays = digest_subtrees(TreeBatch(tags, depths, np.array([0, len(tags)])), skip_repeats=True)
    dropped = {node for root in np.flatnonzero(~stays) for node in range(root, subtrees.ends[root])}
    node, visited, skipped_below = 0, [], []
    while node < len(tags):
        if subtrees.skips[node]:
            skipped_below.append((int(subtrees.parents[node]), len(visited)))
            node = int(subtrees.skips[node])
        else:
            visited.append(node)
            node += 1
    assert visited == [node for node in range(len(tags)) if node not in dropped]
    assert len(skipped_below) == len(set(skipped_below))

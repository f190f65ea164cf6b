import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import nested_trees, to_html

from treesim_dask.dom.tree import parse_trees, splice
from treesim_dask.dom.vocabulary import EPSILON, FIRST_UNKNOWN, N_IDS, TAG_NAMES, tag_id, tag_name

# Tags whose nesting HTML5 leaves as it is written, inside <body>.
PLAIN_TAGS = ("div", "section", "article", "main", "x-card", "ins")


def pairs(trees, page=0):
    nodes = slice(trees.indptr[page], trees.indptr[page + 1])
    return [(tag_name(t), d) for t, d in zip(trees.tags[nodes].tolist(), trees.depths[nodes].tolist(), strict=True)]


def preorder(tree, depth=0, dropped=frozenset()):
    """The tree in document order, spliced by the definition: a dropped tag's children belong to its parent."""
    tag, children = tree
    if tag in dropped:
        return [node for child in children for node in preorder(child, depth, dropped)]
    return [(tag, depth), *(node for child in children for node in preorder(child, depth + 1, dropped))]


def test_the_tree_of_the_report():
    html = b"<html><head><meta></meta><meta></meta></head><body><ul><li></li></ul></body></html>"
    expected = [("html", 0), ("head", 1), ("meta", 2), ("meta", 2), ("body", 1), ("ul", 2), ("li", 3)]
    assert pairs(parse_trees([html])) == expected


def test_comments_text_doctype_and_instructions_are_no_elements():
    html = b"<!doctype html><!-- a --><?xml b?><p>text<!-- c --><?d e?><i></i></p>"
    assert [tag for tag, _ in pairs(parse_trees([html]))] == ["html", "head", "body", "p", "i"]


def test_an_empty_page_is_html_head_body():
    assert pairs(parse_trees([b""])) == [("html", 0), ("head", 1), ("body", 1)]


@given(st.lists(nested_trees(tags=PLAIN_TAGS), max_size=4), st.sets(st.sampled_from(PLAIN_TAGS)))
def test_parse_and_splice_follow_the_definition(nested, dropped):
    pages = [f"<!doctype html><body>{to_html(tree)}".encode() for tree in nested]
    trees = parse_trees(pages, sorted(dropped))
    assert len(trees) == len(nested)
    for page, tree in enumerate(nested):
        whole = ("html", [("head", []), ("body", [tree])])
        names = [(tag if tag in TAG_NAMES else f"custom-{tag_id(tag)}", d) for tag, d in preorder(whole, 0, dropped)]
        assert pairs(trees, page) == names


@given(st.lists(nested_trees(tags=PLAIN_TAGS), min_size=1, max_size=5))
def test_a_page_does_not_depend_on_its_batch(nested):
    pages = [to_html(tree).encode() for tree in nested]
    together = parse_trees(pages, ["ins"])
    for i, page in enumerate(pages):
        assert pairs(together, i) == pairs(parse_trees([page], ["ins"]))


@pytest.mark.parametrize("spliced", [(), ("span",)])
def test_a_hundred_thousand_nested_tags(spliced):
    trees = parse_trees([b"<span><a-b>" * 50_000], spliced)
    assert trees.depths.max() == (100_001 if not spliced else 50_001)


def test_splicing_everything_leaves_nothing():
    assert len(splice(parse_trees([b"<p>"]), ["html", "head", "body", "p"]).tags) == 0


def test_ids_are_fixed_and_below_1024():
    assert len(set(TAG_NAMES)) == len(TAG_NAMES) <= FIRST_UNKNOWN
    # a change of any id would make stored indexes unreadable: version 1 is this list and no other
    assert hashlib.sha256("\n".join(TAG_NAMES).encode()).hexdigest() == (
        "9a6c0dde84cc07a7bd001b2840b01f8db67701a0fca269640e1df8f785fccee0"
    )
    assert [tag_id(name) for name in ("a", "html", "x-card")] == [1, 63, 578]


@given(st.text(min_size=1))
def test_no_tag_is_epsilon(name):
    assert EPSILON < tag_id(name) < N_IDS


def test_unknown_tags_spread_over_their_range():
    numbers = np.array([tag_id(f"x-{i}") for i in range(5120)])
    assert numbers.min() >= FIRST_UNKNOWN
    # 10 expected in each of 512 places: a place with none has probability e**-10
    assert np.count_nonzero(np.bincount(numbers - FIRST_UNKNOWN, minlength=512)) > 500

"""The walk over the parser's memory gives what the walk through its objects gives."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser
from strategies import nested_trees, to_html

from treesim_dask.demo.pages import demo_page
from treesim_dask.dom import structs
from treesim_dask.dom.structs import can_walk_structs, walk_structs
from treesim_dask.dom.tree import parse_trees
from treesim_dask.dom.vocabulary import TAG_NAMES
from treesim_dask.dom.walk import ElementBuffer, walk_objects

PIECES = [
    *(f"<{name}>" for name in TAG_NAMES if name),
    *(f"</{name}>" for name in ("p", "div", "table", "svg", "math", "template", "select", "b", "i", "body", "html")),
    "text", "<!-- c -->", "<!doctype html>", "<?pi x?>", "<![CDATA[x]]>", "&amp;", "<br/>", "<x-y>", "</x-y>", "<a:b>",
    "<x-a-name-of-more-than-16-bytes>", "<É>", "<x-é>", "<svg><FooBar/>", "\x00", "<x\x00y>", "<", "</", "<p", "<q '>",
]  # fmt: skip


def walked(walk, html):
    parser = LexborHTMLParser(html)
    elements = ElementBuffer()
    result = walk(parser, elements)
    return result, elements.tags[: elements.n_nodes].tolist(), elements.depths[: elements.n_nodes].tolist()


def assert_walks_agree(html):
    _, tags, depths = walked(walk_objects, html)
    assert walked(walk_structs, html) == (True, tags, depths)


@pytest.fixture(autouse=True, scope="module")
def _structs_are_walked_here():
    assert can_walk_structs(), "the tests run on a version of selectolax that is not in TESTED_VERSIONS"


@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_walks_agree_on_soups_of_tags(pieces):
    assert_walks_agree("".join(pieces).encode("utf-8", "surrogateescape"))


@given(st.binary(max_size=300).map(lambda junk: b"<div>" + junk.replace(b" ", b"<x-") + b"<p>end"))
def test_walks_agree_on_junk(html):
    assert_walks_agree(html)


@given(nested_trees())
def test_walks_agree_on_trees(tree):
    assert_walks_agree(to_html(tree).encode())


def test_long_names_of_tags_are_not_kept():
    """Names may be as long as a page: kept, these would take 16 MB, and those of a crawl all of the memory."""
    tracemalloc.start()
    for number in range(64):
        assert_walks_agree(b"<x-%d-%s>" % (number, b"y" * 2**18))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2**21


def test_walks_agree_on_demo_pages():
    for number in range(100):
        assert_walks_agree(demo_page(1, number).html)


def test_many_and_deep_nodes_make_the_buffer_grow():
    html = b"<div>" * 5_000 + b"<p>x</p>" * 150_000
    _, tags, depths = walked(walk_objects, html)
    assert walked(walk_structs, html) == (True, tags, depths)
    assert len(tags) > 2 * 2**16


def test_a_page_with_too_many_unknown_tags_is_walked_through_objects():
    html = "".join(f"<x-{n}></x-{n}>" for n in range(1500)).encode()
    appended, tags, _ = walked(walk_structs, html)
    assert (appended, tags) == (False, [])
    _, tags, depths = walked(walk_objects, html)
    trees = parse_trees([b"<p>", html])
    assert trees.tags[4:].tolist() == tags
    assert trees.depths[4:].tolist() == depths


@pytest.fixture
def forget_self_test():
    can_walk_structs.cache_clear()
    yield
    can_walk_structs.cache_clear()


@pytest.mark.usefixtures("forget_self_test")
def test_another_version_is_walked_through_objects(monkeypatch):
    expected = parse_trees([b"<ul><li><x-y>"])
    can_walk_structs.cache_clear()
    monkeypatch.setattr(structs, "TESTED_VERSIONS", frozenset({"0.0.1"}))
    assert not can_walk_structs()
    found = parse_trees([b"<ul><li><x-y>"])
    assert np.array_equal(found.tags, expected.tags)
    assert np.array_equal(found.depths, expected.depths)


@pytest.mark.usefixtures("forget_self_test")
@pytest.mark.parametrize("name", ["_LOCAL_NAME", "_NEXT", "_PARENT", "_FIRST_CHILD", "_TYPE"])
def test_a_struct_that_looks_otherwise_fails_the_self_test(monkeypatch, name):
    monkeypatch.setattr(structs, name, 48)  # the previous sibling
    assert not can_walk_structs()


@pytest.mark.parametrize(("field", "offset"), [("_LENGTH", 32), ("_LENGTH", 0), ("_ITSELF", 24)])
def test_a_name_struct_laid_out_otherwise_is_found_out_before_it_is_trusted(monkeypatch, field, offset):
    monkeypatch.setattr(structs, field, offset)
    parser = LexborHTMLParser(b"<x-card>")
    assert not structs._looks_as_expected(parser)
    assert not structs._agrees_with_objects()

"""Pages that would stall the parser or fill the memory are told from those that only look large."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treesim_dask
from treesim_dask.dom import cost
from treesim_dask.dom.cost import is_affordable
from treesim_dask.dom.tree import parse_trees
from treesim_dask.errors import PageError
from treesim_dask.query.page import query_from_html
from treesim_dask.records import find_records


def numbered(form, n):
    return b"".join(form % i for i in range(n))


OPEN_FORMATS = b"<p>" + numbered(b"<b a=%d>", 1000)
DEEP = b"<span>" * 20_000

# Each takes seconds to hours, or gigabytes, to parse.
HOSTILE = {
    "formats made anew in each paragraph": OPEN_FORMATS + b"<p>x" * 3000,
    "formats made anew around blocks": OPEN_FORMATS + b"</p><div>x</div>" * 3000,
    "formats that cells outside of a table do not hide": OPEN_FORMATS + b"<td><p>x" * 3000,
    "formats compared with all before": numbered(b"<b a=%d>", 30_000),
    "formats ended around many blocks": numbered(b"<b a=%d>", 1000) + b"<div>" * 1000 + b"</b>" * 10_000,
    "a format ended around many blocks": b"<b>" * 3 + b"<div>" * 10_000 + b"</b>" * 10_000,
    "nested blocks": b"<div>" * 40_000,
    "nested items": b"<ul><li>" * 40_000,
    "end tags without a start": DEEP + b"</b>" * 40_000,
    "paragraphs deep inside": DEEP + b"<p></p>" * 40_000,
    "items deep inside": DEEP + b"<li>" * 40_000,
    "tables deep inside": DEEP + b"<table>x</table>" * 40_000,
    "forms deep inside": b"<form>" + DEEP + b"</form>" + b"<form></form>" * 40_000,
    "end tags hidden in attributes": b"<div a='</div>'>" * 40_000,
    "end tags hidden in comments": b"<div><!-- ></div> -->" * 40_000,
    "a comment that ends at once": b"<!-->" + b"<div>" * 50_000,
    "foreign elements": b"<svg>" + b"<g>" * 20_000 + b"</x>" * 40_000,
    "a style that is markup": b"<svg><style>" + b"<g>" * 40_000 + b"</x>" * 40_000,
    "attributes": b"<p " + numbered(b" a%d", 70_000) + b">",
    "options": b"<select>" + b"<option>x" * 40_000,
}

# None takes more than some seconds to parse, whatever it looks like.
HARMLESS = {
    "deep spans": b"<span>" * 100_000,
    "deep unknown tags": b"<span><a-b>" * 50_000,
    "blocks 500 deep": (b"<div>" * 500 + b"x" + b"</div>" * 500) * 20,
    "blocks 20,000 deep": b"<div>" * 20_000,
    "equal formats": b"<p>" + b"<b>" * 1000 + b"<p>x" * 4000,
    "equal formats in items": b"<ul>" + b"<li><b>x</li>" * 10_000,
    "items without end tags": b"<ul>" + b"<li>x" * 50_000,
    "paragraphs without end tags": b"<p>x" * 50_000,
    "cells without end tags": b"<table>" + b"<tr><td><font color=red>x<td><b>y" * 20_000,
    "terms without end tags": b"<dl>" + b"<dt>x<dd>y" * 30_000,
    "spans without end tags": b"<div><span>x</div>" * 50_000,
    "links without end tags": numbered(b"<a href=%d>x<br>", 30_000),
    "tags in a script": b"<script>" + b"'<div>'" * 100_000 + b"</script>",
    "tags in a comment": b"<!--" + b"<div>" * 100_000 + b"-->",
    "drawings": b"<svg><path d='m0 0'/><g></g></svg>" * 30_000,
    "rows of a large table": b"<table>" + b"<tr><td><a href=x>y</a></td></tr>" * 30_000 + b"</table>",
    "a picture in an attribute": b"<img src='data:" + b"/a=" * 300_000 + b"'>",
    "many words": b"<p>" + b"word = / " * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_refused(name):
    assert not is_affordable(HOSTILE[name])


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_pages_are_accepted_and_parse(name):
    assert is_affordable(HARMLESS[name])
    assert len(parse_trees([HARMLESS[name]])) == 1


TAGS = ["a", "b", "i", "font", "div", "p", "span", "li", "ul", "td", "table", "tr", "svg", "g", "select", "form", "x-y"]
FRAGMENTS = st.one_of(
    st.builds("<{}{}>".format, st.sampled_from(TAGS), st.sampled_from(["", " a=1", " b=2", " c=3/"])),
    st.builds("</{}>".format, st.sampled_from(TAGS)),
    st.sampled_from(["x", " ", "<!-- <p> -->", "<br>", "<style><p></style>", "<script><!--</script>"]),
)
PARTS = st.lists(st.tuples(st.lists(FRAGMENTS, max_size=6).map("".join), st.integers(1, 120)), max_size=4)


@given(PARTS)
@settings(deadline=None)
def test_what_is_let_through_makes_no_more_elements_than_it_may(parts):
    page = "".join(text.replace("=", f"={i % 7}") for text, n in parts for i in range(n)).encode()
    content = np.frombuffer(page, np.uint8)
    if len(page) and cost._follow_tags(content, cost._CODES, cost._KINDS_OF_CODES):
        # of each tag an element, a wrapper of a table and the four clones of eight rounds at the very most
        assert len(parse_trees([page]).tags) <= cost._MOST_COPIES + 40 * page.count(b"<") + 3


@given(st.binary(max_size=200), st.sampled_from([b"<p ", b"<!--", b"</", b"<script>", b"<a b='", b"<"]))
@settings(deadline=None)
def test_any_bytes_can_be_judged(noise, opening):
    page = opening + noise
    assert cost._follow_tags(np.frombuffer(page, np.uint8), cost._CODES, cost._KINDS_OF_CODES)


def test_what_is_too_small_to_be_looked_at_closely_is_bounded():
    # half of the tags made anew after each of the other half
    assert (cost._FEW_TAGS // 2) ** 2 <= 2 * cost._MOST_COPIES
    assert math.comb(cost._FEW_ATTRIBUTES, 2) <= 6 * cost._MOST_STEPS


def test_a_build_leaves_costly_pages_out_and_says_where_they_are(tmp_path):
    for name, html in {"hostile.html": HOSTILE["nested blocks"], "plain.html": b"<p>x</p>" * 100}.items():
        (tmp_path / name).write_bytes(html)
    report = treesim_dask.build([str(tmp_path)], str(tmp_path / "index"), shard=(1, 1))
    assert (report.n_pages, dict(report.skipped)) == (1, {"too-costly": 1})
    (found,) = treesim_dask.open_index(str(tmp_path / "index")).pages.compute().url
    assert found.endswith("plain.html")


@pytest.mark.parametrize("ask", [lambda html: query_from_html(html, treesim_dask.IndexConfig()), find_records])
def test_a_costly_page_is_an_error_of_its_own(ask):
    with pytest.raises(PageError, match="would take the HTML parser too much"):
        ask(HOSTILE["nested blocks"])

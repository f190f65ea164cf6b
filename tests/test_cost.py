"""Pages that would stall the parser or fill the memory are told from those that only look large."""

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
    "a format ended around many blocks": b"<b>" * 3 + b"<div>" * 20_000 + b"</b>" * 10_000,
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
    "attributes that look like tags": b"<p " + numbered(b" <br a%d", 70_000) + b">",
    "attributes made anew": b"<p><b " + numbered(b" a%d", 4000) + b">" + b"<p>x" * 3000,
    "attributes made anew behind a quoted tag": b"<p><a b='><p>' " + numbered(b" a%d", 4000) + b">" + b"<p>x" * 3000,
    "a long value made anew": b"<p><b a='" + b"x" * 500_000 + b"'>" + b"<p>x" * 3000,
    "formats and blocks, each ended around the other": numbered(b"<b a=%d>", 200) + b"<div>" * 8000 + b"</b>" * 9000,
    "cells in a drawing": b"<svg>" + b"<td>" * 40_000,
    "options": b"<select>" + b"<option>x" * 40_000,
}

# None takes more than some seconds to parse. More tags of this kind are refused where a little more would be hostile.
HARMLESS = {
    "deep spans": b"<span>" * 15_000,
    "deep unknown tags": b"<span><a-b>" * 8_000,
    "blocks 500 deep": (b"<div>" * 500 + b"x" + b"</div>" * 500) * 20,
    "blocks 5,000 deep": b"<div>" * 5000 + b"x</div>" * 5000,
    "blocks 20,000 deep": b"<div>" * 20_000,
    "equal formats": b"<p>" + b"<b>" * 1000 + b"<p>x" * 4000,
    "equal formats in items": b"<ul>" + b"<li><b>x</li>" * 10_000,
    "items without end tags": b"<ul>" + b"<li>x" * 50_000,
    "paragraphs without end tags": b"<p>x" * 50_000,
    "cells without end tags": b"<table>" + b"<tr><td><font color=red>x<td><b>y" * 500,
    "terms without end tags": b"<dl>" + b"<dt>x<dd>y" * 30_000,
    "spans without end tags": b"<div><span>x</div>" * 10_000,
    "links without end tags": numbered(b"<a href=%d>x<br>", 30_000),
    "tags in a script": b"<script>" + b"'<div>'" * 15_000 + b"</script>",
    "tags in a comment": b"<!--" + b"<div>" * 15_000 + b"-->",
    "drawings": b"<svg><path d='m0 0'/><g></g></svg>" * 8_000,
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
    _, n_copies = measure(page)
    if is_affordable(page):
        # of each tag an element, a wrapper of a table and the four clones of eight rounds at the very most
        assert len(parse_trees([page]).tags) <= min(n_copies, cost._MOST_COPIES) + 40 * page.count(b"<") + 3


def measure(page):
    """Look at a page of any size closely, as only those are that may cost much."""
    content = np.frombuffer(page, np.uint8)
    return cost._measure(content, cost._find_tags(content), cost._CODES, cost._KINDS, cost._INITIALS, True)


@given(PARTS)
@settings(deadline=None)
def test_at_first_sight_a_page_costs_no_less_than_looked_at_closely(parts):
    content = np.frombuffer("".join(text * n for text, n in parts).encode(), np.uint8)
    known = (content, cost._find_tags(content), cost._CODES, cost._KINDS, cost._INITIALS)
    assert cost._measure(*known, False)[1] >= cost._measure(*known, True)[1]


@given(st.binary(max_size=200), st.sampled_from([b"<p ", b"<!--", b"</", b"<script>", b"<a b='", b"<", b""]))
@settings(deadline=None)
def test_any_bytes_can_be_judged(noise, opening):
    page = opening + noise
    steps, n_copies = measure(page)
    assert 0 <= steps <= len(page) ** 3
    assert 0 <= n_copies <= len(page) ** 2
    content = np.frombuffer(page, np.uint8)
    whole = [at for at, byte in enumerate(page[: max(0, len(page) - 3) // 8 * 8]) if byte == 60]
    assert cost._find_tags(content).tolist() == whole


def test_a_build_leaves_costly_pages_out_and_says_where_they_are(tmp_path):
    for name, html in {"hostile.html": HOSTILE["nested blocks"], "plain.html": b"<p>x</p>" * 100}.items():
        (tmp_path / name).write_bytes(html)
    report = treesim_dask.build([str(tmp_path)], str(tmp_path / "index"), shard=(1, 1))
    assert (report.n_pages, dict(report.skipped)) == (1, {"too-costly": 1})
    (found,) = treesim_dask.open_index(str(tmp_path / "index")).pages.compute().url
    assert found.endswith("plain.html")


def test_a_batch_tells_which_pages_are_too_costly(tmp_path):
    for name, html in {"a.html": HOSTILE["nested blocks"], "b.html": b"<p>x</p>" * 100}.items():
        (tmp_path / name).write_bytes(html)
    url = str(tmp_path / "index")
    treesim_dask.build([str(tmp_path / "b.html")], url, shard=(1, 1))
    (tmp_path / "pages.txt").write_text("a.html\nb.html\n")
    index = treesim_dask.open_index(url)
    for batch in (tmp_path / "*.html", tmp_path / "pages.txt"):
        failed = []
        answers = list(
            index.search_batch(batch, on_failure=lambda name, error, told=failed: told.append((name, error)))
        )
        assert [query.place[0] for query, _ in answers] == [str(tmp_path / "b.html")]
        ((name, error),) = failed
        assert name.endswith("a.html")
        assert "would take the HTML parser too much" in str(error)
        with pytest.raises(PageError, match=r"a\.html would take the HTML parser too much"):
            list(index.search_batch(batch))


@pytest.mark.parametrize("ask", [lambda html: query_from_html(html, treesim_dask.IndexConfig()), find_records])
def test_a_costly_page_is_an_error_of_its_own(ask):
    with pytest.raises(PageError, match="would take the HTML parser too much"):
        ask(HOSTILE["nested blocks"])

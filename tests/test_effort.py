"""Pages that would stall the parser or fill the memory are told from those that only look large."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import nested_trees, to_html

from treesim_dask.dom.effort import is_parsable, parsable_pages
from treesim_dask.dom.tree import parse_trees


def numbered(form, n):
    return b"".join(form % i for i in range(n))


OPEN_FORMATS = b"<p>" + numbered(b"<b a=%d>", 1000)

# Each takes seconds to minutes, or gigabytes, to parse.
HOSTILE = {
    "formats made anew in each paragraph": OPEN_FORMATS + b"<p>x" * 1000,
    "formats made anew around blocks": OPEN_FORMATS + b"</p><div>x</div>" * 1000,
    "cells outside of a table hide no format": OPEN_FORMATS + b"<td><p>x" * 1000,
    "nested blocks": b"<div>" * 100_000,
    "end tags without a start": b"<span>" * 40_000 + b"</b>" * 40_000,
    "end tags that only seem to match": b"<span></b>" * 40_000,
    "end tags hidden in attributes": b"<div a='</div>'>" * 40_000,
    "end tags hidden in comments": b"<div><!-- ></div> -->" * 40_000,
    "a comment that ends at once": b"<!-->" + b"<div>" * 50_000,
    "foreign elements": b"<svg>" + b"<g>" * 40_000 + b"</x>" * 40_000,
    "a style that is markup": b"<svg><style>" + b"<g>" * 40_000 + b"</x>" * 40_000,
    "attributes": b"<p " + numbered(b" a%d", 40_000) + b">",
    "options": b"<select>" + b"<option>x" * 40_000,
    "formats compared with all before": numbered(b"<b a=%d>", 20_000),
}

# Each takes less than a second to parse, whatever it looks like.
HARMLESS = {
    "deep spans": b"<span>" * 100_000,
    "deep unknown tags": b"<span><a-b>" * 50_000,
    "equal formats": b"<p>" + b"<b>" * 1000 + b"<p>x" * 1000,
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
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_refused(name):
    assert not is_parsable(HOSTILE[name])


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_pages_are_accepted_and_parse(name):
    assert is_parsable(HARMLESS[name])
    assert len(parse_trees([HARMLESS[name]])) == 1


def test_batches_are_told_apart_page_by_page():
    assert parsable_pages([b"", b"<div>" * 100_000, b"<p>"]).tolist() == [True, False, True]


@given(nested_trees(), st.binary(max_size=200))
@settings(max_examples=30, deadline=None)
def test_any_bytes_can_be_judged(tree, noise):
    assert is_parsable((to_html(tree).encode() + noise + b"<i x=1><!-- --!></i>") * 300)

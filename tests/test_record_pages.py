"""Records of whole pages: selectors that select just them, their values, and how they are shown."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tracemalloc
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_pages import html_records, plant_records
from selectolax.lexbor import LexborHTMLParser
from xpath_select import select_xpath

from treesim_dask.errors import PageError
from treesim_dask.records import find_records
from treesim_dask.records.fields import record_fields
from treesim_dask.records.outline import outline_records
from treesim_dask.records.page import read_page
from treesim_dask.records.paths import Paths
from treesim_dask.records.render import format_regions, region_to_csv, regions_to_json
from treesim_dask.records.selectors import select_css, select_exactly
from treesim_dask.records.steps import Step
from treesim_dask.records.walk import Walk

SHOP = b"""<!DOCTYPE html><title>Shop</title>
<nav><ul class="menu"><li><a href="/">Home</a><li><a href="/new">New</a><li><a href="/sale">Sale</a></ul></nav>
<main id="results">
 <div class="item"><img src="1.jpg"><h2><a href="/p/1">Red <b>chair</b></a></h2><span class="price">10</span></div>
 <div class="item"><img src="2.jpg"><h2><a href="/p/2">Blue table</a></h2><span class="price">20</span></div>
 <div class="advert"><iframe></iframe></div>
 <div class="item"><img src="3.jpg"><h2><a href="/p/3">Lamp</a></h2><span class="old">40</span>
  <span class="price">30</span></div>
 <div class="item"><img src="4.jpg"><h2><a href="/p/4">Shelf</a></h2><span class="price">10</span></div>
</main><footer><p>the end</p></footer>"""


@pytest.fixture
def shop_region():
    return find_records(SHOP)[0]


def test_the_items_of_a_shop(shop_region):
    assert shop_region.n_records == 4
    assert shop_region.css == "div.item"
    assert shop_region.xpath == "//div[contains(concat(' ', normalize-space(@class), ' '), ' item ')]"
    assert shop_region.sample == "Red chair 10"
    assert shop_region.outer is None


def test_values_come_by_column_with_gaps_where_a_record_has_none(shop_region):
    assert shop_region.fields == {
        "img src": ["1.jpg", "2.jpg", "3.jpg", "4.jpg"],
        "a": ["Red chair", "Blue table", "Lamp", "Shelf"],
        "a href": ["/p/1", "/p/2", "/p/3", "/p/4"],
        "span.price": ["10", "20", "30", "10"],
        "span": ["", "", "40", ""],
    }


@st.composite
def pages_of_items(draw):
    """A list whose items hold elements of few tags, classes, texts and links, and the element ranges of its items."""
    tags, classes = (
        st.sampled_from(["p", "div", "a"]),
        st.sampled_from(["", "class=x", "class='y x'", "class='x y z w'"]),
    )
    texts, links = st.sampled_from(["", "one", "two"]), st.sampled_from(["", "href=1", "href=2", "src=' '"])
    leaf = st.builds("<{0} {1} {2}>{3}</{0}>".format, tags, classes, links, texts)
    box = st.builds("<section {}>{}</section>".format, classes, st.lists(leaf, max_size=3).map("".join))
    items = draw(st.lists(st.lists(st.one_of(leaf, box), max_size=4).map("".join), min_size=2, max_size=6))
    page = read_page("".join(f"<li>{item}</li>" for item in items).encode(), ())
    return page, [(e, page.ends[e]) for e, name in enumerate(page.names) if name == "li"]


@given(pages_of_items())
def test_values_are_those_of_a_dictionary(drawn):
    """Columns by path below the record and number among equal paths, one dictionary a record."""
    page, spans = drawn
    pairs = [{(page.names[e], c) for e in range(*span) for c in page.classes[e][:3]} for span in spans]
    shared = {pair for pair in set().union(*pairs) if sum(pair in found for found in pairs) > 1}
    rows = []
    for start, end in spans:
        row, seen, paths = {}, Counter(), {}
        for e in range(start, end):
            label = (page.names[e], *(c for c in page.classes[e][:3] if (page.names[e], c) in shared))
            paths[e] = (*paths.get(page.parents[e], ()), label)
            seen[paths[e]] += 1
            for kind, value in (("", page.texts[e]), *((k, page.attributes[e].get(k)) for k in ("href", "src"))):
                if value and value.strip():
                    row[paths[e], seen[paths[e]], kind] = value.strip()
        rows.append(row)
    columns = {column: [row.get(column, "") for row in rows] for row in rows for column in row}
    assert list(record_fields(page, spans).values()) == [c for c in columns.values() if len(set(c)) > 1]


def test_csv_reads_back(shop_region):
    rows = list(csv.reader(io.StringIO(region_to_csv([shop_region]))))
    assert rows[0] == list(shop_region.fields)
    assert [row[1] for row in rows[1:]] == shop_region.fields["a"]


def test_csv_of_a_region_that_is_not_there_says_how_many_there_are(shop_region):
    with pytest.raises(PageError, match="has 1 regions of records, got region 2"):
        region_to_csv([shop_region], 2)


def test_json_holds_every_region_and_record():
    regions = find_records(SHOP)
    plain = json.loads(regions_to_json(regions))
    assert [region["n_records"] for region in plain] == [region.n_records for region in regions]
    assert plain[0]["records"][2]["span"] == "40"


def test_the_table_names_count_coverage_and_selectors():
    text = format_regions(find_records(SHOP))
    assert re.search(r"^1  4 records, \d+ % of the page: Red chair 10$", text, re.MULTILINE)
    assert "css    div.item" in text
    assert "css    ul.menu > li" in text
    assert format_regions([]) == "no repeated records found"


def test_the_outline_marks_each_record_and_loads_nothing():
    page = SHOP.replace(b"<title>", b"<script src=x.js></script><link rel=stylesheet href=x.css><title>")
    outlined = outline_records(page, find_records(page))
    parser = LexborHTMLParser(outlined)
    marked = [node.attributes["data-record"] for node in parser.css("div.item")]
    assert marked == ["1.1", "1.2", "1.3", "1.4"]
    assert not parser.css("script, link, iframe")
    assert parser.head.child.next.attributes["content"].startswith("default-src 'none'")


def test_a_class_makes_up_for_optional_parts():
    items = [
        "<h2>a{0}</h2><p>b{0}</p>",
        "<h2>a{0}</h2><p>b{0}</p><i>c</i><svg></svg>",
        "<h2>a{0}</h2><u>d</u><label>e</label>",
    ]
    html = "".join(f"<div class='item n{i}'>{items[i % 3].format(i)}</div>" for i in range(9))
    assert find_records(html.encode())[0].css == "div.item"
    assert find_records(html.encode())[0].n_records == 9
    assert max(region.n_records for region in find_records(html.replace("item", "").encode())) < 9


def test_a_list_comes_before_menus_columns_and_paragraphs():
    """All of them cover more of the page than the list, which is what a person would name."""
    menu = "".join(f"<li><a href=/{i}>a long entry of the menu number {i}</a></li>" for i in range(30))
    items = "".join(f"<div class=item><b>item {i}</b><span>{i} euro</span></div>" for i in range(12))
    prose = "".join(f"<p>A sentence, number {i}, of a text that goes on for quite a while.</p>" for i in range(10))
    columns = [f"<ul>{menu}</ul>", f"<h1>Title</h1><section>{items}</section>{prose}", "<h2>More</h2><img src=x>"]
    regions = find_records("".join(f"<article>{column}</article>" for column in columns))
    covers = [region.coverage for region in regions]
    assert regions[0].css == "div.item"
    assert {region.n_records for region in regions} >= {3, 10, 12, 30}
    assert sum(cover > covers[0] for cover in covers) >= 3


def test_records_come_before_the_lists_inside_them():
    tags = "<ul>" + "".join(f"<li>a word of many letters {i}</li>" for i in range(9)) + "</ul>"
    items = "".join(f"<div class=item><a href=/{i}>A title that is a link {i}</a>{tags}</div>" for i in range(4))
    assert find_records(items)[0].css == "div.item"


def test_only_elements_and_text_count():
    """Comments, and processing instructions as templates of servers leave them behind, are not seen on a page."""
    items = [f"<li><a href=/{i}>Item {i}</a></li>" for i in range(4)]
    unseen = "<!-- c --><?php echo?><?p?><![CDATA[x]]>"
    plain, *others = (find_records(f"<ul>{between.join(items)}</ul>") for between in ("", "<!-- c -->", unseen))
    assert plain[0].fields["a"] == [f"Item {i}" for i in range(4)]
    assert others == [plain, plain]


@pytest.mark.parametrize("tag", ["iframe", "noembed", "noframes", "noscript", "script", "style"])
def test_text_that_browsers_do_not_show_is_none(tag):
    items = "".join(f"<li><{tag}>hidden {i}</{tag}>Item {i}</li>" for i in range(4))
    (region,) = find_records(f"<ul>{items}</ul>")
    assert list(region.fields.values()) == [[f"Item {i}" for i in range(4)]]
    assert "hidden" not in region.sample


def test_links_in_the_head_are_no_records():
    assert find_records(b"<link href=a><link href=b><link href=c><p>text") == []


def test_an_empty_page_has_no_records():
    assert find_records(b"") == []


def test_items_in_spliced_wrappers_are_selected_in_the_real_tree():
    html = b"<div>" + b"".join(b"<b><a href=/%d>item %d</a></b>" % (i, i) for i in range(4)) + b"</div>"
    [region] = find_records(html)
    assert select_css(read_page(html, ()), region.css) == {5, 7, 9, 11}
    assert select_xpath(read_page(html, ()), region.xpath) == {5, 7, 9, 11}


@given(html_records(), st.integers(3, 8), st.randoms())
def test_selectors_of_planted_records_are_exact(record, n_copies, random):
    html, first = plant_records(record, n_copies, random)
    numbered = fill_leaves(html)
    heads = {first + i * record.n_nodes for i in range(n_copies)}
    page = read_page(numbered, ())
    found = {frozenset(start for start, _ in region.spans): region for region in find_records(numbered, similarity=1)}
    region = found[frozenset(heads)]
    assert region.n_records == n_copies
    assert select_css(page, region.css) == select_xpath(page, region.xpath) == heads


def fill_leaves(html):
    """Give every element a text of its own, so that records have values that vary."""
    counter = iter(range(10**6))
    return re.sub(r"<(x-\w)>", lambda found: f"{found[0]}word {next(counter)}", html).encode()


@st.composite
def pages_and_elements(draw):
    """A page of nested elements with few ids and classes, and some of its elements."""
    n = draw(st.integers(1, 12))
    attributes = st.sampled_from(["", "class=a", "class='a b'", "class='b:c 1d'", "id=x", "id='1'", 'class="it\'s"'])
    html = "".join(
        f"<{draw(st.sampled_from(['div', 'p', 'x-y', 'svg']))} {draw(attributes)}>"
        + draw(st.sampled_from(["", "</div>"]))
        for _ in range(n)
    )
    page = read_page(html.encode(), ())
    return page, draw(st.lists(st.integers(3, len(page.elements) - 1), min_size=1, max_size=4, unique=True).map(sorted))


@given(pages_and_elements())
def test_any_elements_are_selected_exactly(drawn):
    page, elements = drawn
    selector = select_exactly(page, elements)
    assert select_css(page, selector.css()) == set(elements)
    assert select_xpath(page, selector.xpath()) == set(elements)


@given(pages_and_elements())
def test_xpath_means_the_same_to_lxml(drawn):
    """The HTML5 tree handed to lxml's XPath engine: the engine is the peer, the tree is the one the XPath is for."""
    etree = pytest.importorskip("lxml.etree")
    page, elements = drawn
    nodes = []
    for number, element in enumerate(page.elements):
        attributes = {name: value or "" for name, value in element.attributes.items()}
        parent = page.parents[number]
        nodes.append(
            etree.Element(element.tag, attributes)
            if parent < 0
            else etree.SubElement(nodes[parent], element.tag, attributes)
        )
    selected = nodes[0].getroottree().xpath(select_exactly(page, elements).xpath())
    assert {nodes.index(node) for node in selected} == set(elements)


def test_case_counts_in_xpath_and_not_in_css_of_old_pages():
    page = read_page(b"<ul><li class=Item>1<li class=item>2<li class=item>3</ul>", ())
    selector = select_exactly(page, [5, 6])
    assert select_css(page, selector.css()) == select_xpath(page, selector.xpath()) == {5, 6}


def test_large_pages_are_walked_in_proportion_to_their_size():
    """Counted, not timed: elements looked at while the selectors of a page are chosen."""
    counts = []
    for n_sections in (40, 80):
        sections = (f"<section><h2>{i}</h2>{f'<p><b>{i}</b></p>' * 8}</section>" for i in range(n_sections))
        page = read_page("".join(sections).encode(), ())
        names = CountingNames(page.names)
        page = replace(page, names=names)
        paths = Paths(page)
        for start, end in zip(range(3, len(names), 18), range(21, len(names) + 1, 18), strict=True):
            paragraphs = [e for e in range(start, end) if page.names[e] == "p"]
            assert select_css(page, select_exactly(page, paragraphs, paths).css()) == set(paragraphs)
        counts.append(names.n_looked_at)
    assert counts[1] < 2.2 * counts[0]


def test_pages_nested_deeper_than_calls_may_be_are_read():
    """A path as long, and two lists at the ends of ways as long: each is selected, and nothing else."""
    items = "".join(f"<li>item {i}</li>" for i in range(4))
    n_deep = 2 * sys.getrecursionlimit()
    for html in ("<div>" * n_deep + items, ("<div>" * n_deep + items + "</div>" * n_deep) * 2):
        page = read_page(html.encode(), ())
        wanted = [element for element, name in enumerate(page.names) if name == "li"]
        selector = select_exactly(page, wanted)
        assert Walk(page).selects(selector.paths, set(wanted))


def test_the_memory_of_a_path_grows_with_its_length():
    """Paths to all elements on the way down would take its square: 70 MB here."""
    page = read_page(b"<div>" * 4_000, ())
    paths = Paths(page)
    tracemalloc.start()
    path = paths.path(len(page.names) - 1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(path) > 4_000
    assert most < 1_000 * len(path)


class CountingNames(list):
    """The tags of a page, counting how often one is looked at."""

    n_looked_at = 0

    def __getitem__(self, element):
        self.n_looked_at += 1
        return super().__getitem__(element)


def test_names_are_escaped_as_css_asks():
    assert Step("div", id="1", classes=("w-1/2", "md:flex", "-3")).css() == r"div#\31 .w-1\/2.md\:flex.-\33 "


@pytest.mark.parametrize(
    "before",
    [b"<!-- <head> <body> --><html>", b"<html title='<head><body>'>", b"<html><head title='>'><body class='a>b'>"],
)
def test_no_page_hides_the_policy_of_its_outline(before):
    page = before + b"<ul><li>One<li>Two<li>Three</ul>"
    outlined = outline_records(page, find_records(page))
    parser = LexborHTMLParser(outlined)
    first = parser.css("head > *")[1]
    assert first.attributes["http-equiv"] == "Content-Security-Policy"
    assert outlined.index("Content-Security-Policy") < outlined.index("<html")
    assert parser.css_first("body > #treesim-legend") is not None
    assert len(parser.css("li[data-record]")) == 3


@pytest.mark.parametrize("name", ["a\u00a0b", "x\x0by", "1st", "\u00e9t\u00e9", "a:b", "-", "\x7f"])
def test_odd_class_names_are_selected_or_left_aside(name):
    html = f'<div class="{name}"><p>1</p><hr><p>2</p><hr><p>3</p></div>'.encode()
    regions = find_records(html, min_coverage=0)
    assert regions
    for region in regions:
        assert len(LexborHTMLParser(html).css(region.css)) == region.n_records


@pytest.mark.parametrize(
    "html",
    [
        b"<body>" + b"".join(b"<x'y>item %d</x'y>" % i for i in range(5)),
        b"<body><ul>" + b"".join(b"<li class='a\x0cb'><p>item %d</p></li>" % i for i in range(5)) + b"<li class=c>x",
        b"<!doctype html><body>"
        + b"".join(b"<div><li class='rec\x0cb'>item %d</li></div><span></span>" % i for i in range(5))
        + b"<li>q",
    ],
)
def test_quotes_in_tags_and_form_feeds_between_classes_select_the_same_both_ways(html):
    regions, page = find_records(html), read_page(html, ())
    assert regions
    for region in regions:
        assert select_xpath(page, region.xpath) == select_css(page, region.css)

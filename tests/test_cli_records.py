"""The records command as a user meets it: where the page is from, how the records are shown, what is refused."""

import csv
import io
import json
import subprocess
import sys

import pytest
from commands import assert_refused, run
from crawl_server import Site, serve
from selectolax.lexbor import LexborHTMLParser

import treesim_dask
from treesim_dask import open_index

ITEMS = "".join(f"<div class=item><img src={i}.jpg><h2><a href=/p/{i}>Stück {i}</a></h2></div>" for i in range(1, 6))
SHOP = f"<!DOCTYPE html><title>Läden</title><main>{ITEMS}</main><footer><p>Ende</p></footer>"


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.html"
    path.write_text(SHOP, encoding="utf-8")
    return path


def test_the_table_names_count_selectors_and_text(shop, capsys):
    code, out, err = run(capsys, "records", shop)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("1  5 records, ")
    assert out.splitlines()[0].endswith("of the page: Stück 1")
    assert "css    div.item" in out


def test_json_and_csv(shop, capsys):
    _, out, _ = run(capsys, "records", shop, "--json")
    [region] = json.loads(out)
    assert region["n_records"] == 5
    assert len(LexborHTMLParser(SHOP).css(region["css"])) == 5
    assert region["records"][4] == {"img src": "5.jpg", "a": "Stück 5", "a href": "/p/5"}
    for options in (("--csv",), ("--csv", 1)):
        _, out, _ = run(capsys, "records", shop, *options)
        assert [row["a"] for row in csv.DictReader(io.StringIO(out))] == [f"Stück {i}" for i in range(1, 6)]


def test_the_outlined_page(shop, tmp_path, capsys):
    path = tmp_path / "outlined.html"
    code, out, err = run(capsys, "records", shop, "--html", path)
    assert (code, out) == (0, "")
    assert "1 regions outlined" in err
    parser = LexborHTMLParser(path.read_text(encoding="utf-8"))
    assert [node.attributes["data-record"] for node in parser.css("div.item")] == [f"1.{i}" for i in range(1, 6)]
    assert "Stück 3" in parser.body.text()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("declares", [True, False])
def test_text_is_read_in_the_encoding_of_the_page(encoding, declares, tmp_path, capsys, monkeypatch):
    label = {"latin-1": "iso-8859-1", "utf-8-sig": "utf-8", "cp1252": "windows-1252"}.get(encoding, encoding)
    html = SHOP.replace("<title>", f"<meta charset={label}><title>") if declares else SHOP
    (tmp_path / "page.html").write_bytes(html.encode(encoding))
    _, out, _ = run(capsys, "records", tmp_path / "page.html", "--json")
    assert json.loads(out)[0]["sample"] == "Stück 1"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(html.encode(encoding))))
    _, out, _ = run(capsys, "records", "-", "--json")
    assert json.loads(out)[0]["sample"] == "Stück 1"


@pytest.mark.parametrize(
    ("encoding", "label", "word"),
    [
        ("koi8-r", "koi8-r", "Стол"),
        ("cp932", "Shift_JIS", "机①"),
        ("gb18030", "gb2312", "桌子"),
        ("cp949", "euc-kr", "책상"),
    ],
)
def test_other_scripts(encoding, label, word, tmp_path, capsys):
    html = SHOP.replace("<title>", f"<meta charset={label}><title>").replace("Stück", word).replace("Läden", "")
    (tmp_path / "page.html").write_bytes(html.encode(encoding))
    _, out, _ = run(capsys, "records", tmp_path / "page.html", "--json")
    assert json.loads(out)[0]["sample"] == f"{word} 1"


def test_pages_of_the_web_are_read_by_their_header(capsys):
    html = SHOP.replace("Stück", "Стол").replace("Läden", "").encode("koi8-r")
    headers = {"Content-Type": "text/html; charset=koi8-r"}
    with serve(Site(files={"/shop": html}, headers={"/shop": headers})) as site:
        code, out, err = run(capsys, "records", f"{site.url}/shop", "--json")
    assert code == 0, err
    assert json.loads(out)[0]["sample"] == "Стол 1"


def test_pages_of_archives_and_of_an_index(demo_index, capsys):
    index = open_index(demo_index)
    pages = index.segments[0].read_pages(columns=["warc", "offset"]).to_pylist()
    shown = {}
    for row in range(30):
        page_id = f"id:{index.segments[0].segment_id}-{row}"
        code, out, _ = run(capsys, "records", page_id, "--index", demo_index, "--json")
        place = f"warc:{pages[row]['warc']}#{pages[row]['offset']}"
        assert run(capsys, "records", place, "--json")[:2] == (code, out)
        shown[row] = json.loads(out)
    assert any(regions and regions[0]["n_records"] >= 3 for regions in shown.values())


def test_the_page_itself_is_not_written_over(shop, capsys):
    before = shop.read_bytes()
    assert_refused(run(capsys, "records", shop, "--html", shop), "write over the page itself")
    assert shop.read_bytes() == before


def test_no_records_is_exit_code_1(tmp_path, capsys):
    (tmp_path / "page.html").write_text("<h1>One</h1><p>paragraph</p>")
    code, out, err = run(capsys, "records", tmp_path / "page.html")
    assert (code, out) == (1, "")
    assert "no repeated records found" in err
    code, out, _ = run(capsys, "records", tmp_path / "page.html", "--json")
    assert (code, json.loads(out)) == (1, [])
    assert run(capsys, "records", tmp_path / "page.html", "--csv")[:2] == (1, "")


def test_bounds_on_regions(shop, capsys):
    assert run(capsys, "records", shop, "--min-records", 6)[0] == 1
    assert run(capsys, "records", shop, "--min-coverage", 1)[0] == 1
    assert run(capsys, "records", shop, "--min-records", 5, "--similarity", 1)[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("nowhere.html",), ("there is no file nowhere.html", "id:PAGE_ID")),
        (("id:0123456789abcdef-1",), ("--index",)),
        (("warc:nothing",), ("warc:FILE#OFFSET",)),
        (("warc:nowhere.warc.gz#7",), ("nowhere.warc.gz",)),
        (("page.html", "--min-records", 1), ("--min-records must be at least 2",)),
        (("page.html", "--similarity", 0), ("--similarity",)),
        (("page.html", "--min-coverage", 2), ("--min-coverage",)),
        (("--csv", "page.html"), ("'page.html' is no number of a region: give the page before --csv",)),
        (("page.html", "--json", "--csv"), ("not allowed with",)),
        ((), ("PAGE",)),
    ],
)
def test_mistakes_are_refused_on_one_line(options, words, capsys):
    assert_refused(run(capsys, "records", *options), *words)


def test_more_mistakes(shop, demo_index, tmp_path, capsys):
    assert_refused(run(capsys, "records", shop, "--csv", 7), "has 1 regions", "got region 7")
    assert_refused(run(capsys, "records", shop, "--html", tmp_path / "no" / "x.html"), "cannot write")
    (tmp_path / "empty.html").write_text("  ")
    assert_refused(run(capsys, "records", tmp_path / "empty.html"), "is empty")
    assert_refused(run(capsys, "records", tmp_path), "is a folder")
    assert_refused(run(capsys, "records", "id:nonsense", "--index", demo_index), "a page id looks like")
    assert_refused(run(capsys, "records", f"id:{'0' * 16}-1", "--index", demo_index), "there is no page")


def test_the_package_offers_find_records_and_loads_it_late():
    assert treesim_dask.find_records(SHOP)[0].fields["a"][0] == "Stück 1"
    assert treesim_dask.find_records(SHOP.encode("latin-1"))[0].fields["a"][0] == "Stück 1"
    script = "import sys, treesim_dask; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert {"selectolax", "numpy", "numba"} & set(loaded) == set()

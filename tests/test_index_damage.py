"""A damaged index: `check` names every broken file, whatever is in it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from indexes import all_pages, random_sources, write_index

from treesim_dask import build, compact, open_index
from treesim_dask.cli import main

SOURCES = random_sources(seed=9, n_sources=2, n_pages=20)
PAGES = all_pages(SOURCES)


@pytest.fixture
def folder(tmp_path):
    write_index(tmp_path / "index", SOURCES)
    return tmp_path / "index"


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("content", ["", "{}", "[]", '{"segment_id": 3}'])
def test_check_names_a_broken_summary(folder, capsys, is_compacted, content):
    if is_compacted:
        compact(str(folder))
    summary = sorted(folder.glob("segments/*/segment.json"))[0]
    summary.write_text(content)
    assert main(["check", str(folder), "--json"]) == 1
    assert [p["path"] for p in json.loads(capsys.readouterr().out)] == [str(summary.relative_to(folder))]


@pytest.mark.parametrize("field", ["files", "compaction"])
def test_check_goes_on_after_a_summary_of_odd_values(folder, capsys, field):
    compact(str(folder))
    (summary,) = folder.glob("segments/*/segment.json")
    summary.write_text(json.dumps({**json.loads(summary.read_text()), field: {"a": 1}}))
    assert main(["check", str(folder), "--json"]) == 1
    assert summary.parent.name in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "{}", '{"deleted": []}'])
def test_check_names_a_broken_tombstone(folder, capsys, content):
    open_index(str(folder)).delete(page_ids=[PAGES[0]["page_id"]])
    assert main(["check", str(folder)]) == 0
    (tombstone,) = folder.glob("deleted/*.json")
    tombstone.write_text(content)
    capsys.readouterr()
    assert main(["check", str(folder), "--json"]) == 1
    assert [p["path"] for p in json.loads(capsys.readouterr().out)] == [f"deleted/{tombstone.name}"]
    assert main(["info", str(folder)]) == 2
    assert tombstone.name in capsys.readouterr().err


def assert_refused(capsys, name, *command):
    """One line that names the file, no traceback."""
    assert main(list(map(str, command))) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert name in line
    assert "check" in line


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("name", ["pages.parquet", "bands*.parquet", "signatures/c/0/0", "branches/branch/c/0"])
@pytest.mark.parametrize("damage", ["missing", "cut", "garbled"])
def test_a_damaged_file_is_named_in_one_line(folder, capsys, is_compacted, name, damage):
    if is_compacted:
        compact(str(folder))
        name = {"bands*.parquet": "bands/0*.parquet"}.get(name, f"parts/00000/{name}")
    for path in sorted(folder.glob(f"segments/*/{name}")):
        content = path.read_bytes()
        path.unlink()
        if damage == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "garbled":
            path.write_bytes(bytes(len(content)))
    page = f"id:{PAGES[0]['page_id']}"
    options = ["--fill", "-k", "400"] if "signatures" in name else []
    assert_refused(capsys, path.name, "query", page, "--index", folder, *options)
    assert main(["check", str(folder)]) == 1
    assert "made again" in capsys.readouterr().err


@pytest.mark.parametrize("n_queries", ["0", "-3"])
def test_eval_wants_queries(folder, tmp_path, capsys, n_queries):
    lines = [f"{page['url']},a" for page in PAGES]
    (tmp_path / "labels.csv").write_text("\n".join(["url,template", *lines]))
    labels = ["--labels", str(tmp_path / "labels.csv"), "--quiet"]
    assert main(["eval", str(folder), *labels, "--queries", n_queries]) == 2
    assert "at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("is_compacted", [False, True])
def test_positions_that_lead_out_of_an_index_are_refused(tmp_path, is_compacted):
    html = "<html><body>" + "<div><p>word</p><ul><li>a<li>b</ul></div>" * 20
    (tmp_path / "saved").mkdir()
    for number in range(12):
        (tmp_path / "saved" / f"{number}.html").write_text(html + "<h2>x</h2>" * (number // 2))
    folder = tmp_path / "index"
    build([str(tmp_path / "saved")], str(folder), shard=(1, 1))
    if is_compacted:
        compact(str(folder))
    (folder / "page.html").write_text(html)
    command = [sys.executable, str(Path(__file__).with_name("damaged_index.py")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    first, *changed, last = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert first == last
    assert first.startswith("answered")
    assert len(changed) >= 6
    assert all(line.startswith(f"refused: {folder}/segments/") for line in changed), done.stdout

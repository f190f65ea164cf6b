"""A damaged index: `check` names every broken file, whatever is in it."""

import json

import pytest
from indexes import all_pages, random_sources, write_index

from treesim_dask import compact, open_index
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

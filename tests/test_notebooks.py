"""Every notebook, from top to bottom, against the real services."""

import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from services.ports import wait_until

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
_LONGEST_CELL = 10


def cells(path):
    return json.loads(path.read_text())["cells"]


def run(name, folder, monkeypatch):
    """Run a notebook in a folder of its own and return the text of all its outputs."""
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parent), prepend=os.pathsep)
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return [
        output.get("text") or "".join(output.get("data", {}).get("text/plain", ""))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.get("name") != "stderr"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_clean(path):
    for cell in cells(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
            assert len(cell["source"]) <= _LONGEST_CELL
    assert cells(path)[0]["cell_type"] == "markdown"


def test_every_notebook_is_run():
    assert {f"test_{path.stem}" for path in NOTEBOOKS} <= globals().keys()


@pytest.mark.notebook
def test_first_index(tmp_path, monkeypatch):
    outputs = run("first_index", tmp_path, monkeypatch)
    assert any("1,000 pages" in text for text in outputs)
    assert any("template" in text and "0" in text for text in outputs)


@pytest.mark.notebook
def test_families(tmp_path, monkeypatch):
    outputs = run("families", tmp_path, monkeypatch)
    assert any("angle in degrees" in text for text in outputs)
    figures = next(text for text in outputs if "foretold" in text and "measured" in text)
    recalls = [float(word) for word in re.search(r"recall\s+(\S+)\s+(\S+)", figures).groups()]
    assert recalls[0] == pytest.approx(recalls[1], rel=0.05)


@pytest.mark.notebook
def test_records(tmp_path, monkeypatch):
    outputs = run("records", tmp_path, monkeypatch)
    assert any("12 records" in text and "css    div.item" in text for text in outputs)
    assert (tmp_path / "records.html").exists()


@pytest.mark.notebook
@pytest.mark.s3
def test_crawl_on_s3(s3_service, tmp_path, monkeypatch):
    options = s3_service.options()
    monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint_url"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret"])
    outputs = run("crawl_on_s3", tmp_path, monkeypatch)
    assert "([], [])" in outputs
    assert outputs[-1] == "4"
    assert not any(options["secret"] in text for text in outputs)


@pytest.mark.notebook
@pytest.mark.slurm
def test_hpc_cluster(tmp_path, monkeypatch, slurm_service):
    for name, value in {"INTERFACE": "lo", "MEMORY": "2GB", "LOG_DIRECTORY": str(tmp_path)}.items():
        monkeypatch.setenv(f"DASK_JOBQUEUE__SLURM__{name}", value)
    outputs = run("hpc_cluster", tmp_path, monkeypatch)
    assert any("#SBATCH" in text for text in outputs)
    assert any("400 pages" in text for text in outputs)
    wait_until("no job is left in the queue", lambda: not slurm_service.jobs(), 15)

"""The command line as a user meets it: results, exit codes, and one clear line for every mistake."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet
import pytest
from commands import assert_refused, run

import treesim_dask


@pytest.fixture
def page_id(demo_index):
    segment = sorted(path.name for path in Path(demo_index, "segments").iterdir())[0]
    return f"id:{segment}-0"


def test_build_query_info_check_eval(demo_archives, demo_crawl, tmp_path, capsys):
    index = tmp_path / "my.index"
    code, out, _ = run(capsys, "build", *demo_archives[:2], "--index", index, "--workers", 1, "--quiet")
    assert code == 0
    assert "200" in out
    code, out, _ = run(capsys, "info", index, "--json")
    assert (code, json.loads(out)["n_pages"]) == (0, 200)
    code, out, _ = run(capsys, "info", index)
    assert "25 bands of 5 rows" in out
    code, out, _ = run(capsys, "check", index)
    assert (code, "every file as it was written" in out) == (0, True)
    code, out, _ = run(
        capsys, "eval", index, "--labels", demo_crawl / "labels.csv", "--json", "--min-pages", 3, "-k", 2, "--quiet"
    )
    assert code == 0
    figures = json.loads(out)
    assert figures["recall"] > 0.9
    assert figures["precision"] > 0.9
    code, out, _ = run(capsys, "eval", index, "--labels", demo_crawl / "labels.csv", "--queries", 20, "--min-pages", 3)
    assert "R-precision" in out


def test_the_demo_ends_in_a_ranked_answer(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "demo", "--pages", 300, "--files", 2, "--workers", 1)
    assert code == 0
    rows = [line.split() for line in out.split("rank ")[1].splitlines()[1:] if line]
    assert [row[0] for row in rows] == [str(rank) for rank in range(1, len(rows) + 1)]
    assert rows[0][1] == "1.0000"
    assert rows[0][3] == rows[1][3]  # the templates of the first two
    assert run(capsys, "demo", "--pages", 300, "--files", 2, "--workers", 1)[0] == 0  # and again
    assert run(capsys, "compact", "demo-crawl/index", "--quiet")[0] == 0
    code, compacted, _ = run(capsys, "demo", "--pages", 300, "--files", 2, "--workers", 1)
    assert code == 0
    urls = [[line.split()[-1] for line in text.split("rank ")[1].splitlines()[1:] if line] for text in (out, compacted)]
    assert urls[0] == urls[1]


def test_query_formats(demo_index, page_id, tmp_path, capsys):
    _, table, _ = run(capsys, "query", page_id, "-k", 3, "--index", demo_index)
    assert table.splitlines()[0].split() == ["rank", "score", "cosine", "jaccard", "bands", "url", "page"]
    assert len(table.splitlines()) == 4
    _, text, _ = run(capsys, "query", page_id, "-k", 3, "--json", "--index", demo_index)
    (answer,) = json.loads(text)
    assert [match["rank"] for match in answer["matches"]] == [1, 2, 3]
    assert answer["n_candidates"] >= 3
    _, text, _ = run(capsys, "query", page_id, page_id, "-k", 3, "--csv", "--index", demo_index)
    assert [row["rank"] for row in csv.DictReader(io.StringIO(text))] == 2 * ["1", "2", "3"]
    code, out, _ = run(capsys, "query", page_id, "-k", 3, "--parquet", tmp_path / "m.parquet", "--index", demo_index)
    assert (code, out) == (0, "")
    table = pyarrow.parquet.read_table(tmp_path / "m.parquet")
    assert table.column("url").to_pylist() == [match["url"] for match in answer["matches"]]


@pytest.mark.parametrize("how", [[], ["--json"], ["--csv"], ["--batch"]])
def test_a_query_without_matches_says_so(demo_index, tmp_path, capsys, how):
    alien = tmp_path / "alien.html"
    alien.write_text("<table><tr><td><svg><g><path/></g></svg></td></tr></table>" * 3)
    code, _, err = run(capsys, "query", *how, alien, "--index", demo_index, "--host", "nowhere.example", "--quiet")
    assert (code, err.count("no match")) == (0, 1)


def test_other_hosts_needs_a_page_with_a_host(demo_index, tmp_path, capsys):
    page = tmp_path / "page.html"
    page.write_text("<ul><li>a</li></ul>")
    refused = run(capsys, "query", page, "--other-hosts", "--index", demo_index)
    assert_refused(refused, str(page), "--other-hosts")


def test_query_leaves_itself_out_and_reads_standard_input(demo_index, page_id, capsys, monkeypatch):
    _, text, _ = run(capsys, "query", page_id, "--json", "--no-self", "--index", demo_index)
    assert not any(match["is_query"] for match in json.loads(text)[0]["matches"])
    html = io.BytesIO(b"<table>" + b"<tr><td>a<td>b" * 20)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(html))
    code, _, _ = run(capsys, "query", "-", "--index", demo_index)
    assert code == 0


def test_help_has_examples(capsys):
    for command in ("build", "query", "records", "info", "check", "eval", "tune", "demo"):
        code, out, _ = run(capsys, command, "--help")
        assert code == 0
        assert "examples:\n  python -m treesim_dask" in out


def test_an_unknown_option_leads_to_the_help_of_its_command(capsys):
    assert run(capsys, "query", "a.html", "--index", "i", "--topp", 3)[::2] == (
        2,
        "python -m treesim_dask query: unrecognized arguments: --topp 3 (see python -m treesim_dask query --help)\n",
    )


def test_help_and_import_load_nothing_heavy():
    script = "import sys, treesim_dask.cli as c; c.make_parser().format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    heavy = {"numpy", "pandas", "pyarrow", "zarr", "numba", "dask", "distributed", "selectolax", "warcio", "fsspec"}
    assert heavy & set(loaded) == set()


def test_a_local_query_loads_no_dask_and_no_pandas(demo_index, page_id):
    script = (
        "import sys; from treesim_dask.cli import main; "
        f"main(['query', '{page_id}', '--index', '{demo_index}']); print(*sys.modules)"
    )
    command = [sys.executable, "-c", script]
    subprocess.run(command, check=True, capture_output=True)  # may have loops to compile, which loads more
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert {"distributed", "pandas", "scipy.sparse"} & set(loaded) == set()


@pytest.fixture
def archive(demo_archives):
    return demo_archives[0]


def test_wrong_inputs_of_build(archive, tmp_path, capsys):
    index = tmp_path / "index"
    (tmp_path / "empty-folder").mkdir()
    (tmp_path / "empty.warc.gz").write_bytes(b"")
    (tmp_path / "not-a.warc.gz").write_bytes(os.urandom(2000))
    (tmp_path / "notes.doc").write_bytes(b"\x00\x01 some text" * 50)
    (tmp_path / "list.txt").write_text("\n\n")
    cases = {
        "missing.warc.gz": "missing.warc.gz",
        str(tmp_path / "empty-folder"): "empty-folder",
        str(tmp_path / "empty.warc.gz"): "0 bytes",
        str(tmp_path / "not-a.warc.gz"): "not-a.warc.gz",
        str(tmp_path / "notes.doc"): "notes.doc",
        str(tmp_path / "list.txt"): "list.txt",
        str(tmp_path / "*.nothing"): "*.nothing",
        "gopher://example.org/x.warc.gz": "gopher",
    }
    for path, word in cases.items():
        assert_refused(run(capsys, "build", path, "--index", index, "--quiet"), word)
        assert not index.exists(), path


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--bands", 7, "--rows", 0], "--rows must be"),
        (["--bands", "x"], "--bands"),
        (["--threshold", 2], "threshold"),
        (["--threshold", 0.7, "--bands", 7], "not both"),
        (["--probability", 0.9], "--threshold"),
        (["--url-regex", "("], "regular expression"),
        (["--min-bytes", 9, "--max-bytes", 8], "--min-bytes"),
        (["--workers", 0], "workers"),
        (["--workers", 1, "--scheduler", "tcp://x:1"], "only one"),
        (["--storage-option", "novalue"], "KEY=VALUE"),
        (["--limit", 0], "limit"),
        (["--sample", -1], "sample"),
        (["--seed", -1], "seed"),
        (["--scheduler", "tcp://127.0.0.1:1"], "no Dask scheduler"),
        (["--scheduler-file", "missing.json"], "missing.json"),
    ],
)
def test_wrong_options_of_build(archive, options, word, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("treesim_dask.clients._CONNECT_SECONDS", 1)
    index = tmp_path / "index"
    assert_refused(run(capsys, "build", archive, "--index", index, "--quiet", *options), word)
    assert not index.exists()


def test_an_index_path_that_is_a_file(archive, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for argv in (["build", archive, "--index"], ["info"], ["check"], ["query", "x.html", "--index"]):
        assert_refused(run(capsys, *argv, tmp_path / "file"), "is a file")
    assert_refused(run(capsys, "build", archive, "--index", tmp_path / "file" / "index"), "cannot write")
    assert (tmp_path / "file").read_text() == "mine"


def test_an_index_with_other_parameters_is_left_alone(archive, demo_index, tmp_path, capsys, tree_digest):
    shutil.copytree(demo_index, tmp_path / "index")
    result = run(capsys, "build", archive, "--index", tmp_path / "index", "--bands", 3)
    assert_refused(result, "--bands 25 and 3")
    assert tree_digest(tmp_path / "index") == tree_digest(demo_index)


def test_missing_and_damaged_indexes(archive, demo_index, tmp_path, capsys):
    assert_refused(run(capsys, "info", tmp_path / "nowhere"), "no index", "build")
    shutil.copytree(demo_index, tmp_path / "index")
    manifest = tmp_path / "index" / "index.json"
    whole = manifest.read_text()
    for damage, word in [
        ("{", "not JSON"),
        ("[]", "JSON object"),
        ("{}", "does not describe"),
        (whole.replace('"n_rows": 5', '"n_rows": 6'), "fingerprint"),
        (whole.replace('"format_version": 1', '"format_version": 99'), "format 99"),
        (whole.replace('"n_rows": 5', '"n_columns": 5'), "damaged"),
    ]:
        manifest.write_text(damage)
        assert_refused(run(capsys, "info", tmp_path / "index"), word)
        assert_refused(run(capsys, "build", archive, "--index", tmp_path / "index"), word)


def test_no_permission(archive, capsys, tmp_path):
    if os.geteuid() == 0:
        place = Path("/sys/treesim")  # even root makes no folder there
    else:
        (tmp_path / "locked").mkdir(mode=0o555)
        place = tmp_path / "locked" / "index"
    assert_refused(run(capsys, "build", archive, "--index", place, "--quiet"), "permission denied")


@contextmanager
def small_disk(folder, size):
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk(demo_archives, tmp_path, capsys):
    with small_disk(tmp_path / "disk", "100k") as disk:
        index = disk / "index"
        command = ["build", *demo_archives, "--index", index, "--workers", 1, "--quiet"]
        assert_refused(run(capsys, *command), "no space left")
        assert not index.exists()


def test_no_space_for_the_output(demo_index, page_id):
    command = [sys.executable, "-m", "treesim_dask", "query", page_id, "--json", "--index", demo_index]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == ["python -m treesim_dask query: no space left for the output"]


def test_nowhere_to_keep_compiled_code(demo_index, page_id, tmp_path):
    """As for a service user without a home, with the package in a read-only place."""
    package = Path(treesim_dask.__file__).parent
    shutil.copytree(package, tmp_path / "treesim_dask", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tmp_path / "treesim_dask").rglob("*.py"):
        (path.parent / "__pycache__").touch()  # a file in the way: not even root can make that folder
    environment = {**os.environ, "HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "treesim_dask", "query", page_id, "--json", "--index", str(demo_index)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_plan_that_cannot_be_saved(demo_archives, tmp_path, capsys):
    result = run(capsys, "plan", demo_archives[0], "--save", tmp_path / "missing" / "plan.json")
    assert_refused(result, "cannot write the plan")


def test_wrong_pages_of_query(demo_index, demo_archives, tmp_path, capsys):
    (tmp_path / "empty.html").write_text(" ")
    (tmp_path / "picture.html").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    for page, word in [
        ("missing.html", "no file"),
        (str(tmp_path), "--batch"),
        (str(demo_archives[0]), "--batch"),
        (str(tmp_path / "picture.html"), "no HTML"),
        (str(tmp_path / "empty.html"), "empty"),
        ("id:xyz", "page id"),
        ("id:0123456789abcdef-1", "no page"),
        ("warc:x.warc.gz", "warc:FILE#OFFSET"),
        ("warc:missing.warc.gz#0", "missing.warc.gz"),
        ("http://127.0.0.1:1/", "127.0.0.1:1"),
        ("ftp://example.org/", "ftp"),
        ("http://", "http://"),
    ]:
        assert_refused(run(capsys, "query", page, "--index", demo_index), word)
    assert_refused(run(capsys, "query", "-k", 0, "id:x", "--index", demo_index), "k must be at least 1")
    assert_refused(run(capsys, "query", "--metric", "euclid", "id:x", "--index", demo_index), "log-cosine")
    assert_refused(run(capsys, "query", "id:x"), "--index")


def test_wrong_labels_of_eval(demo_index, tmp_path, capsys):
    (tmp_path / "labels.csv").write_text("url,kind\na,b\n")
    assert_refused(run(capsys, "eval", demo_index, "--labels", tmp_path / "labels.csv"), "no column template")
    assert_refused(run(capsys, "eval", demo_index, "--labels", tmp_path / "none.csv"), "none.csv")
    (tmp_path / "labels.csv").write_text("url,template\na,b\n")
    assert_refused(run(capsys, "eval", demo_index, "--labels", tmp_path / "labels.csv"), "do the URLs agree")


def test_commands_that_do_not_exist(capsys):
    assert_refused(run(capsys, "bulid"), "bulid")
    assert_refused(run(capsys), "COMMAND")


def test_a_build_says_what_it_replaces(demo_archives, tmp_path, capsys):
    build = ("build", demo_archives[0], "--index", tmp_path / "my.index", "--shard", "1/1", "--quiet")
    assert "replaced" not in run(capsys, *build)[1]
    code, out, _ = run(capsys, *build, "--min-bytes", 5000)
    assert (code, "replaced       1 files" in out) == (0, True)


def test_a_script_without_a_guard_is_told_so(demo_archives, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"import treesim_dask\ntreesim_dask.build({str(demo_archives[0])!r}, {str(tmp_path / 'i')!r}, workers=1)"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'in a script, call this below `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]

"""Broken archives never stop a build: what is whole is indexed, what is not is counted with its place."""

import json
from pathlib import Path

from treesim_dask import build, open_index
from treesim_dask.cli import main


def damaged_archives(folder, demo_archives):
    """A truncated archive, one with a flipped byte in the middle, a useless one, and a whole one."""
    whole = [Path(path).read_bytes() for path in demo_archives]
    flipped = bytearray(whole[1])
    flipped[len(flipped) // 2] ^= 0xFF
    contents = {"cut": whole[0][: len(whole[0]) * 2 // 3], "flipped": bytes(flipped), "whole": whole[2]}
    for name, content in contents.items():
        (folder / f"{name}.warc.gz").write_bytes(content)
    return [str(folder / f"{name}.warc.gz") for name in contents]


def test_damage_is_counted_and_named(demo_archives, client, tmp_path, capsys):
    archives = damaged_archives(tmp_path, demo_archives)
    index = str(tmp_path / "index")
    report = build(archives, index, client=client)
    assert report.n_done == 3
    assert not report.failures
    assert {warc for _, warc, _ in report.damage} == set(archives[:2])
    assert 100 + 99 + 60 <= report.n_pages < 300
    assert open_index(index).check() == []
    skipped = [segment.read_skipped().to_pylist() for segment in open_index(index).segments]
    places = {(row["warc"], row["offset"]) for rows in skipped for row in rows}
    assert {(warc, offset) for _, warc, offset in report.damage} <= places


def test_strict_makes_damage_an_error(demo_archives, tmp_path, capsys):
    archives = damaged_archives(tmp_path, demo_archives)
    index = tmp_path / "index"
    code = main(["build", *archives, "--strict", "--index", str(index), "--workers", "1", "--quiet"])
    err = capsys.readouterr().err
    assert code == 2
    assert err.count("is damaged at offset") == 2
    assert open_index(str(index)).info.n_segments == 1
    code = main(["build", archives[0], "--strict", "--index", str(tmp_path / "other"), "--workers", "1", "--quiet"])
    assert code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "other").exists()


def test_a_file_without_pages_is_named(demo_archives, tmp_path, capsys):
    options = ["--host", "nowhere.example", "--index", str(tmp_path / "index"), "--workers", "1", "--quiet", "--json"]
    assert main(["build", demo_archives[0], *options]) == 0
    captured = capsys.readouterr()
    assert f"no page in: {demo_archives[0]}" in captured.err
    assert json.loads(captured.out)["skipped"]["host"] >= 100


def test_one_unreadable_file_among_others_is_named_and_tried_again(demo_archives, tmp_path, capsys):
    broken = tmp_path / "broken.warc.gz"
    broken.write_bytes(b"\x1f\x8b\x08\x00" + b"garbage" * 100)
    paths = tmp_path / "archives.paths"
    paths.write_text(f"{demo_archives[0]}\n{broken}\n")
    command = ["build", str(paths), "--index", str(tmp_path / "index"), "--workers", "1", "--quiet"]
    assert main(command) == 1
    assert f"not indexed: {broken}" in capsys.readouterr().err
    broken.write_bytes(Path(demo_archives[1]).read_bytes())
    assert main(command) == 0
    assert open_index(str(tmp_path / "index")).info.n_pages == 200


def test_one_bad_file_named_among_others_does_not_stop_them(demo_archives, tmp_path, capsys):
    (tmp_path / "bad.warc.gz").write_bytes(b"no archive at all" * 100)
    options = ["--index", str(tmp_path / "index"), "--workers", "1", "--quiet"]
    assert main(["build", demo_archives[0], str(tmp_path / "bad.warc.gz"), *options]) == 1
    assert "not indexed:" in capsys.readouterr().err
    assert open_index(str(tmp_path / "index")).info.n_pages == 100

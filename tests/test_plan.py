"""Plans against the builds they predict."""

import json
import math
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from services.crawl_server import run_crawl_server

from treesim_dask.api import open_index
from treesim_dask.builder import build
from treesim_dask.cli import main
from treesim_dask.clock import work_clock
from treesim_dask.config import PageFilter
from treesim_dask.demo.crawl import write_demo_crawl
from treesim_dask.errors import ConfigError, SourceError
from treesim_dask.pace import Pace
from treesim_dask.planner import Estimate, Plan, _spread, make_plan
from treesim_dask.types import Source


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crawl")
    write_demo_crawl(folder, n_pages=2400, n_files=6)
    return folder


@pytest.fixture(scope="module")
def built(crawl, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("index"))
    build(str(crawl), folder, shard=(1, 1))
    return open_index(folder).info


def size_of(crawl):
    return sum(path.stat().st_size for path in crawl.rglob("*.warc.gz"))


def test_plan_from_a_third_of_the_input_is_near_the_build(crawl, built):
    plan = make_plan(str(crawl), sample_bytes=size_of(crawl) // 9, workers=2)
    assert plan.n_sources == 6
    # three quarters of what is read are used: the last quarter of a piece holds the end of its last WARC record
    assert 0.7 * size_of(crawl) / 3 <= plan.n_sampled_bytes <= size_of(crawl) / 3
    assert plan.pages.value == pytest.approx(built.n_pages, rel=0.15)
    assert plan.index_bytes.value == pytest.approx(built.n_index_bytes, rel=0.15)
    assert plan.pages.low < built.n_pages < plan.pages.high


def test_plan_from_everything_is_exact(crawl, built):
    plan = make_plan(str(crawl), sample_files=6, sample_bytes=2**30, workers=1)
    assert plan.n_sampled_bytes == plan.n_input_bytes == size_of(crawl)
    assert plan.pages.value == pytest.approx(built.n_pages)
    assert plan.index_bytes.value == pytest.approx(built.n_index_bytes, rel=0.01)


def test_plan_over_http_reads_no_more_than_the_sample(crawl):
    with run_crawl_server(crawl) as server:
        listed = crawl / "list.txt"
        paths = sorted(crawl.rglob("*.warc.gz"))
        listed.write_text("".join(f"{server.url}/{path.relative_to(crawl)}\n" for path in paths))
        plan = make_plan(str(listed), sample_files=2, sample_bytes=10_000, workers=1)
        asked = [part for _, path, part, _ in server.requests if path.endswith(".warc.gz")]
    assert asked == ["bytes=0-9999"] * 2
    assert plan.n_input_bytes == pytest.approx(size_of(crawl), rel=0.2)


def test_plan_of_html_files(tmp_path):
    for number in range(40):
        (tmp_path / f"{number}.html").write_text(
            "<!doctype html><main>" + "<p>text</p>" * (10 + number % 3) + "</main>"
        )
    assert make_plan(str(tmp_path), sample_bytes=2000, workers=1).pages.value == pytest.approx(40, rel=0.02)


def test_build_reports_prediction_beside_fact(crawl, tmp_path, capsys):
    saved = str(tmp_path / "plan.json")
    assert main(["plan", str(crawl), "--save", saved, "--sample-mib", "0.05"]) == 0
    text = capsys.readouterr().out
    for name in ("pages", "index", "work", "memory", "requests", "batch jobs"):
        assert f"\n{name} " in text
    assert main(["build", str(crawl), "--shard", "1/1", "--index", str(tmp_path / "index"), "--plan", saved]) == 0
    text = capsys.readouterr().out
    for name in ("pages", "index", "core-hours", "whole time"):
        assert re.search(rf"^planned {name} .* in fact .* \([+-]\d+\.\d%\)$", text, re.MULTILINE)
    arguments = ["--shard", "1/1", "--index", str(tmp_path / "other"), "--plan", saved, "--json"]
    assert main(["build", str(crawl), *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["planned"]["pages"] == json.loads(Path(saved).read_text())["pages"]


def test_part_of_what_was_planned_is_not_compared(crawl, tmp_path, capsys):
    saved = str(tmp_path / "plan.json")
    assert main(["plan", str(crawl), "--save", saved, "--sample-mib", "0.05", "--workers", "1"]) == 0
    arguments = ["--shard", "1/2", "--index", str(tmp_path / "index"), "--plan", saved]
    assert main(["build", str(crawl), *arguments]) == 0
    captured = capsys.readouterr()
    assert "\nplanned" not in captured.out
    assert "not compared: the plan is for 6 files, this run indexed 3" in captured.err


def test_saved_plan_is_read_back(crawl):
    plan = make_plan(str(crawl), sample_bytes=10_000, workers=1)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def pace(n_workers, byte_seconds):
    return Pace(n_workers, open_seconds=2.0, first_seconds=1.0, segment_seconds=0.5, byte_seconds=byte_seconds)


def plan_of(source_bytes, alone, together):
    estimate = Estimate.with_doubt(1.0, 0.1)
    return Plan(tuple(source_bytes), 1, estimate, estimate, alone, together, 0.0, 0.1, 1, 1)


def other_values(**changed):
    plan = plan_of([1], pace(1, 1.0), pace(4, 1.5)).to_dict()
    return json.dumps({**plan, **changed})


@pytest.mark.parametrize("content", ["{}", "no plan", "[1]", other_values(pages=1), other_values(alone={"pace": 1})])
def test_other_files_are_no_plan(content, crawl, tmp_path, capsys):
    (tmp_path / "plan.json").write_text(content)
    arguments = ["build", str(crawl), "--index", str(tmp_path / "index"), "--plan", str(tmp_path / "plan.json")]
    assert main(arguments) == 2
    assert "is no plan" in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


def test_files_that_cannot_be_read_are_no_samples(crawl, tmp_path):
    good = sorted(crawl.rglob("*.warc.gz"))[:2]
    bad = [tmp_path / "empty.warc.gz", tmp_path / "torn.warc.gz"]
    bad[0].write_bytes(b"")
    bad[1].write_bytes(good[0].read_bytes()[1000:1500])
    plans = [
        make_plan([*map(str, paths)], sample_files=4, sample_bytes=2**30, workers=1) for paths in (good, good + bad)
    ]
    assert plans[1].n_sources == 4
    assert plans[1].n_sampled_bytes == plans[0].n_sampled_bytes
    assert plans[1].pages.value == pytest.approx(plans[0].pages.value, rel=0.02)  # 500 bytes of a torn file beside


def test_an_input_of_nothing_is_an_error_that_names_it(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.warc.gz").write_bytes(b"")
    with pytest.raises(SourceError, match=f"nothing to plan from: {tmp_path}/2.warc.gz is empty"):
        make_plan(str(tmp_path), sample_files=1, workers=1)


def test_pages_nobody_wants_give_an_index_of_nothing_but_segments(crawl):
    nobody = PageFilter(hosts=("nowhere.example",))
    plan = make_plan(str(crawl), page_filter=nobody, sample_bytes=10_000, sample_files=1, workers=1)
    assert plan.pages.value == 0
    assert plan.index_bytes.low > 0
    assert plan.pages.compare(0) == 0
    assert plan.pages.compare(3) == math.inf


@pytest.mark.parametrize(("cores", "hours"), [(0, 1.0), (8, 0.0), (-1, -1.0)])
def test_jobs_without_cores_or_time_are_refused(cores, hours):
    with pytest.raises(ConfigError, match=f"got {cores} cores and {hours:g} hours"):
        plan_of([1], pace(1, 1.0), pace(4, 1.5)).n_jobs(cores, hours)


def test_empty_samples_are_refused(crawl):
    with pytest.raises(ConfigError, match="sample_files must be at least 1, got 0"):
        make_plan(str(crawl), sample_files=0)


def test_index_parameters_and_page_filter_are_those_of_the_build(crawl, tmp_path, capsys):
    chosen = ["--bands", "60", "--no-vectors", "--min-bytes", "4000"]
    everything = ["--workers", "1", "--sample-files", "6", "--sample-mib", "1000", "--json"]
    assert main(["plan", str(crawl), *chosen, *everything]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert main(["build", str(crawl), *chosen, "--shard", "1/1", "--index", str(tmp_path / "index"), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert planned["pages"]["value"] == pytest.approx(done["n_pages"])
    assert planned["index_bytes"]["value"] == pytest.approx(done["n_index_bytes"], rel=0.01)
    assert planned["seconds"].keys() == {"1"}


def test_work_clock_never_runs_ahead_of_the_wall():
    wall, work = time.perf_counter(), work_clock()
    sum(range(10**6))
    work, wall = work_clock() - work, time.perf_counter() - wall
    assert work <= wall


def test_large_files_are_sampled_for_what_they_are():
    sources = [Source(f"{number}.warc", "archive", (), size) for number, size in enumerate([1, 1, 1, 1, 96, 1, 1, 98])]
    assert [source.size for source in _spread(sources, 2)] == [96, 98]
    alike = [replace(source, size=None) for source in sources]
    assert [source.url for source in _spread(alike, 4)] == ["1.warc", "3.warc", "5.warc", "7.warc"]
    assert _spread(sources, 9) == sources


SIZES = st.lists(st.integers(0, 10**6), min_size=1, max_size=40)


@given(sizes=SIZES, n_workers=st.integers(1, 50), slower=st.floats(1, 3))
def test_time_lies_between_what_any_schedule_takes_and_what_a_greedy_one_may(sizes, n_workers, slower):
    """Graham's bounds: no schedule beats the mean load or the longest task, and taking the next task when free is at
    most the mean load of the others and the longest task."""
    together = pace(n_workers, 1e-3 * slower)
    plan = plan_of(sizes, pace(1, 1e-3), together)
    tasks = [0.5 + 1e-3 * (slower if n_workers > 1 else 1) * size for size in sizes]
    work = plan.seconds(n_workers).value - 3.0
    assert work >= max(max(tasks), sum(tasks) / n_workers) - 1e-6
    assert work <= sum(tasks) / n_workers + (1 - 1 / n_workers) * max(tasks) + 1e-6
    assert plan.core_seconds(n_workers).value == pytest.approx(sum(tasks) + n_workers)


@given(sizes=SIZES, cores=st.integers(1, 128), hours=st.floats(0.01, 48))
def test_jobs_suffice(sizes, cores, hours):
    plan = plan_of(sizes, pace(1, 1.0), pace(4, 1.5))
    assert plan.n_jobs(cores, hours) * cores * hours * 3600 >= plan.core_seconds(cores).high


@given(n_here=st.integers(2, 64), n_workers=st.integers(1, 1000))
def test_pace_lies_between_that_of_one_worker_and_that_of_all(n_here, n_workers):
    alone, together = Pace(1, 1.0, 2.0, 3.0, 4.0), Pace(n_here, 2.0, 4.0, 6.0, 8.0)
    between = alone.toward(together, n_workers)
    share = min(1.0, (n_workers - 1) / (n_here - 1))
    assert between.byte_seconds == pytest.approx(4.0 * (1 + share))
    assert between.open_seconds == pytest.approx(1.0 + share)

"""Plans against the builds they predict."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from services.crawl_server import run_crawl_server

from treesim_dask.api import open_index
from treesim_dask.builder import build
from treesim_dask.cli import main
from treesim_dask.demo.crawl import write_demo_crawl
from treesim_dask.errors import ConfigError
from treesim_dask.planner import Estimate, Plan, make_plan


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
    plan = make_plan(str(crawl), sample_bytes=size_of(crawl) // 9)
    assert plan.n_sources == 6
    assert plan.n_sampled_bytes == pytest.approx(size_of(crawl) / 3, rel=0.01)
    assert plan.pages.value == pytest.approx(built.n_pages, rel=0.15)
    assert plan.index_bytes.value == pytest.approx(built.n_index_bytes, rel=0.15)
    assert plan.pages.low < built.n_pages < plan.pages.high


def test_plan_from_everything_is_exact(crawl, built):
    plan = make_plan(str(crawl), sample_files=6, sample_bytes=2**30)
    assert plan.n_sampled_bytes == plan.n_input_bytes == size_of(crawl)
    assert plan.pages.value == pytest.approx(built.n_pages)
    assert plan.index_bytes.value == pytest.approx(built.n_index_bytes, rel=0.01)


def test_plan_over_http_reads_no_more_than_the_sample(crawl):
    with run_crawl_server(crawl) as server:
        listed = crawl / "list.txt"
        paths = sorted(crawl.rglob("*.warc.gz"))
        listed.write_text("".join(f"{server.url}/{path.relative_to(crawl)}\n" for path in paths))
        plan = make_plan(str(listed), sample_files=2, sample_bytes=10_000)
        asked = [part for _, path, part, _ in server.requests if path.endswith(".warc.gz")]
    assert asked == ["bytes=0-9999"] * 2
    assert plan.n_input_bytes == pytest.approx(size_of(crawl), rel=0.2)


def test_plan_of_html_files(tmp_path):
    for number in range(40):
        (tmp_path / f"{number}.html").write_text(
            "<!doctype html><main>" + "<p>text</p>" * (10 + number % 3) + "</main>"
        )
    assert make_plan(str(tmp_path), sample_bytes=2000).pages.value == pytest.approx(40, rel=0.02)


def test_build_reports_prediction_beside_fact(crawl, tmp_path, capsys):
    saved = str(tmp_path / "plan.json")
    assert main(["plan", str(crawl), "--save", saved, "--sample-mib", "0.05"]) == 0
    text = capsys.readouterr().out
    for name in ("pages", "index", "work", "memory", "requests", "batch jobs"):
        assert f"\n{name} " in text
    assert main(["build", str(crawl), "--shard", "1/1", "--index", str(tmp_path / "index"), "--plan", saved]) == 0
    assert "planned pages  2," in capsys.readouterr().out


def test_saved_plan_is_read_back(crawl):
    plan = make_plan(str(crawl), sample_bytes=10_000)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@pytest.mark.parametrize("content", ["{}", "no plan"])
def test_other_files_are_no_plan(content, crawl, tmp_path, capsys):
    (tmp_path / "plan.json").write_text(content)
    arguments = ["build", str(crawl), "--index", str(tmp_path / "index"), "--plan", str(tmp_path / "plan.json")]
    assert main(arguments) == 2
    assert "is no plan" in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


def test_empty_samples_are_refused(crawl):
    with pytest.raises(ConfigError, match="sample_files must be at least 1, got 0"):
        make_plan(str(crawl), sample_files=0)


@given(
    n_sources=st.integers(1, 10**5),
    seconds=st.floats(1, 1e9),
    n_workers=st.integers(1, 1000),
    cores=st.integers(1, 128),
    hours=st.floats(0.1, 48),
)
def test_more_workers_never_take_longer_and_jobs_suffice(n_sources, seconds, n_workers, cores, hours):
    work = Estimate(seconds, seconds * 0.9, seconds * 1.1)
    plan = Plan(n_sources, 1, 1, work, work, work, 0.0, 1.0, 2.0, 1, 1)
    assert plan.seconds(n_workers + 1).value <= plan.seconds(n_workers).value
    assert plan.seconds(1).value == pytest.approx(seconds + 3.0)
    assert plan.n_jobs(cores, hours) * cores * hours * 3600 >= seconds

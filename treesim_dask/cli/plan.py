"""``plan``: what a build will cost."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treesim_dask.cli.display import format_bytes, format_seconds
from treesim_dask.cli.options import PROGRAM, add_command, add_storage_option, read_options
from treesim_dask.config import PageFilter
from treesim_dask.errors import ConfigError

if TYPE_CHECKING:
    from treesim_dask.builder import BuildReport
    from treesim_dask.planner import Estimate, Plan

_EXAMPLES = (
    "CC-MAIN-2026-42",
    "warc.paths.gz --cores-per-job 16 --hours-per-job 2",
    "crawl/*.warc.gz --save plan.json",
)
_WORKERS = (1, 8, 64, 512)


def add_parser(commands: Any) -> None:
    """Add the command."""
    summary = "look at a little of the input and predict pages, bytes, time, memory and jobs of a build"
    parser = add_command(commands, "plan", run, summary, _EXAMPLES)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="as for build")
    add_storage_option(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N input files")
    parser.add_argument("--crawl-base-url", metavar="URL", help="where crawl ids are looked up")
    parser.add_argument("--sample-files", type=int, default=3, metavar="N", help="look at N files (default 3)")
    help_text = "and at N MiB of each (default 4)"
    parser.add_argument("--sample-mib", type=float, default=4.0, metavar="N", help=help_text)
    pages = PageFilter()
    parser.add_argument("--min-bytes", type=int, default=pages.min_bytes, metavar="N", help="shortest page")
    parser.add_argument("--max-bytes", type=int, default=pages.max_bytes, metavar="N", help="longest page")
    parser.add_argument("--cores-per-job", type=int, default=8, metavar="N", help="of a batch job (default 8)")
    parser.add_argument("--hours-per-job", type=float, default=4.0, metavar="H", help="of a batch job (default 4)")
    parser.add_argument("--save", metavar="FILE", help="keep the plan for build --plan FILE")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    from treesim_dask.crawl.inputs import DEFAULT_CRAWL_BASE_URL
    from treesim_dask.planner import make_plan

    plan = make_plan(
        args.inputs,
        page_filter=PageFilter(args.min_bytes, args.max_bytes),
        sample_files=args.sample_files,
        sample_bytes=round(args.sample_mib * 2**20),
        limit=args.limit,
        storage_options=read_options(args.storage_option),
        crawl_base_url=args.crawl_base_url or DEFAULT_CRAWL_BASE_URL,
    )
    if args.save:
        _save_plan(plan, args.save)
    if args.json:
        print(json.dumps(plan.to_dict(), indent=1))
    else:
        print_plan(plan, args.cores_per_job, args.hours_per_job)
    return 0


def _save_plan(plan: Plan, path: str) -> None:
    try:
        Path(path).write_text(json.dumps(plan.to_dict(), indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write the plan to {path}: {error.strerror}") from None


def print_plan(plan: Plan, cores: int, hours: float) -> None:
    """Print a plan for people."""
    share = plan.n_sampled_bytes / max(plan.n_input_bytes, 1)
    print(f"input          {plan.n_sources:,} files, {format_bytes(plan.n_input_bytes)}; looked at {share:.2%} of it")
    print(f"pages          {_range(plan.pages, _count)}")
    print(f"index          {_range(plan.index_bytes, format_bytes)}")
    print(f"work           {_range(plan.core_seconds, _core_hours)} core-hours")
    for n_workers in [n for n in _WORKERS if n == 1 or n <= plan.n_sources]:
        workers = "1 worker" if n_workers == 1 else f"{n_workers} workers"
        print(f"{workers:<14} {_range(plan.seconds(n_workers), format_seconds)}")
    print(f"memory         {format_bytes(plan.worker_bytes)} a worker")
    print(f"requests       {plan.n_requests:,} if input and index are on an object store")
    print(f"batch jobs     {plan.n_jobs(cores, hours):,} of {cores} cores and {hours:g} hours")
    print(f"               {PROGRAM} build ... --cluster slurm --jobs {plan.n_jobs(cores, hours)}")


def read_plan(path: str) -> Plan:
    """Read a plan that ``plan --save`` wrote."""
    from treesim_dask.planner import Plan

    try:
        return Plan.from_dict(json.loads(Path(path).read_text()))
    except OSError as error:
        raise ConfigError(f"cannot read the plan {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no plan of `{PROGRAM} plan --save`: {error}") from None


def print_comparison(plan: Plan, report: BuildReport, n_workers: int) -> None:
    """Print what was predicted beside what came of it."""
    print(f"planned pages  {_compared(plan.pages, report.n_pages, _count)}")
    print(f"planned index  {_compared(plan.index_bytes, report.n_index_bytes, format_bytes)}")
    print(f"planned work   {_compared(plan.work(n_workers), report.core_seconds, _core_hours)}, in core-hours")
    print(f"planned time   {_compared(plan.seconds(n_workers), report.seconds, format_seconds)}")


def _compared(estimate: Estimate, fact: float, write: Any) -> str:
    return f"{write(estimate.value)}, in fact {write(fact)} ({estimate.compare(fact):+.1%})"


def _range(estimate: Estimate, write: Any) -> str:
    return f"{write(estimate.value)} ({write(estimate.low)} to {write(estimate.high)})"


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _core_hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f}" if seconds >= 3600 else f"{seconds / 3600:.3f}"

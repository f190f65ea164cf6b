"""``plan``: what a build will cost."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treesim_dask.cli.display import format_bytes, format_seconds, tell
from treesim_dask.cli.options import PROGRAM, add_command, add_input_options, given_inputs
from treesim_dask.cli.parameters import add_index_parameters, add_page_filter, given_page_filter, given_parameters
from treesim_dask.config import IndexConfig, check_count
from treesim_dask.errors import ConfigError

if TYPE_CHECKING:
    from treesim_dask.planner import Estimate, Plan
    from treesim_dask.report import BuildReport

_EXAMPLES = (
    "CC-MAIN-2026-42",
    "warc.paths.gz --cores-per-job 16 --hours-per-job 2",
    "crawl/*.warc.gz --save plan.json",
)
_ELSEWHERE = (8, 64, 512)


def add_parser(commands: Any) -> None:
    """Add the command."""
    summary = "look at a little of the input and predict pages, bytes, time, memory and jobs of a build"
    parser = add_command(commands, "plan", run, summary, _EXAMPLES)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="as for build")
    add_input_options(parser)
    parser.add_argument("--sample-files", type=int, default=3, metavar="N", help="look at N files (default 3)")
    help_text = "and at N MiB of each (default 4)"
    parser.add_argument("--sample-mib", type=float, default=4.0, metavar="N", help=help_text)
    help_text = "time them on N local processes at once (default: one a core, as a build has)"
    parser.add_argument("--workers", type=int, metavar="N", help=help_text)
    parser.add_argument("--cores-per-job", type=int, default=8, metavar="N", help="of a batch job (default 8)")
    parser.add_argument("--hours-per-job", type=float, default=4.0, metavar="H", help="of a batch job (default 4)")
    parser.add_argument("--save", metavar="FILE", help="keep the plan for build --plan FILE")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_index_parameters(parser)
    add_page_filter(parser)


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    from treesim_dask.planner import make_plan

    check_count("--cores-per-job", args.cores_per_job)
    for option, value in (("--hours-per-job", args.hours_per_job), ("--sample-mib", args.sample_mib)):
        if not 0 < value < math.inf:
            raise ConfigError(f"{option} must be above 0, got {value:g}")
    plan = make_plan(
        given_inputs(args),
        config=IndexConfig(**given_parameters(args)),
        page_filter=given_page_filter(args),
        vectors=not args.no_vectors,
        workers=args.workers,
        sample_files=args.sample_files,
        sample_bytes=math.ceil(args.sample_mib * 2**20),
    )
    if args.save:
        _save_plan(plan, args.save)
    if args.json:
        print(json.dumps(_describe(plan, args.cores_per_job, args.hours_per_job), indent=1))
    else:
        print_plan(plan, args.cores_per_job, args.hours_per_job)
    return 0


def _save_plan(plan: Plan, path: str) -> None:
    try:
        Path(path).write_text(json.dumps(plan.to_dict()) + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write the plan to {path}: {error.strerror}") from None


def _workers(plan: Plan) -> list[int]:
    """Return for how many workers to tell the time: here, and elsewhere while there is a file for each."""
    here = {1, plan.together.n_workers}
    return sorted(here | {n for n in _ELSEWHERE if max(here) < n <= plan.n_sources})


def _describe(plan: Plan, cores: int, hours: float) -> dict[str, Any]:
    """Return the figures of a plan for programs."""
    figures = {name: value for name, value in plan.to_dict().items() if name != "source_bytes"}
    return {
        "n_sources": plan.n_sources,
        "n_input_bytes": plan.n_input_bytes,
        **figures,
        "core_seconds": asdict(plan.core_seconds(plan.together.n_workers)),
        "seconds": {n_workers: asdict(plan.seconds(n_workers)) for n_workers in _workers(plan)},
        "n_jobs": plan.n_jobs(cores, hours),
    }


def print_plan(plan: Plan, cores: int, hours: float) -> None:
    """Print a plan for people."""
    share = plan.n_sampled_bytes / max(plan.n_input_bytes, 1)
    print(f"input          {plan.n_sources:,} files, {format_bytes(plan.n_input_bytes)}; looked at {share:.2%} of it")
    print(f"pages          {_range(plan.pages, _count)}")
    print(f"index          {_range(plan.index_bytes, format_bytes)}")
    print(f"work           {_range(plan.core_seconds(plan.together.n_workers), _core_hours)} core-hours")
    for n_workers in _workers(plan):
        workers = "1 worker" if n_workers == 1 else f"{n_workers} workers"
        print(f"{workers:<14} {_range(plan.seconds(n_workers), _few_seconds)}")
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
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path} is no plan of `{PROGRAM} plan --save`: {error}") from None


def compare_plan(plan: Plan, report: BuildReport, n_workers: int) -> dict[str, tuple[Estimate, float]]:
    """Return each figure as it was predicted and as it came out; none where the build was not of what was planned."""
    if report.n_done != plan.n_sources:
        note = f"not compared: the plan is for {plan.n_sources:,} files, this run indexed {report.n_done:,}"
        tell(note)
        return {}
    return {
        "pages": (plan.pages, report.n_pages),
        "index_bytes": (plan.index_bytes, report.n_index_bytes),
        "core_seconds": (plan.core_seconds(n_workers), report.core_seconds),
        "seconds": (plan.seconds(n_workers), report.start_seconds + report.seconds),
    }


def print_comparison(compared: dict[str, tuple[Estimate, float]]) -> None:
    """Print what was predicted beside what came of it."""
    for figure, (estimate, fact) in compared.items():
        name, write = _FIGURES[figure]
        print(f"planned {name:<10} {_range(estimate, write)}, in fact {write(fact)} ({estimate.compare(fact):+.1%})")


def _range(estimate: Estimate, write: Any) -> str:
    return f"{write(estimate.value)} ({write(estimate.low)} to {write(estimate.high)})"


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _core_hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:,.1f}" if hours >= 1 else f"{hours:.2g}"


def _few_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else format_seconds(seconds)


# of a comparison: how each figure is named and written
_FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "pages": ("pages", _count),
    "index_bytes": ("index", format_bytes),
    "core_seconds": ("core-hours", _core_hours),
    "seconds": ("whole time", _few_seconds),  # with the start of the workers
}

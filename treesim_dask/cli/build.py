"""``build``: index the pages of a crawl."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from treesim_dask.cli.display import Progress, format_bytes, format_seconds, tell
from treesim_dask.cli.options import (
    PROGRAM,
    add_cluster_options,
    add_command,
    add_index_options,
    add_input_options,
    add_quiet,
    add_scheduler_options,
    given_inputs,
    read_options,
)
from treesim_dask.cli.parameters import add_index_parameters, add_page_filter, given_page_filter, given_parameters
from treesim_dask.cli.plan import compare_plan, print_comparison, read_plan

if TYPE_CHECKING:
    from distributed import Client

    from treesim_dask.clients import Place
    from treesim_dask.report import BuildReport

_EXAMPLES = (
    "crawl/*.warc.gz --index my.index",
    "CC-MAIN-2026-42 --limit 10 --index my.index",
    "warc.paths.gz --sample 100 --index s3://bucket/my.index",
    "saved-pages/ --host example.org --index my.index",
    "crawl/*.warc.gz --family hyperplanes --feature pqgrams --collapse-repeats --index my.index",
    "warc.paths.gz --cluster slurm --jobs 8 --index /scratch/my.index",
    "warc.paths.gz --shard 3/100 --index /scratch/my.index",
)
_MOST_NAMED = 10


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "build", run, "index the pages of a crawl, or add to an index", _EXAMPLES)
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="WARC or ARC files, folders, globs, URLs, lists of paths (warc.paths.gz), crawl ids, HTML files, "
        "extracts of a crawl's index (.cdxj, .jsonl, .parquet)",
    )
    add_index_options(parser)
    add_input_options(parser)
    parser.add_argument("--strict", action="store_true", help="a damaged WARC record makes its file fail")
    add_index_parameters(parser)
    add_page_filter(parser)
    group = add_scheduler_options(parser)
    group.add_argument("--workers", type=int, metavar="N", help="local processes (default: one a core)")
    add_cluster_options(group)
    help_text = "read at most N input files at a time, over all workers together"
    group.add_argument("--max-connections", type=int, metavar="N", help=help_text)
    help_text = "only the I-th of N parts of the input, in this process: a task of a job array"
    group.add_argument("--shard", type=read_shard, metavar="I/N", help=help_text)
    add_quiet(parser)
    parser.add_argument("--plan", metavar="FILE", help="compare with what `plan --save FILE` predicted")
    parser.add_argument("--json", action="store_true", help="the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Build, and say what came of it."""
    from treesim_dask.builder import build_index

    plan = read_plan(args.plan) if args.plan else None
    progress = Progress(args.quiet)
    n_workers: list[int] = []

    def start(client: Client) -> None:
        show_dashboard(client, args.quiet)
        n_workers.append(sum(client.nthreads().values()))

    try:
        report = build_index(
            given_inputs(args),
            args.index,
            given_place(args),
            config=given_parameters(args),
            page_filter=given_page_filter(args),
            strict=args.strict,
            vectors=not args.no_vectors,
            index_options=read_options(args.index_option),
            on_start=start,
            on_progress=lambda report: progress.show(progress_line(report)),
        )
    finally:
        progress.close()
    compared = compare_plan(plan, report, n_workers[0] if n_workers else 1) if plan is not None else {}
    if args.json:
        print_complaints(report)
        planned = {name: asdict(estimate) for name, (estimate, _) in compared.items()}
        print(json.dumps({**report.to_dict(), **({"planned": planned} if planned else {})}, indent=1))
    else:
        print_report(report, args.index)
        print_comparison(compared)
    if args.strict and report.failures:
        return 2
    return 1 if report.failures else 0


def given_place(args: argparse.Namespace) -> Place:
    """Return where the build runs."""
    from treesim_dask.clients import Place

    return Place(
        workers=args.workers,
        scheduler=args.scheduler,
        scheduler_file=args.scheduler_file,
        cluster=args.cluster,
        jobs=args.jobs,
        lifetime=args.lifetime,
        tls=args.tls,
        shard=args.shard,
        max_connections=args.max_connections,
    )


def read_shard(text: str) -> tuple[int, int]:
    """Read ``I/N``.

    Examples
    --------
    >>> read_shard("3/100")
    (3, 100)
    """
    number, separator, n_shards = text.partition("/")
    if not (separator and number.isdecimal() and n_shards.isdecimal()):
        raise argparse.ArgumentTypeError(f"a shard looks like 3/100, got {text!r}")
    return int(number), int(n_shards)


def show_dashboard(client: Client, quiet: bool) -> None:
    """Say where to watch the work."""
    if client.dashboard_link and not quiet:
        tell(f"dashboard: {client.dashboard_link}")


def progress_line(report: BuildReport) -> str:
    """Say how far a build is."""
    n_files = report.n_sources - report.n_already_indexed
    n_finished = n_files - report.n_pending
    if not n_finished:  # bytes and what was left out are told by finished files
        return str(report)
    line = f"{report}, {format_bytes(report.n_html_bytes)} HTML, left out {report.skipped.total():,}"
    return f"{line}, {format_seconds(report.seconds / n_finished * report.n_pending)} left"


def print_complaints(report: BuildReport) -> None:
    """Name what was not indexed, and what is damaged, on standard error."""
    for failure in report.failures[:_MOST_NAMED]:
        tell(f"not indexed: {failure.source_url}: {failure.reason}")
    for url in report.empty[:_MOST_NAMED]:
        tell(f"no page in: {url}")
    for reason, warc, offset in report.damage[:_MOST_NAMED]:
        tell(f"damaged: {warc} at offset {offset}: {reason}")
    named = {"not indexed": len(report.failures), "no page in": len(report.empty), "damaged": len(report.damage)}
    for name, n in named.items():
        if n > _MOST_NAMED:
            tell(f"{name}: {n - _MOST_NAMED:,} more")


def print_report(report: BuildReport, index: str) -> None:
    """Print the summary: results to standard output, complaints to standard error."""
    print_complaints(report)
    print(f"index          {index}")
    print(f"files          {report.n_done:,} indexed, {report.n_already_indexed:,} already there", end="")
    print(f", {len(report.failures):,} failed" if report.failures else "")
    if report.n_replaced:
        print(f"replaced       {report.n_replaced:,} files, which had changed or been indexed with another page filter")
    if not report.n_done:
        print(f"nothing new; `{PROGRAM} info {index}` says what it holds")
        return
    rate = report.n_pages / max(report.seconds, 1e-9)
    print(f"pages          {report.n_pages:,} in {format_seconds(report.seconds)} ({rate:,.0f}/s)")
    print(f"shapes         {report.n_shapes:,} distinct in their files")
    per_page = report.n_index_bytes / max(report.n_pages, 1)
    print(f"size           {format_bytes(report.n_index_bytes)} ({per_page:,.0f} bytes a page)")
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in report.skipped.most_common())
    print(f"left out       {report.skipped.total():,}" + (f" ({reasons})" if reasons else ""))

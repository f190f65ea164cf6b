"""``compact``: make an index quick at any size."""

from __future__ import annotations

import argparse
import json
from typing import Any

from treesim_dask.cli.display import format_bytes, format_seconds, tell
from treesim_dask.cli.options import add_command, add_index_argument, add_quiet, add_scheduler_options, read_options

_EXAMPLES = ("my.index", "my.index --workers 4", "s3://bucket/my.index --scheduler tcp://host:8786")


def add_parser(commands: Any) -> None:
    """Add the command."""
    summary = "make few large segments out of many, so that a query reads little of them"
    parser = add_command(commands, "compact", run, summary, _EXAMPLES)
    add_index_argument(parser)
    help_text = "pages of the segments that become one, together (default 8,388,608)"
    parser.add_argument("--max-pages", type=int, metavar="N", help=help_text)
    group = add_scheduler_options(parser)
    group.add_argument("--workers", type=int, metavar="N", help="local processes (default: one a core if it is large)")
    add_quiet(parser)
    parser.add_argument("--json", action="store_true", help="the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Compact, and say what came of it."""
    from treesim_dask.compactor import compact
    from treesim_dask.index.compaction import DEFAULT_MAX_PAGES

    report = compact(
        args.index,
        max_pages=DEFAULT_MAX_PAGES if args.max_pages is None else args.max_pages,
        workers=args.workers,
        scheduler=args.scheduler,
        scheduler_file=args.scheduler_file,
        index_options=read_options(args.index_option),
        on_step=lambda step: None if args.quiet else tell(step),
    )
    if args.json:
        print(json.dumps(report.to_dict(), indent=1))
        return 0
    print(f"index          {args.index} in {format_seconds(report.seconds)}")
    print(f"segments       {report.n_segments_before:,} to {report.n_segments:,}")
    print(f"pages          {report.n_pages_before:,} to {report.n_pages:,}")
    print(f"shapes         {report.n_shapes_before:,} to {report.n_shapes:,} distinct")
    print(f"size           {format_bytes(report.n_bytes_before)} to {format_bytes(report.n_bytes)}")
    return 0

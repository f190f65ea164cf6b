"""``merge``: the pages of several indexes in one."""

from __future__ import annotations

import argparse
from typing import Any

from treesim_dask.cli.display import Progress
from treesim_dask.cli.options import add_command, add_index_options, add_quiet, read_options


def add_parser(commands: Any) -> None:
    """Add the command."""
    summary = "add the pages of other indexes with the same parameters to an index"
    parser = add_command(commands, "merge", run, summary, ("a.index b.index --index all.index",))
    parser.add_argument("others", nargs="+", metavar="INDEX", help="what to add")
    add_index_options(parser)
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Merge, and say what was copied."""
    from treesim_dask.api import merge

    with Progress(args.quiet) as progress:
        n_copied = merge(
            args.others,
            args.index,
            read_options(args.index_option),
            on_segment=lambda n_copied: progress.show(f"segments {n_copied:,}"),
        )
    print(f"{n_copied:,} segments added to {args.index}")
    return 0

"""``export``: an index as plain tables."""

from __future__ import annotations

import argparse
from typing import Any

from treesim_dask.cli.options import add_command, add_index_argument, read_options

_EXAMPLES = ("my.index --to tables", "my.index --to tables --format arrow")


def add_parser(commands: Any) -> None:
    """Add the command."""
    summary = "write an index as tables of pages, shapes and bands for DuckDB, Polars or Spark"
    parser = add_command(commands, "export", run, summary, _EXAMPLES)
    add_index_argument(parser)
    parser.add_argument("--to", required=True, metavar="DIR", help="a local folder for the tables")
    parser.add_argument("--format", choices=("parquet", "arrow"), default="parquet", help="default parquet")


def run(args: argparse.Namespace) -> int:
    """Export, and say how many rows each table has."""
    from treesim_dask.api import open_index

    n_rows = open_index(args.index, read_options(args.index_option)).export(args.to, args.format)
    for name, n in n_rows.items():
        print(f"{name:<14} {n:,} rows in {args.to}/{name}.{args.format}")
    return 0

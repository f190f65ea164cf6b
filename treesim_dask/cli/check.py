"""``check``: is an index whole?"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from treesim_dask.cli.display import Progress, printable, tell
from treesim_dask.cli.options import add_command, add_index_argument, add_quiet, read_options

_EXAMPLES = ("my.index", "my.index --repair", "s3://bucket/my.index --quick")
_ADVICE = "a damaged segment is made again: remove its folder, then build its files into the index once more"
_GOOD = {False: "every file as it was written", True: "every file there, with the size it was written with"}


def add_parser(commands: Any) -> None:
    """Add the command."""
    summary = "compare every file of an index with its checksum, counts and look for orphans"
    parser = add_command(commands, "check", run, summary, _EXAMPLES)
    add_index_argument(parser)
    parser.add_argument("--repair", action="store_true", help="remove what an interrupted build left behind")
    parser.add_argument("--quick", action="store_true", help="names and sizes only: lists the files, opens none")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Print the problems; the exit code is 1 if any are left."""
    from treesim_dask.api import check

    progress, n_segments = Progress(args.quiet), 0

    def count(done: int, total: int) -> None:
        nonlocal n_segments
        n_segments = done
        progress.count("segments", done, total)

    try:
        problems = check(args.index, read_options(args.index_option), args.repair, count, args.quick)
    finally:
        progress.close()
    if args.json:
        print(json.dumps([asdict(problem) for problem in problems], indent=1))
    else:
        for problem in problems:
            hint = " (--repair removes it)" if problem.is_orphan else ""
            print(printable(f"{problem.path}: {problem.what}{hint}"))
        if not problems:
            print(f"{args.index}: {n_segments:,} segments, {_GOOD[args.quick]}")
    if any(not problem.is_orphan and problem.path.startswith("segments/") for problem in problems):
        tell(_ADVICE)
    return 1 if problems else 0

"""``python -m treesim_dask``: a thin command line over the library, one module a command.

Results go to standard output, everything else to standard error. Exit codes: 0 all went well, 1 finished but
something is not as it should be, 2 the command cannot be carried out as given, 130 interrupted. A command imports
what it needs when it runs, so that ``--help`` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from treesim_dask import __version__
from treesim_dask.cli import (
    build,
    check,
    compact,
    delete,
    demo,
    evaluate,
    export,
    info,
    merge,
    plan,
    query,
    records,
    tune,
)
from treesim_dask.cli.options import PROGRAM, Parser
from treesim_dask.errors import TreesimError

COMMANDS = (plan, build, query, records, compact, delete, merge, export, info, check, evaluate, tune, demo)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    args = make_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except TreesimError as error:
        print(f"{PROGRAM} {args.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{PROGRAM} {args.command}: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def make_parser() -> Parser:
    """Return the parser of all commands."""
    parser = Parser(
        prog=PROGRAM,
        description="Structure search over web crawls: find the pages that are built the same way.",
        epilog=f"start with:  {PROGRAM} demo",
    )
    parser.add_argument("--version", action="version", version=f"treesim_dask {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser

"""``python -m treesim_dask``: a thin command line over the library, one module a command.

Results go to standard output, everything else to standard error. Exit codes: 0 all went well, 1 finished but
something is not as it should be, 2 the command cannot be carried out as given, 130 interrupted. A command imports
what it needs when it runs, so that ``--help`` is quick.
"""

from __future__ import annotations

import errno
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
from treesim_dask.cli.display import tell
from treesim_dask.cli.options import PROGRAM, Parser, name_options
from treesim_dask.errors import TreesimError

_RESUMABLE = ("build", "compact", "merge", "demo")
COMMANDS = (plan, build, query, records, compact, delete, merge, export, info, check, evaluate, tune, demo)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    args = make_parser().parse_args(argv)
    try:
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except TreesimError as error:
        _complain(args.command, " ".join(name_options(error).split()))
        return 2
    except KeyboardInterrupt:
        hint = "; the same command goes on from here" if args.command in _RESUMABLE else ""
        _complain(args.command, f"interrupted{hint}")
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        _drop_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        _complain(args.command, "no space left for the output")
        return 2


def _complain(command: str, what: str) -> None:
    tell(f"{PROGRAM} {command}: {what}")


def _drop_output() -> None:
    """Let what is still to be written go nowhere: at exit Python would try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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

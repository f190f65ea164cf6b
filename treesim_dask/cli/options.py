"""What several commands share: the parser, common options, and how their values are read."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from treesim_dask.errors import ConfigError

if TYPE_CHECKING:
    from treesim_dask.choice import InputChoice

PROGRAM = "python -m treesim_dask"
# the options of parameters that are not simply spelled with dashes
_OPTIONS = {
    "k": "-k",
    "n_bands": "--bands",
    "n_rows": "--rows",
    "n_hashes": "--hashes",
    "n_queries": "--queries",
    "n_pages": "--pages",
    "n_files": "--files",
    "spliced_tags": "--splice",
    "url_pattern": "--url-regex",
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong on one line; the whole usage is what ``--help`` is for."""

    def error(self, message: str) -> NoReturn:
        """Print the message and leave with code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and refuse what is unknown here: argparse would leave it to the parser above, and to its help."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown


def name_options(error: Exception) -> str:
    """Return what is wrong, with the parameters under the names that the command line has for them.

    Examples
    --------
    >>> name_options(ConfigError("n_rows must be at least 1, got 0", "n_rows"))
    '--rows must be at least 1, got 0'
    """
    message = str(error)
    for name in getattr(error, "parameters", ()):
        option = _OPTIONS.get(name, "--" + name.replace("_", "-"))
        message = re.sub(rf"(?<![\w-]){name}\b", option, message, count=1)
    return message


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str, examples: Sequence[str]
) -> argparse.ArgumentParser:
    """Add a command with its examples and return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="examples:\n" + "\n".join(f"  {PROGRAM} {name} {line}" for line in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # --band would be --bands today and an error the day there is another
    )
    parser.set_defaults(run=run)
    return parser


def add_index_argument(parser: argparse.ArgumentParser) -> None:
    """Add the index as the argument of a command that looks at one."""
    parser.add_argument("index", metavar="INDEX", help="a folder or any fsspec URL")
    add_index_option(parser)


def add_index_options(parser: argparse.ArgumentParser) -> None:
    """Add the index as the option of a command whose arguments are something else."""
    parser.add_argument("--index", required=True, metavar="DIR", help="the index: a folder or any fsspec URL")
    add_index_option(parser)


def add_index_option(parser: argparse.ArgumentParser) -> None:
    """Add the file system options of the index."""
    help_text = "option of the index's file system, such as endpoint_url=...; may be repeated"
    parser.add_argument("--index-option", action="append", default=[], metavar="KEY=VALUE", help=help_text)


def add_storage_option(parser: argparse.ArgumentParser) -> None:
    """Add the file system options of the input."""
    help_text = "option of the input's file system, such as anon=true; may be repeated"
    parser.add_argument("--storage-option", action="append", default=[], metavar="KEY=VALUE", help=help_text)


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Add which of the input files are taken, and how they are reached."""
    add_storage_option(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N input files")
    parser.add_argument("--sample", type=int, metavar="N", help="only N input files, chosen at random")
    parser.add_argument("--sample-seed", type=int, default=0, metavar="N", help="another random choice (default 0)")
    parser.add_argument("--crawl-base-url", metavar="URL", help="where crawl ids are looked up")


def given_inputs(args: argparse.Namespace) -> InputChoice:
    """Return which of the input files are taken."""
    from treesim_dask.choice import InputChoice
    from treesim_dask.crawl.inputs import DEFAULT_CRAWL_BASE_URL

    options, base_url = read_options(args.storage_option), args.crawl_base_url or DEFAULT_CRAWL_BASE_URL
    return InputChoice(args.inputs, args.limit, args.sample, args.sample_seed, options, base_url)


def add_scheduler_options(parser: argparse.ArgumentParser) -> Any:
    """Add where a running Dask cluster is found, and return the group for more."""
    group = parser.add_argument_group("where it runs")
    group.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler, such as tcp://host:8786")
    group.add_argument("--scheduler-file", metavar="FILE", help="the JSON file a Dask scheduler wrote")
    return group


def add_cluster_options(group: Any) -> None:
    """Add how batch jobs with workers are started."""
    help_text = "start workers as batch jobs: slurm, pbs, lsf, sge, or a YAML file (see cluster/)"
    group.add_argument("--cluster", metavar="NAME|FILE", help=help_text)
    group.add_argument("--jobs", type=int, metavar="N", help="how many jobs to keep running (default 1)")
    help_text = "workers leave after this time, such as 50m (default: before the walltime ends; 0: never)"
    group.add_argument("--lifetime", metavar="TIME", help=help_text)
    group.add_argument("--tls", action="store_true", help="encrypt between client, scheduler and workers")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add the switch for no progress."""
    parser.add_argument("--quiet", action="store_true", help="no progress")


def read_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE pairs; values that are JSON (numbers, true, objects) are taken as such.

    Examples
    --------
    >>> read_options(["anon=true", "endpoint_url=http://localhost:8333"])
    {'anon': True, 'endpoint_url': 'http://localhost:8333'}
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise ConfigError(f"a file system option looks like KEY=VALUE, got {pair!r}")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options

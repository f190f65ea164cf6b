"""``delete``: take pages out of an index."""

from __future__ import annotations

import argparse
from typing import Any

from treesim_dask.cli.options import add_command, add_index_argument, read_options
from treesim_dask.errors import ConfigError

_EXAMPLES = ("my.index --host example.org", "my.index --url https://example.org/a --page id:0123456789abcdef-42")


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "delete", run, "take pages out of an index for good", _EXAMPLES)
    add_index_argument(parser)
    for name, metavar, help_text in (
        ("--url", "URL", "the pages with this URL"),
        ("--host", "HOST", "the pages of this host and its subdomains"),
        ("--page", "ID", "the page with this id"),
        ("--warc", "FILE", "the pages of this WARC file, given by its path or the last parts of it"),
    ):
        parser.add_argument(name, action="append", default=[], metavar=metavar, help=f"{help_text}; may be repeated")
    help_text = "let --host name a public suffix such as com or co.uk: everything below it"
    parser.add_argument("--whole-suffix", action="store_true", help=help_text)


def run(args: argparse.Namespace) -> int:
    """Delete, and say how many pages there were; the exit code is 1 if there were none."""
    from treesim_dask.api import open_index

    if not (args.url or args.host or args.page or args.warc):
        raise ConfigError("say which pages to delete, with --url, --host, --page or --warc")
    index = open_index(args.index, read_options(args.index_option))
    n_deleted = index.delete(args.url, args.host, args.page, args.warc, args.whole_suffix)
    hint = "`compact` frees their space" if n_deleted else "nothing there is what you named"
    print(f"{n_deleted:,} pages deleted from {args.index}; {hint}")
    return 0 if n_deleted else 1

"""``query``: find the pages built like a given one, or like each of many."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from treesim_dask.cli.answers import Answers, print_answers, print_failure
from treesim_dask.cli.display import Progress
from treesim_dask.cli.options import (
    add_command,
    add_index_options,
    add_quiet,
    add_scheduler_options,
    add_storage_option,
    read_options,
)
from treesim_dask.config import METRIC_NAMES, check_count
from treesim_dask.errors import ConfigError, TreesimError

if TYPE_CHECKING:
    from treesim_dask.api import Index

_EXAMPLES = (
    "page.html --index my.index",
    "https://example.org/shop/ -k 50 --no-self --index my.index",
    "id:0123456789abcdef-42 --metric jaccard --json --index my.index",
    "warc:crawl/a.warc.gz#34511 --other-hosts --one-per-domain --index my.index",
    "- --index my.index < page.html",
    "--batch other.index --parquet matches.parquet --index my.index",
)


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "query", run, "find the pages built like a given one, best first", _EXAMPLES)
    parser.add_argument(
        "pages",
        nargs="*",
        metavar="PAGE",
        help="an HTML file, a URL (fetched), - for standard input, id:PAGE_ID or warc:FILE#OFFSET",
    )
    help_text = "all pages of a folder, a WARC file, another index, or a list of pages (.txt); may be repeated"
    parser.add_argument("--batch", action="append", default=[], metavar="INPUT", help=help_text)
    add_index_options(parser)
    add_storage_option(parser)
    parser.add_argument("-k", type=int, default=10, metavar="K", help="how many matches (default 10)")
    parser.add_argument("--metric", default=METRIC_NAMES[0], metavar="NAME", help=f"one of {', '.join(METRIC_NAMES)}")
    help_text = "MiB of the index kept in memory (default 512); working on a batch takes at most 256 MiB more"
    parser.add_argument("--memory", type=int, default=512, metavar="MIB", help=help_text)
    _add_conditions(parser)
    _add_candidates(parser)
    add_scheduler_options(parser)
    add_quiet(parser)
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="matches as JSON; with --batch always, an object a line")
    formats.add_argument("--csv", action="store_true", help="matches as CSV, text as it is: addresses may begin with =")
    formats.add_argument("--parquet", metavar="FILE", help="matches into a Parquet file")


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which pages may be matches (the best K of these are shown)")
    group.add_argument("--no-self", action="store_true", help="leave the page itself out if it is indexed")
    group.add_argument("--host", action="append", default=[], metavar="HOST", help="of this host or its subdomains")
    group.add_argument("--other-hosts", action="store_true", help="of another host than the page's own")
    group.add_argument("--url-regex", default="", metavar="REGEX", help="whose URL matches")
    group.add_argument("--since", metavar="DATE", help="fetched on this day or later")
    group.add_argument("--until", metavar="DATE", help="fetched before this day")
    group.add_argument("--min-nodes", type=int, default=0, metavar="N", help="with at least N elements")
    one_per = group.add_mutually_exclusive_group()
    help_text = "only the best page of a host"
    one_per.add_argument("--one-per-host", action="store_const", dest="one_per", const="host", help=help_text)
    help_text = "only the best page of a registered domain, by the public suffix list"
    one_per.add_argument("--one-per-domain", action="store_const", dest="one_per", const="domain", help=help_text)


def _add_candidates(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how candidates are found")
    help_text = "compare at most N shapes of a bucket, and say so"
    group.add_argument("--bucket-cap", type=int, metavar="N", help=help_text)
    help_text = "with fewer than K matches, take pages that agree in fewer rows of a band, and say so"
    group.add_argument("--fill", action="store_true", help=help_text)


def run(args: argparse.Namespace) -> int:
    """Answer each page and print the matches."""
    from treesim_dask.api import open_index

    if not args.pages and not args.batch:
        raise ConfigError("name a page to search for, or many with --batch")
    check_count("--memory", args.memory, least=0)
    index = open_index(args.index, read_options(args.index_option), memory=args.memory * 2**20)
    with ExitStack() as stack:
        client = None
        if args.scheduler or args.scheduler_file:
            from treesim_dask.clients import open_client

            client = stack.enter_context(open_client(scheduler=args.scheduler, scheduler_file=args.scheduler_file))
        options = {**search_options(args), "client": client, "storage_options": read_options(args.storage_option)}
        if not args.batch:
            answers = index.search_many(args.pages, **options)
            print_answers(answers, args)
            return 0
        progress = stack.enter_context(Progress(args.quiet or sys.stdout.isatty()))
        n_failed = 0

        def note_failure(name: str, error: TreesimError) -> None:
            nonlocal n_failed
            n_failed += 1
            print_failure(name, error, args)

        batches = _answer_batches(index, args, {**options, "on_failure": note_failure})
        print_answers(_count(batches, progress), args)
    return 1 if n_failed else 0


def search_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a search as they were given."""
    from treesim_dask.query.options import Conditions, read_date

    conditions = Conditions(
        hosts=tuple(args.host),
        url_pattern=args.url_regex,
        since=read_date(args.since) if args.since else None,
        until=read_date(args.until) if args.until else None,
        min_nodes=args.min_nodes,
        other_hosts=args.other_hosts,
    )
    return {
        "k": args.k,
        "metric": args.metric,
        "with_self": not args.no_self,
        "conditions": conditions,
        "one_per": args.one_per,
        "bucket_cap": args.bucket_cap,
        "fill": args.fill,
    }


def _answer_batches(index: Index, args: argparse.Namespace, options: dict[str, Any]) -> Answers:
    if args.pages:
        singly = {name: value for name, value in options.items() if name != "on_failure"}
        yield from index.search_many(args.pages, **singly)
    for batch in args.batch:
        yield from index.search_batch(batch, **options)


def _count(answers: Answers, progress: Progress) -> Iterator[Any]:
    for n_answers, answer in enumerate(answers, 1):
        progress.show(f"pages {n_answers:,} ({n_answers / max(progress.seconds, 1e-9):,.0f}/s)")
        yield answer

"""``query``: find the pages built like a given one."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from treesim_dask.cli.display import format_table
from treesim_dask.cli.options import (
    add_command,
    add_index_options,
    add_scheduler_options,
    add_storage_option,
    read_options,
)

if TYPE_CHECKING:
    from treesim_dask.query.search import SegmentAnswer

_EXAMPLES = (
    "page.html --index my.index",
    "https://example.org/shop/ -k 50 --no-self --index my.index",
    "id:0123456789abcdef-42 --metric jaccard --json --index my.index",
    "warc:crawl/a.warc.gz#34511 --index my.index",
    "- --index my.index < page.html",
)
_METRICS = ("log-cosine", "cosine", "jaccard", "dice", "weighted-jaccard", "bdist")


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "query", run, "find the pages built like a given one, best first", _EXAMPLES)
    parser.add_argument(
        "pages",
        nargs="+",
        metavar="PAGE",
        help="an HTML file, a URL (fetched), - for standard input, id:PAGE_ID or warc:FILE#OFFSET",
    )
    add_index_options(parser)
    add_storage_option(parser)
    parser.add_argument("-k", type=int, default=10, metavar="K", help="how many matches (default 10)")
    parser.add_argument("--metric", default=_METRICS[0], metavar="NAME", help=f"one of {', '.join(_METRICS)}")
    parser.add_argument("--no-self", action="store_true", help="leave the page itself out if it is indexed")
    add_scheduler_options(parser)
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="matches as JSON")
    formats.add_argument("--csv", action="store_true", help="matches as CSV")
    formats.add_argument("--parquet", metavar="FILE", help="matches into a Parquet file")


def run(args: argparse.Namespace) -> int:
    """Answer each page and print the matches."""
    from treesim_dask.api import open_index

    index = open_index(args.index, read_options(args.index_option))
    with ExitStack() as stack:
        client = None
        if args.scheduler or args.scheduler_file:
            from treesim_dask.clients import open_client

            client = stack.enter_context(open_client(scheduler=args.scheduler, scheduler_file=args.scheduler_file))
        answers = {
            page: index.search(
                page,
                args.k,
                metric=args.metric,
                with_self=not args.no_self,
                client=client,
                storage_options=read_options(args.storage_option),
            )
            for page in args.pages
        }
    print_answers(answers, args)
    return 0


def print_answers(answers: dict[str, SegmentAnswer], args: argparse.Namespace) -> None:
    """Print or write the answers in the chosen format."""
    rows = [{"query": page, **match.to_row()} for page, answer in answers.items() for match in answer.matches]
    if args.json:
        content = [
            {
                "query": page,
                "n_candidates": answer.n_candidates,
                "matches": [match.to_dict() for match in answer.matches],
            }
            for page, answer in answers.items()
        ]
        print(json.dumps(content, indent=1, ensure_ascii=False))
    elif args.csv:
        print_csv(rows)
    elif args.parquet:
        from treesim_dask.index.tables import write_matches

        write_matches(args.parquet, rows)
        print(f"{len(rows)} matches written to {args.parquet}", file=sys.stderr)
    else:
        for page, answer in answers.items():
            print_table(page, answer, is_only=len(answers) == 1)


def print_csv(rows: list[dict[str, Any]]) -> None:
    """Print matches as CSV with a header."""
    from treesim_dask.query.search import Match

    writer = csv.DictWriter(sys.stdout, ["query", *Match.__slots__])
    writer.writeheader()
    writer.writerows({**row, "bands": " ".join(map(str, row["bands"]))} for row in rows)


def print_table(page: str, answer: SegmentAnswer, is_only: bool) -> None:
    """Print the matches of one page for people."""
    if not is_only:
        print(f"{page}:")
    if not answer.matches:
        print(f"no match for {page} among {answer.n_candidates} candidates", file=sys.stderr)
        return
    rows = [
        (
            str(match.rank),
            f"{match.score:.4f}",
            f"{match.cosine:.3f}",
            f"{match.jaccard:.3f}",
            str(len(match.bands)),
            match.url + (" (the page itself)" if match.is_query else ""),
            f"id:{match.page_id}",
        )
        for match in answer.matches
    ]
    header = ("rank", "score", "cosine", "jaccard", "bands", "url", "page")
    print(format_table(header, rows, [True, True, True, True, True, False, False]))

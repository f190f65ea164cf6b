"""``records``: find the repeated records of a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treesim_dask.cli.display import printable, tell
from treesim_dask.cli.options import add_command, add_index_option, add_storage_option, read_options
from treesim_dask.errors import ConfigError, PageError

if TYPE_CHECKING:
    from treesim_dask.query.source import LoadedPage
    from treesim_dask.records import RecordRegion

_EXAMPLES = (
    "page.html",
    "https://example.org/shop/ --html outlined.html",
    "warc:crawl/a.warc.gz#34511 --csv > records.csv",
    "id:0123456789abcdef-42 --index my.index --csv 2",
    "- --min-records 5 --similarity 0.8 --json < page.html",
)


def add_parser(commands: Any) -> None:
    """Add the command."""
    summary = "find the repeated records of a page, and how to select them"
    parser = add_command(commands, "records", run, summary, _EXAMPLES)
    help_text = "an HTML file, a URL (fetched), - for standard input, id:PAGE_ID or warc:FILE#OFFSET"
    parser.add_argument("page", metavar="PAGE", help=help_text)
    parser.add_argument("--index", metavar="DIR", help="the index that holds the page id:PAGE_ID")
    add_index_option(parser)
    add_storage_option(parser)
    parser.add_argument("--min-records", type=int, default=3, metavar="N", help="records of a region, at least (3)")
    help_text = "how similar records must be, from above 0 to 1 (0.6)"
    parser.add_argument("--similarity", type=float, default=0.6, metavar="S", help=help_text)
    help_text = "share of the page a region covers, at least (0.003)"
    parser.add_argument("--min-coverage", type=float, default=0.003, metavar="C", help=help_text)
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="all regions with the values of their records")
    help_text = "the records of a region (default the first) as CSV: a row each, a column for what varies"
    formats.add_argument("--csv", type=read_region, nargs="?", const=1, metavar="REGION", help=help_text)
    help_text = "write the page with its records outlined, to look at in a browser"
    formats.add_argument("--html", metavar="FILE", help=help_text)


def run(args: argparse.Namespace) -> int:
    """Find the records and print them as asked. Exit code 1 if there are none."""
    from treesim_dask.records import find_records

    check_options(args)
    page = load_page(args)
    html = page.html.decode("utf-8", "replace")
    regions = find_records(
        html, min_records=args.min_records, similarity=args.similarity, min_coverage=args.min_coverage
    )
    if args.html:
        write_outline(args.html, html, regions)
    elif args.csv is not None or args.json or regions:
        print_regions(args, regions)
    if not regions:
        tell(f"no repeated records found in {page.name}")
    return 0 if regions else 1


def read_region(text: str) -> int:
    """Read the number of a region; a page in its place was meant as the page.

    Examples
    --------
    >>> read_region("2")
    2
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a region: give the page before --csv")
    return int(text)


def check_options(args: argparse.Namespace) -> None:
    """Refuse numbers that mean nothing."""
    if args.min_records < 2:
        raise ConfigError(f"--min-records must be at least 2, got {args.min_records}")
    if not 0 < args.similarity <= 1:
        raise ConfigError(f"--similarity must lie above 0 and be at most 1, got {args.similarity}")
    if not 0 <= args.min_coverage <= 1:
        raise ConfigError(f"--min-coverage must lie from 0 to 1, got {args.min_coverage}")
    if args.html and Path(args.page).exists() and Path(args.page).resolve() == Path(args.html).resolve():
        raise ConfigError(f"--html would write over the page itself: give another file than {args.html}")
    if args.page.startswith("id:") and not args.index:
        raise ConfigError(f"{args.page} is a page of an index; say which with --index")


def load_page(args: argparse.Namespace) -> LoadedPage:
    """Read the page in UTF-8."""
    from treesim_dask.crawl.charset import to_utf8
    from treesim_dask.query.source import load_html

    segments: Any = ()
    if args.index:
        from treesim_dask.api import open_index

        segments = open_index(args.index, read_options(args.index_option)).segments
    return load_html(args.page, segments, read_options(args.storage_option), decode=to_utf8)


def print_regions(args: argparse.Namespace, regions: list[RecordRegion]) -> None:
    """Print the regions in the chosen format."""
    from treesim_dask.records.render import format_regions, region_to_csv, regions_to_json

    if args.json:
        print(regions_to_json(regions))
    elif args.csv is None:
        print("\n".join(map(printable, format_regions(regions).split("\n"))))
    elif regions:
        print(region_to_csv(regions, args.csv))


def write_outline(path: str, html: str, regions: list[RecordRegion]) -> None:
    """Write the page with its records outlined."""
    from treesim_dask.records.outline import outline_records

    try:
        Path(path).write_text(outline_records(html, regions), encoding="utf-8", errors="replace")
    except OSError as error:
        raise PageError(f"cannot write {path}: {error.strerror}") from None
    tell(f"{len(regions):,} regions outlined in {path}")

"""``demo``: a synthetic crawl, its index, and an answer, in half a minute."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from treesim_dask.cli.build import print_report, progress_line, show_dashboard
from treesim_dask.cli.display import Progress, format_table, tell
from treesim_dask.cli.options import PROGRAM, add_command, add_quiet

_EXAMPLES = ("", "--pages 20000 --files 16 --folder /tmp/demo", "--only-crawl --pages 100000 --files 50")


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "demo", run, "make a synthetic crawl, index it and show an answer", _EXAMPLES)
    parser.add_argument("--folder", default="demo-crawl", metavar="DIR", help="where it goes (default %(default)s)")
    parser.add_argument("--pages", type=int, default=2000, metavar="N", help="pages of the crawl (default 2000)")
    parser.add_argument("--files", type=int, default=4, metavar="N", help="WARC files of the crawl (default 4)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another crawl (default 1)")
    parser.add_argument("--only-crawl", action="store_true", help="write the crawl and stop")
    parser.add_argument("--workers", type=int, metavar="N", help="local processes (default: one a core)")
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Make the crawl, build its index, query one page and show the templates of its matches."""
    from treesim_dask.api import open_index
    from treesim_dask.builder import build
    from treesim_dask.crawl.listing import normalise
    from treesim_dask.demo.crawl import write_demo_crawl
    from treesim_dask.index.segment import segment_id_of
    from treesim_dask.query.evaluate import read_labels

    archives = write_demo_crawl(args.folder, n_pages=args.pages, n_files=args.files, seed=args.seed)
    tell(f"wrote {args.pages:,} pages of synthetic websites to {len(archives)} WARC files in {args.folder}")
    if args.only_crawl:
        return 0
    folder = Path(args.folder)
    index_url = str(folder / "index")
    progress = Progress(args.quiet)
    try:
        report = build(
            archives,
            index_url,
            workers=args.workers,
            on_start=lambda client: show_dashboard(client, args.quiet),
            on_progress=lambda report: progress.show(progress_line(report)),
        )
    finally:
        progress.close()
    print_report(report, index_url)
    index = open_index(index_url)
    page = f"id:{segment_id_of(normalise(archives[0]))}-0"  # compacted or not: a page keeps its id
    answer = index.search(page, 10)
    templates = read_labels(str(folder / "labels.csv"))
    rows = [(str(m.rank), f"{m.score:.4f}", f"{m.jaccard:.3f}", templates[m.url], m.url) for m in answer.matches]
    print(f"\nthe pages built most like {answer.matches[0].url}:")
    print(format_table(("rank", "score", "jaccard", "template", "url"), rows, [True, True, True, False, False]))
    tell("")
    tell(f"now try:  {PROGRAM} query {page} --no-self --index {index_url}")
    return 0

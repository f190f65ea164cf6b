"""``eval``: how good the answers of an index are."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from treesim_dask.cli.display import Progress
from treesim_dask.cli.options import add_command, add_index_argument, add_quiet, read_options

if TYPE_CHECKING:
    from treesim_dask.api import Index
    from treesim_dask.query.evaluate import Evaluation

_EXAMPLES = (
    "my.index --labels labels.csv",
    "my.index --labels labels.csv --metric jaccard -k 20 --queries 500 --plot eval.png",
    "my.index --queries 1000",
)


def add_parser(commands: Any) -> None:
    """Add the command."""
    summary = "measure precision against labels and recall against exact search"
    parser = add_command(commands, "eval", run, summary, _EXAMPLES)
    add_index_argument(parser)
    help_text = "file with the columns url and template; without it only recall is measured, with all pages"
    parser.add_argument("--labels", metavar="CSV", help=help_text)
    parser.add_argument("--label-column", default="template", metavar="NAME", help="another column than template")
    parser.add_argument("-k", type=int, default=10, metavar="K", help="judge the first K matches (default 10)")
    parser.add_argument("--metric", default="log-cosine", metavar="NAME", help="as for query (default log-cosine)")
    help_text = "ask only with pages whose template has this many pages (default 5)"
    parser.add_argument("--min-pages", type=int, default=5, metavar="N", help=help_text)
    parser.add_argument("--queries", type=int, metavar="N", help="ask with N pages only, chosen at random")
    help_text = "draw precision and recall by rank and the S-curve with measured points (.png or .svg)"
    parser.add_argument("--plot", metavar="FILE", help=help_text)
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Print the figures."""
    from treesim_dask.api import open_index
    from treesim_dask.hashing.plotting import check_figure_name
    from treesim_dask.query.evaluate import read_labels

    if args.plot:
        check_figure_name(args.plot)
    labels = read_labels(args.labels, label_column=args.label_column) if args.labels else None
    index = open_index(args.index, read_options(args.index_option))
    progress = Progress(args.quiet)
    try:
        result = index.evaluate(
            labels,
            metric=args.metric,
            k=args.k,
            min_pages=args.min_pages,
            n_queries=args.queries,
            on_query=lambda done, total: progress.count("queries", done, total),
        )
    finally:
        progress.close()
    if args.plot:
        draw(index, result, args.plot)
    if args.json:
        print(json.dumps(result.to_dict(), indent=1))
        return 0
    print(f"queries          {result.n_queries:,} of {result.n_pages:,} pages, metric {result.metric}")
    if result.precision is not None:
        print(f"precision at {result.k:<3} {result.precision:.4f}")
        print(f"R-precision      {result.r_precision:.4f}")
    print(f"recall at {result.k:<6} {result.recall:.4f} of the exact search")
    print(f"candidates       {result.n_candidates:,.1f} shapes a query")
    return 0


def draw(index: Index, result: Evaluation, path: str) -> None:
    """Draw the figures of an evaluation into a file."""
    from treesim_dask.hashing.plotting import save_figure
    from treesim_dask.query.evaluate import measure_curve
    from treesim_dask.query.plotting import draw_evaluation

    points = measure_curve(index.segments, index.config) if index.info.n_shapes > 1 else None
    save_figure(draw_evaluation(result, index.config, points), path)

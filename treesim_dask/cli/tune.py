"""``tune``: choose bands and rows for the pages at hand."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from treesim_dask.cli.options import add_command, add_index_option, add_storage_option, read_options
from treesim_dask.cli.parameters import add_counting_options, add_family_options, given_counting, given_family
from treesim_dask.config import IndexConfig, check_count
from treesim_dask.errors import ConfigError

if TYPE_CHECKING:
    from treesim_dask.hashing.sampling import SampleTuning
    from treesim_dask.query.exact import PageShapes

_EXAMPLES = (
    "--threshold 0.7 --recall 0.99",
    "--index my.index --threshold 0.7 --recall 0.98 --plot curve.png",
    "--sample crawl/*.warc.gz --family hyperplanes --threshold 0.6 --max-candidates 200",
)


def add_parser(commands: Any) -> None:
    """Add the command."""
    summary = "choose bands and rows: by the S-curve alone, or by how similar your pages really are"
    parser = add_command(commands, "tune", run, summary, _EXAMPLES)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--index", metavar="DIR", help="measure on the pages of an index")
    where.add_argument("--sample", nargs="+", metavar="INPUT", help="measure on pages of these archives or folders")
    add_index_option(parser)
    add_storage_option(parser)
    _add_aims(parser)
    _add_measuring(parser)
    group = parser.add_argument_group("index parameters (those of the index where there is one)")
    add_counting_options(group)
    add_family_options(group)
    parser.add_argument("--plot", metavar="FILE", help="draw the S-curve with the measured points (.png or .svg)")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _add_aims(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is wanted")
    help_text = "similarity, from 0 to 1, below which candidates are not wanted"
    group.add_argument("--threshold", type=float, required=True, metavar="T", help=help_text)
    help_text = "share of the wanted pages that become candidates, at least (default 0.95)"
    group.add_argument("--recall", type=float, default=0.95, metavar="R", help=help_text)
    help_text = "candidates of a query, at most"
    group.add_argument("--max-candidates", type=float, default=float("inf"), metavar="N", help=help_text)
    group.add_argument("--hashes", type=int, default=128, metavar="K", help="length of a signature, at most (128)")
    help_text = "weight of false candidates from 0 to 1, the rest being that of missed pages (default 0.5)"
    group.add_argument("--false-positive-weight", type=float, default=0.5, metavar="W", help=help_text)


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how it is measured")
    group.add_argument("-k", type=int, default=10, metavar="K", help="wanted are the exact best K pages (default 10)")
    group.add_argument("--metric", default="log-cosine", metavar="NAME", help="... by this metric (default log-cosine)")
    group.add_argument("--queries", type=int, default=200, metavar="N", help="pages to ask with (default 200)")
    help_text = "ask only with pages that eval would ask with for these labels"
    group.add_argument("--labels", metavar="CSV", help=help_text)
    help_text = "pages to read of a sample, at most (default 5000)"
    group.add_argument("--sample-pages", type=int, default=5000, metavar="N", help=help_text)
    help_text = "pages of the index that is planned, if it is larger than what is measured"
    group.add_argument("--pages", type=int, metavar="N", help=help_text)


def run(args: argparse.Namespace) -> int:
    """Choose, and say what is to be expected."""
    from treesim_dask.hashing.family import make_family
    from treesim_dask.hashing.plotting import check_figure_name

    if args.plot:
        check_figure_name(args.plot)
    for name, value in (("--recall", args.recall), ("--false-positive-weight", args.false_positive_weight)):
        if not 0 <= value <= 1:
            raise ConfigError(f"{name} must lie from 0 to 1, got {value}")
    check_count("--queries", args.queries)
    check_count("--sample-pages", args.sample_pages, least=2)
    config, pages = load_pages(args)
    make_family(config)
    tuning = tune_by_theory(args) if pages is None else tune_by_measuring(args, config, pages)
    config = replace(config, n_bands=tuning.expected.n_bands, n_rows=tuning.expected.n_rows)
    if args.plot:
        draw(config, tuning, args.plot)
    if args.json:
        print(json.dumps(describe(config, tuning, pages), indent=1))
    else:
        print_tuning(config, tuning, pages)
    return 0


def load_pages(args: argparse.Namespace) -> tuple[IndexConfig, PageShapes | None]:
    """Return the parameters to start from, and the pages to measure on if there are any."""
    if args.index:
        from treesim_dask.api import open_index
        from treesim_dask.query.exact import load_page_shapes

        if other := given_counting(args):
            raise ConfigError(
                f"an index keeps what it counts, got {', '.join(sorted(other))}; use --sample to try others"
            )
        index = open_index(args.index, read_options(args.index_option))
        return replace(index.config, **given_family(args)), load_page_shapes(index.segments)
    config = IndexConfig(**given_counting(args), **given_family(args))
    if not args.sample:
        return config, None
    from treesim_dask.query.tuning import sample_pages

    return config, sample_pages(args.sample, config, args.sample_pages, read_options(args.storage_option))


def tune_by_theory(args: argparse.Namespace) -> SampleTuning:
    """Choose by the S-curve alone, as if every similarity were equally frequent."""
    import numpy as np

    from treesim_dask.hashing.sampling import SampleTuning
    from treesim_dask.hashing.tuning import SimilarityDistribution, tune_bands

    choice = tune_bands(
        SimilarityDistribution.uniform(args.pages or 1),
        args.threshold,
        recall=args.recall,
        max_candidates=args.max_candidates,
        n_hashes=args.hashes,
        false_positive_weight=args.false_positive_weight,
    )
    return SampleTuning(choice, choice, (np.empty(0), np.empty(0), np.empty(0, np.int64)))


def tune_by_measuring(args: argparse.Namespace, config: IndexConfig, pages: PageShapes) -> SampleTuning:
    """Choose by the similarities of the pages at hand."""
    from treesim_dask.query.evaluate import choose_queries, read_labels
    from treesim_dask.query.tuning import tune_on_pages

    labels = read_labels(args.labels) if args.labels else None
    return tune_on_pages(
        pages,
        choose_queries(pages, labels, min_pages=5, n_queries=args.queries, seed=1),
        config,
        args.threshold,
        k=args.k,
        metric=args.metric,
        n_pages=args.pages,
        recall=args.recall,
        max_candidates=args.max_candidates,
        n_hashes=args.hashes,
        false_positive_weight=args.false_positive_weight,
    )


def describe(config: IndexConfig, tuning: SampleTuning, pages: PageShapes | None) -> dict[str, Any]:
    """Return the choice as plain JSON values."""
    from treesim_dask.hashing.bands import rise

    return {
        "parameters": config.to_dict(),
        "rise": rise(config.n_bands, config.n_rows),
        "expected": asdict(tuning.expected),
        "counted": asdict(tuning.counted) if pages is not None else None,
        "n_pages": len(pages.urls) if pages is not None else None,
        "n_shapes": len(pages.shapes) if pages is not None else None,
        "points": [
            {"similarity": float(similarity), "share": float(share), "n_pairs": int(n_pairs)}
            for similarity, share, n_pairs in zip(*tuning.points, strict=True)
        ],
    }


def print_tuning(config: IndexConfig, tuning: SampleTuning, pages: PageShapes | None) -> None:
    """Print the choice for people."""
    from treesim_dask.cli.info import explain_similarity
    from treesim_dask.hashing.bands import rise

    expected, counted = tuning.expected, tuning.counted
    curve = f"s = (1/{config.n_bands})^(1/{config.n_rows}) = {rise(config.n_bands, config.n_rows):.3f}"
    print(f"choice         --bands {config.n_bands} --rows {config.n_rows} ({config.n_hashes} hashes)")
    print(f"family         {config.family} over {config.feature}, seed {config.seed}")
    print(f"S-curve        rises at {curve}")
    print(f"similarity     {explain_similarity(config)}")
    if pages is None:
        print(f"recall         {expected.recall:.4f} if all similarities were equally frequent")
        print("               (measure on your own pages with --index or --sample)")
        return
    print(f"measured on    {len(pages.urls):,} pages of {len(pages.shapes):,} distinct shapes")
    print(f"recall         {counted.recall:.4f} with these hashes ({expected.recall:.4f} by the S-curve)")
    print(f"candidates     {counted.n_candidates:,.1f} shapes a query ({expected.n_candidates:,.1f} by the S-curve)")


def draw(config: IndexConfig, tuning: SampleTuning, path: str) -> None:
    """Draw the S-curve with what was measured into a file."""
    from treesim_dask.hashing.plotting import draw_s_curve, save_figure

    measured = tuning.points if len(tuning.points[0]) else None
    label = f"probability that one {config.family} hash agrees"
    save_figure(draw_s_curve(config.n_bands, config.n_rows, measured, label=label), path)

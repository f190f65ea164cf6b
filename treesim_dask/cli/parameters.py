"""Options for the parameters of an index: what is counted on a page, how it is hashed, and which pages it holds.

None is given by default, so that what a user leaves out follows the index, or the defaults of a new one.
"""

from __future__ import annotations

import argparse
from typing import Any

from treesim_dask.config import FAMILY_NAMES, FEATURE_NAMES, WEIGHTINGS, IndexConfig, PageFilter
from treesim_dask.errors import ConfigError

_DEFAULTS = IndexConfig()
# option, its type, the name in IndexConfig and what it is
_COUNTING = (
    ("--feature", str, "feature", f"what is counted: {', '.join(FEATURE_NAMES)}, or several joined by +"),
    ("--shingle-length", int, "shingle_length", "tags to a shingle"),
    ("--gram-stem", int, "gram_stem", "pqgrams: p, a node and its ancestors"),
    ("--gram-base", int, "gram_base", "pqgrams: q, children abreast"),
)
_FAMILY = (
    ("--family", str, "family", f"LSH family: {', '.join(FAMILY_NAMES)}"),
    ("--seed", int, "seed", "seed of the hashes"),
    ("--bits-per-hash", int, "bits_per_hash", "hyperplanes, bits: bits that make one hash"),
    ("--log2-rows", int, "log2_rows", "bits: log2 of the length of a column; 0 folds each to medium density"),
    ("--width", float, "width", "projections: length of a segment"),
    ("--weighting", str, "weighting", f"hyperplanes, projections: {', '.join(WEIGHTINGS)}"),
)
_METAVARS = {str: "NAME", int: "N", float: "X"}


def add_index_parameters(parser: argparse.ArgumentParser) -> None:
    """Add everything that makes an index."""
    group = parser.add_argument_group("index parameters (an existing index keeps its own)")
    group.add_argument("--bands", type=int, metavar="B", help=f"bands of a signature (default {_DEFAULTS.n_bands})")
    group.add_argument("--rows", type=int, metavar="R", help=f"rows of a band (default {_DEFAULTS.n_rows})")
    group.add_argument(
        "--threshold", type=float, metavar="T", help="choose both: pairs at similarity T (for minhash Jaccard) ..."
    )
    group.add_argument("--probability", type=float, metavar="P", help="... become candidates this often (default 0.99)")
    add_counting_options(group)
    add_family_options(group)
    help_text = "store no branch vectors: smaller, and queries read their candidates again from the archives"
    group.add_argument("--no-vectors", action="store_true", help=help_text)


def add_page_filter(parser: argparse.ArgumentParser) -> None:
    """Add which pages are indexed."""
    pages = PageFilter()
    group = parser.add_argument_group("which pages")
    group.add_argument(
        "--min-bytes", type=int, default=pages.min_bytes, metavar="N", help="shortest page (%(default)s)"
    )
    group.add_argument("--max-bytes", type=int, default=pages.max_bytes, metavar="N", help="longest page (%(default)s)")
    group.add_argument("--host", action="append", default=[], metavar="HOST", help="only this host and its subdomains")
    group.add_argument("--url-regex", default="", metavar="REGEX", help="only URLs that match")


def given_page_filter(args: argparse.Namespace) -> PageFilter:
    """Return which pages are indexed."""
    return PageFilter(args.min_bytes, args.max_bytes, tuple(args.host), args.url_regex)


def given_parameters(args: argparse.Namespace) -> dict[str, Any]:
    """Return the index parameters that were given; what is not given follows the index."""
    given = {"n_bands": args.bands, "n_rows": args.rows, **given_counting(args), **given_family(args)}
    if args.threshold is not None:
        if args.bands is not None or args.rows is not None:
            raise ConfigError("give either --bands and --rows or --threshold, not both")
        from treesim_dask.hashing.tuning import choose_bands

        probability = 0.99 if args.probability is None else args.probability
        given["n_bands"], given["n_rows"] = choose_bands(args.threshold, probability)
    elif args.probability is not None:
        raise ConfigError("--probability goes with --threshold")
    return _leave_out_none(given)


def add_counting_options(group: Any) -> None:
    """Add what is counted on a page."""
    group.add_argument("--splice", metavar="TAG,TAG", help="tags left out of the tree (default: text-level tags)")
    help_text = "reduce the repeated records of a page to one before counting (--no-collapse-repeats: do not)"
    group.add_argument("--collapse-repeats", action=argparse.BooleanOptionalAction, help=help_text)
    _add(group, _COUNTING)


def add_family_options(group: Any) -> None:
    """Add the LSH family and its parameters."""
    _add(group, _FAMILY)


def given_counting(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of counting that were given."""
    given = {name: getattr(args, name) for _, _, name, _ in _COUNTING}
    given["collapse_repeats"] = args.collapse_repeats
    if args.splice is not None:
        given["spliced_tags"] = tuple(tag for tag in args.splice.split(",") if tag)
    return _leave_out_none(given)


def given_family(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of hashing that were given."""
    return _leave_out_none({name: getattr(args, name) for _, _, name, _ in _FAMILY})


def _add(group: Any, options: tuple[tuple[str, type, str, str], ...]) -> None:
    for option, kind, name, what in options:
        help_text = f"{what} (default {getattr(_DEFAULTS, name)})"
        group.add_argument(option, type=kind, metavar=_METAVARS[kind], help=help_text)


def _leave_out_none(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}

"""``info``: what an index holds."""

from __future__ import annotations

import argparse
import json
from typing import Any

from treesim_dask.cli.display import format_bytes
from treesim_dask.cli.options import add_command, add_index_argument, read_options
from treesim_dask.config import IndexConfig

_TYPICAL_DISTANCES = {"hyperplanes": (10, 30, 60), "projections": (5, 10, 20)}


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "info", run, "say what an index holds", ("my.index", "my.index --json"))
    add_index_argument(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the numbers."""
    from treesim_dask.api import open_index
    from treesim_dask.hashing.bands import candidate_probability

    info = open_index(args.index, read_options(args.index_option)).info
    if args.json:
        print(json.dumps(info.to_dict(), indent=1))
        return 0
    config = info.config
    points = (0.5, 0.7, 0.9)
    curve = ", ".join(f"{candidate_probability(s, config.n_bands, config.n_rows):.3f} at s = {s}" for s in points)
    print(f"index          {info.url} (parameters {config.fingerprint})")
    print(f"pages          {info.n_pages:,} of {info.n_shapes:,} distinct shapes in {info.n_segments:,} segments")
    print(f"trees          {info.n_nodes / max(info.n_pages, 1):,.0f} elements a page on average")
    size = info.n_index_bytes / max(info.n_pages, 1)
    print(f"size           {format_bytes(info.n_index_bytes)} ({size:,.0f} bytes a page) for "
          f"{format_bytes(info.n_html_bytes)} of HTML")  # fmt: skip
    print(f"counted        {config.feature}" + (", repeated records collapsed" if config.collapse_repeats else ""))
    print(f"signature      {config.family}, {config.n_bands} bands of {config.n_rows} rows, seed {config.seed}")
    print(f"candidates     with probability {curve}")
    print(f"similarity     {explain_similarity(config)}")
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(info.skipped.items(), key=lambda item: -item[1]))
    print(f"left out       {sum(info.skipped.values()):,}" + (f" ({reasons})" if reasons else ""))
    return 0


def explain_similarity(config: IndexConfig) -> str:
    """Say what the similarity s of the S-curve is for the family of an index.

    Examples
    --------
    >>> explain_similarity(IndexConfig())
    's is the probability that one hash agrees; of the Jaccard distance 0.1 it is 0.900, of 0.3 0.700, of 0.5 0.500'
    """
    import numpy as np

    from treesim_dask.hashing.family import make_family

    family = make_family(config)
    distances = _TYPICAL_DISTANCES.get(config.family, (0.1, 0.3, 0.5))
    shares = family.collision_probability(np.array(distances, np.float64)).tolist()
    first, *others = (f"{distance:g} it is {share:.3f}" for distance, share in zip(distances, shares, strict=True))
    more = "".join(f", of {other.replace(' it is', '')}" for other in others)
    return f"s is the probability that one hash agrees; of the {family.distance} {first}{more}"

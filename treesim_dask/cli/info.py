"""``info``: what an index holds."""

from __future__ import annotations

import argparse
import json
from typing import Any

from treesim_dask.cli.display import format_bytes
from treesim_dask.cli.options import add_command, add_index_argument, read_options


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
    curve = ", ".join(f"{candidate_probability(s, config.n_bands, config.n_rows):.3f} at {s}" for s in (0.5, 0.7, 0.9))
    print(f"index          {info.url} (parameters {config.fingerprint})")
    print(f"pages          {info.n_pages:,} of {info.n_shapes:,} distinct shapes in {info.n_segments:,} segments")
    print(f"trees          {info.n_nodes / max(info.n_pages, 1):,.0f} elements a page on average")
    size = info.n_index_bytes / max(info.n_pages, 1)
    print(f"size           {format_bytes(info.n_index_bytes)} ({size:,.0f} bytes a page) for "
          f"{format_bytes(info.n_html_bytes)} of HTML")  # fmt: skip
    print(f"signature      {config.family}, {config.n_bands} bands of {config.n_rows} rows, seed {config.seed}")
    print(f"candidates     with probability {curve} (agreement of one hash; for minhash, Jaccard similarity)")
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(info.skipped.items(), key=lambda item: -item[1]))
    print(f"left out       {sum(info.skipped.values()):,}" + (f" ({reasons})" if reasons else ""))
    return 0

"""What the user names to sources, whatever it is: files and folders, or extracts of a crawl's index."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from treesim_dask.crawl.extracts import Place, is_cdxj, make_extract_sources, read_cdxj
from treesim_dask.crawl.inputs import DEFAULT_CRAWL_BASE_URL, find_sources
from treesim_dask.crawl.listing import normalise
from treesim_dask.errors import SourceError
from treesim_dask.index.tables import read_places
from treesim_dask.types import Source


def resolve_inputs(
    inputs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    storage_options: Mapping[str, Any] | None = None,
    crawl_base_url: str = DEFAULT_CRAWL_BASE_URL,
) -> list[Source]:
    """Resolve inputs to sources, sorted by url; see `find_sources`. An extract gives a source a WARC file it names."""
    names = [os.fspath(name) for name in ([inputs] if isinstance(inputs, (str, os.PathLike)) else inputs)]
    extracts = [name for name in names if _is_extract(name)]
    others = [name for name in names if not _is_extract(name)]
    options: dict[str, Any] = {"storage_options": storage_options, "crawl_base_url": crawl_base_url}
    if not extracts:
        return find_sources(others, limit=limit, sample=sample, seed=seed, **options)
    found = find_sources(others, **options) if others else []
    for name in extracts:
        found += make_extract_sources(_read_extract(name, storage_options), normalise(name), crawl_base_url)
    sources = sorted({source.url: source for source in found}.values(), key=lambda source: source.url)[:limit]
    if sample is not None:
        sources = sorted(sources, key=lambda source: hashlib.sha256(f"{seed} {source.url}".encode()).digest())[:sample]
    return sorted(sources, key=lambda source: source.url)


def _is_extract(name: str) -> bool:
    return is_cdxj(name) or name.endswith(".parquet")


def _read_extract(name: str, storage_options: Mapping[str, Any] | None) -> list[Place]:
    if is_cdxj(name):
        return list(read_cdxj(normalise(name), storage_options))
    try:
        return read_places(normalise(name), storage_options)
    except (OSError, ValueError) as error:
        raise error if isinstance(error, SourceError) else SourceError(f"cannot read {name}: {error}") from None

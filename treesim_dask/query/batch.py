"""Many pages to search for: lists of pages, folders, archives, or all pages of another index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import ConfigError, PageError
from treesim_dask.index.live import live_segments
from treesim_dask.index.manifest import MANIFEST, read_manifest
from treesim_dask.index.store import Store
from treesim_dask.query.page import QueryPage, make_queries, queries_from_rows
from treesim_dask.types import PageBatch, SkippedLog

_ROWS_AT_ONCE = 1024
_LIST_NAMES = (".txt", ".list")
_SINGLE_PAGE = re.compile(r"id:|warc:|https?://(?!.*\.warc(\.gz|\.zst)?$)")


def read_queries(
    batch: str,
    load: Callable[[str], QueryPage],
    config: IndexConfig,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[QueryPage]:
    """Yield the pages to search for.

    Parameters
    ----------
    batch
        Another index; a folder, a glob, a WARC file or an HTML file; or a list (``.txt``) with one of these, or a
        page as for a single query, on each line.
    load
        Returns the page that a name as for a single query means.
    config
        The parameters of the index to be searched.
    storage_options
        For reading archives, or another index.
    """
    if (other := _find_index(batch, storage_options)) is not None:
        yield from _queries_from_index(other, config, storage_options)
        return
    names = _read_list(batch) if batch.endswith(_LIST_NAMES) else [batch]
    single = [name for name in names if _SINGLE_PAGE.match(name)]
    for name in single:
        yield load(name)
    if len(single) < len(names):
        yield from _queries_from_crawl([name for name in names if name not in single], config, storage_options)


def queries_from_pages(pages: PageBatch, config: IndexConfig) -> list[QueryPage]:
    """Return queries for a batch of pages of a crawl."""
    columns = zip(pages.url, pages.warc, pages.offset, pages.digest, strict=True)
    known = [{"url": url, "place": (warc, offset), "digest": digest} for url, warc, offset, digest in columns]
    return make_queries(pages.url, shape_pages(pages.html, config), config, known)


def _find_index(batch: str, storage_options: Mapping[str, Any] | None) -> Store | None:
    if any(character in batch for character in "*?[") or batch.startswith(("id:", "warc:")):
        return None
    store = Store(batch, storage_options)
    return store if store.exists(MANIFEST) else None


def _queries_from_index(
    store: Store, config: IndexConfig, storage_options: Mapping[str, Any] | None
) -> Iterator[QueryPage]:
    other = read_manifest(store)
    if other != config:
        raise ConfigError(
            f"the pages of {store.url} were indexed with other parameters: {other.differences(config)}; "
            "build it with the same ones"
        )
    for segment in live_segments(store, fingerprint=config.fingerprint):
        rows = segment.live_rows()
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            yield from queries_from_rows(segment, rows[first : first + _ROWS_AT_ONCE], config, storage_options)


def _queries_from_crawl(
    names: Sequence[str], config: IndexConfig, storage_options: Mapping[str, Any] | None
) -> Iterator[QueryPage]:
    from treesim_dask.crawl.inputs import find_sources
    from treesim_dask.crawl.pages import read_pages

    for source in find_sources(names, storage_options=storage_options):
        for pages in read_pages(source, PageFilter(), SkippedLog(), storage_options=storage_options):
            yield from queries_from_pages(pages, config)


def _read_list(path: str) -> list[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PageError(f"cannot read the list {path}: {error}; expected a page or a file on each line") from None
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise PageError(f"the list {path} is empty; expected a page or a file on each line")
    return names

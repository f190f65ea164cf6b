"""Many pages to search for: lists of pages, folders, archives, or all pages of another index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.dom.cost import check_cost
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import PageError, SourceError, TreesimError
from treesim_dask.index.live import live_segments
from treesim_dask.index.manifest import MANIFEST, read_manifest
from treesim_dask.index.store import Store
from treesim_dask.query.page import QueryPage, make_queries, queries_from_rows
from treesim_dask.types import PageBatch, SkippedLog

_ROWS_AT_ONCE = 1024
_LIST_NAMES = (".txt", ".list", ".paths")
_SINGLE_PAGE = re.compile(r"id:|warc:|https?://(?!.*\.warc(\.gz|\.zst)?$)")


def read_queries(
    batch: str,
    load: Callable[[str], QueryPage],
    config: IndexConfig,
    storage_options: Mapping[str, Any] | None = None,
    on_failure: Callable[[str, TreesimError], None] | None = None,
) -> Iterator[QueryPage]:
    """Yield the pages to search for, in the order of the list where there is one.

    Parameters
    ----------
    batch
        Another index; a folder, a glob, a WARC file or an HTML file; or a list (``.txt``, also gzipped) with one of
        these, or a page as for a single query, on each line. As in the lists of a build, paths count from the list,
        and lines that begin with # do not count.
    load
        Returns the page that a name as for a single query means.
    config
        The parameters of the index to be searched.
    storage_options
        For reading archives, or another index.
    on_failure
        Called with each line of a list whose pages cannot be read and each page too costly to parse, and why;
        without it the first of these ends all.
    """
    if (other := _find_index(batch, storage_options)) is not None:
        yield from _queries_from_index(other, config, storage_options)
        return
    is_list = not _SINGLE_PAGE.match(batch) and batch.removesuffix(".gz").endswith(_LIST_NAMES)
    for name in _read_names(batch, storage_options) if is_list else [batch]:
        try:
            if _SINGLE_PAGE.match(name):
                yield load(name)
            else:
                yield from _queries_from_crawl([name], config, storage_options, on_failure)
        except (PageError, SourceError) as error:
            if on_failure is None or not is_list:
                raise
            on_failure(name, error)


def queries_from_pages(pages: PageBatch, config: IndexConfig) -> list[QueryPage]:
    """Return queries for a batch of pages of a crawl."""
    columns = zip(pages.url, pages.warc, pages.offset, pages.digest, strict=True)
    known = [{"url": url, "place": (warc, offset), "digest": digest} for url, warc, offset, digest in columns]
    return make_queries(pages.url, shape_pages(pages.html, config), config, known)


def _find_index(batch: str, storage_options: Mapping[str, Any] | None) -> Store | None:
    if not batch.strip() or any(character in batch for character in "*?[") or batch.startswith(("id:", "warc:")):
        return None
    store = Store(batch, storage_options)
    return store if store.exists(MANIFEST) else None


def _queries_from_index(
    store: Store, config: IndexConfig, storage_options: Mapping[str, Any] | None
) -> Iterator[QueryPage]:
    what = f"the pages of {store.url} were indexed"
    read_manifest(store).refuse_other(config, what, "build it with the same ones")
    for segment in live_segments(store, fingerprint=config.fingerprint):
        rows = segment.live_rows()
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            yield from queries_from_rows(segment, rows[first : first + _ROWS_AT_ONCE], config, storage_options)


def _queries_from_crawl(
    names: Sequence[str],
    config: IndexConfig,
    storage_options: Mapping[str, Any] | None,
    on_failure: Callable[[str, TreesimError], None] | None,
) -> Iterator[QueryPage]:
    from treesim_dask.crawl.inputs import find_sources
    from treesim_dask.crawl.pages import read_pages

    for source in find_sources(names, storage_options=storage_options):
        for pages in read_pages(source, PageFilter(), SkippedLog(), storage_options=storage_options):
            yield from queries_from_pages(_drop_costly(pages, on_failure), config)


def _drop_costly(pages: PageBatch, on_failure: Callable[[str, TreesimError], None] | None) -> PageBatch:
    """Return a batch without the pages that the parser cannot be given, and tell which these are."""
    kept = [True] * len(pages)
    for i, (url, html) in enumerate(zip(pages.url, pages.html, strict=True)):
        try:
            check_cost(url, html)
        except PageError as error:
            if on_failure is None:
                raise
            on_failure(url, error)
            kept[i] = False
    return pages if all(kept) else pages.select(kept)


def _read_names(batch: str, storage_options: Mapping[str, Any] | None) -> list[str]:
    """Return what the lines of a list name, each as it is called from anywhere."""
    from treesim_dask.crawl.inputs import listed_url, read_lines
    from treesim_dask.crawl.listing import normalise

    url = normalise(batch)
    lines = read_lines(url, storage_options)
    if not lines:
        raise PageError(f"the list {batch} is empty; expected a page or a file on each line")
    return [
        "warc:" + listed_url(line.removeprefix("warc:"), url)
        if line.startswith("warc:")
        else (line if _SINGLE_PAGE.match(line) else listed_url(line, url))
        for line in lines
    ]

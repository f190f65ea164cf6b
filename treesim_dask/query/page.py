"""What is searched for: a page as shape and bucket keys, wherever it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treesim_dask.config import IndexConfig
from treesim_dask.crawl.charset import to_parser_bytes
from treesim_dask.dom.cost import check_cost
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import make_family
from treesim_dask.index.segment import Segment
from treesim_dask.query.options import Conditions, host_of
from treesim_dask.query.source import LoadedPage, find_indexed, load_html
from treesim_dask.query.vectors import read_vectors
from treesim_dask.types import Int64Array, ShapeBatch, UInt32Array, UInt64Array


@dataclass(frozen=True, slots=True)
class QueryPage:
    """A page to search for.

    Parameters
    ----------
    name
        What the user called it.
    shape
        A batch of one.
    signature
        Shape (n_hashes,), dtype uint32.
    keys
        Shape (n_bands,), dtype uint64: its bucket in each band.
    page_id, url, place, digest
        What tells whether an indexed page is this very page; the first that is known decides. ``place`` is the
        archive and the offset in it; an archive that was moved since is known by URL and digest together.
    """

    name: str
    shape: ShapeBatch
    signature: UInt32Array
    keys: UInt64Array
    page_id: str | None = None
    url: str | None = None
    place: tuple[str, int] | None = None
    digest: str | None = None

    @property
    def is_known(self) -> bool:
        """True if something tells which indexed page it is."""
        return not (self.page_id is None and self.place is None and self.url is None and self.digest is None)

    def is_same_page(self, url: str, warc: str, offset: int, digest: str | None) -> bool:
        """Tell whether an indexed page is the query page itself, of which no page id is known."""
        if self.place is not None:
            is_same_content = self.digest is not None and (self.url, self.digest) == (url, digest)
            return is_same_content or self.place == (warc, offset)
        if self.url is not None:
            return self.url == url
        return self.digest is not None and self.digest == digest


def check_hosts(queries: Sequence[QueryPage], conditions: Conditions) -> None:
    """Refuse to look for pages of other hosts than that of a page of which no host is known."""
    if not conditions.other_hosts:
        return
    for query in queries:
        if not host_of(query.url or ""):
            raise ConfigError(
                f"{query.name} has no URL with a host, so no host is another one; leave out --other-hosts, "
                "or ask with the page's URL"
            )


def make_query(name: str, shape: ShapeBatch, config: IndexConfig, **identity: Any) -> QueryPage:
    """Hash a shape as the index does and return it as a query."""
    return make_queries([name], shape, config, [identity])[0]


def make_queries(
    names: Sequence[str], shapes: ShapeBatch, config: IndexConfig, identities: Sequence[Mapping[str, Any]] = ()
) -> list[QueryPage]:
    """Hash shapes all at once and return each as a query.

    Parameters
    ----------
    names, shapes
        What the user called the pages, and a row for each.
    identities
        What else is known of each: ``page_id``, ``url``, ``place``, ``digest``.
    """
    signatures = make_family(config).sign(shapes)
    keys = band_keys(signatures, config.n_bands)
    known = identities or [{}] * len(names)
    return [
        QueryPage(name, shapes.row(i), signatures[i], keys[i], **identity)
        for i, (name, identity) in enumerate(zip(names, known, strict=True))
    ]


def query_from_html(html: bytes, config: IndexConfig, name: str = "page", **identity: Any) -> QueryPage:
    """Return a query for a page given as HTML in any encoding, as a file holds it.

    Examples
    --------
    >>> query = query_from_html(b"<ul><li>a</li><li>b</li></ul>", IndexConfig())
    >>> int(query.shape.counts.sum()), len(query.keys)
    (6, 25)
    """
    page = to_parser_bytes(html)
    check_cost(name, page)
    return make_query(name, shape_pages([page], config), config, **identity)


def query_from_index(
    segments: Sequence[Segment], page_id: str, config: IndexConfig, storage_options: Mapping[str, Any] | None = None
) -> QueryPage:
    """Return a query for a page that is in the index; its archive is needed only if the index has no vectors."""
    segment, row = find_indexed(segments, page_id)
    return queries_from_rows(segment, np.array([row]), config, storage_options)[0]


def queries_from_rows(
    segment: Segment, rows: Int64Array, config: IndexConfig, storage_options: Mapping[str, Any] | None = None
) -> list[QueryPage]:
    """Return queries for some pages of a segment."""
    shapes, place = np.unique(segment.shapes_of(rows), return_inverse=True)
    vectors = read_vectors(segment, shapes, storage_options)
    signatures = make_family(config).sign(vectors)
    keys = band_keys(signatures, config.n_bands)
    page_ids = segment.page_ids(segment.page_origins(rows))
    urls = segment.read_pages(rows, ["url"]).column("url").to_pylist()
    return [
        QueryPage(f"id:{page_id}", vectors.row(i), signatures[i], keys[i], page_id=page_id, url=url)
        for page_id, url, i in zip(page_ids, urls, place.tolist(), strict=True)
    ]


def load_queries(
    pages: Sequence[str | bytes | QueryPage],
    segments: Sequence[Segment],
    config: IndexConfig,
    storage_options: Mapping[str, Any] | None = None,
) -> list[QueryPage]:
    """Find the pages a user means; what has to be parsed and hashed is so all at once.

    Parameters
    ----------
    pages
        HTML as bytes, or its name; see `treesim_dask.query.source.load_html`. Of a page given by id only what the
        index holds of it is read. Queries are passed on as they are.
    segments, config
        The index to be searched.
    storage_options
        For reading archives.
    """
    queries: list[QueryPage | LoadedPage] = []
    for page in pages:
        if isinstance(page, QueryPage):
            queries.append(page)
        elif isinstance(page, str) and page.startswith("id:"):
            queries.append(query_from_index(segments, page.removeprefix("id:"), config, storage_options))
        else:
            queries.append(load_html(page, segments, storage_options))
    loaded = [page for page in queries if isinstance(page, LoadedPage)]
    for found in loaded:
        check_cost(found.name, found.html)
    if loaded:
        known = [{"url": page.url, "place": page.place, "digest": page.digest} for page in loaded]
        shapes = shape_pages([page.html for page in loaded], config)
        made = iter(make_queries([page.name for page in loaded], shapes, config, known))
    return [next(made) if isinstance(page, LoadedPage) else page for page in queries]

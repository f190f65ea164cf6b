"""What is searched for: a page as shape and bucket keys, wherever it comes from."""

from __future__ import annotations

import hashlib
import re
import sys
from base64 import b32encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treesim_dask.config import IndexConfig
from treesim_dask.crawl.charset import to_parser_bytes
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import PageError
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import make_family
from treesim_dask.index.segment import Segment
from treesim_dask.query.vectors import read_vectors
from treesim_dask.types import Int64Array, PageBatch, ShapeBatch, UInt32Array, UInt64Array

_PAGE_ID = re.compile(r"(?P<segment>[0-9a-f]{16})-(?P<row>\d{1,10})")


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
        archive and the offset in it.
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
    def is_known_by_digest(self) -> bool:
        """True if nothing but its digest tells which indexed page it is."""
        return self.page_id is None and self.place is None and self.url is None and self.digest is not None

    def is_same_page(self, page: Mapping[str, Any], page_id: str) -> bool:
        """Tell whether a row of a page table is the query page itself."""
        if self.page_id is not None:
            return self.page_id == page_id
        if self.place is not None:
            return self.place == (page["warc"], page["offset"])
        if self.url is not None:
            return bool(self.url == page["url"])
        return self.is_known_by_digest and self.digest == page["digest"]


def make_query(name: str, shape: ShapeBatch, config: IndexConfig, **identity: Any) -> QueryPage:
    """Hash a shape as the index does and return it as a query."""
    signatures = make_family(config).sign(shape)
    return QueryPage(name, shape, signatures[0], band_keys(signatures, config.n_bands)[0], **identity)


def query_from_html(html: bytes, config: IndexConfig, name: str = "page", **identity: Any) -> QueryPage:
    """Return a query for a page given as HTML in any encoding, as a file holds it.

    Examples
    --------
    >>> query = query_from_html(b"<ul><li>a</li><li>b</li></ul>", IndexConfig())
    >>> int(query.shape.counts.sum()), len(query.keys)
    (6, 25)
    """
    return _query_from_parser_bytes(to_parser_bytes(html), config, name, **identity)


def _query_from_parser_bytes(html: bytes, config: IndexConfig, name: str, **identity: Any) -> QueryPage:
    """Return a query for a page that the crawl reader has decoded: its declared charset no longer holds."""
    return make_query(name, shape_pages([html], config), config, **identity)


def query_from_index(
    segments: Sequence[Segment], page_id: str, config: IndexConfig, storage_options: Mapping[str, Any] | None = None
) -> QueryPage:
    """Return a query for a page that is in the index; its archive is needed only if the index has no vectors."""
    form = _PAGE_ID.fullmatch(page_id)
    if form is None:
        raise PageError(
            f"a page id looks like 0123456789abcdef-42, got {page_id!r}; a query prints those of its matches"
        )
    for segment in segments:
        row = segment.find_page(form["segment"], int(form["row"]))
        if row is not None:
            return queries_from_rows(segment, np.array([row]), config, storage_options)[0]
    raise PageError(f"there is no page {page_id} in the index")


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
        QueryPage(f"id:{page_id}", vectors.take(np.array([i])), signatures[i], keys[i], page_id=page_id, url=url)
        for page_id, url, i in zip(page_ids, urls, place.tolist(), strict=True)
    ]


def load_query(
    page: str | bytes,
    segments: Sequence[Segment],
    config: IndexConfig,
    storage_options: Mapping[str, Any] | None = None,
) -> QueryPage:
    """Find the page a user means.

    Parameters
    ----------
    page
        HTML as bytes, or one of: a URL (fetched), the path of an HTML file, ``-`` for standard input, ``id:`` and a
        page id, ``warc:`` with an archive, ``#`` and the offset of a WARC record in it.
    segments, config
        The index to be searched.
    storage_options
        For reading archives.
    """
    if isinstance(page, bytes):
        return query_from_html(page, config, digest=payload_digest(page))
    if page == "-":
        html = sys.stdin.buffer.read()
        return query_from_html(html, config, "standard input", digest=payload_digest(html))
    if page.startswith("id:"):
        return query_from_index(segments, page[3:], config, storage_options)
    if page.startswith("warc:"):
        return _query_from_archive(page, config, storage_options)
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", page):
        return _query_from_web(page, config)
    return _query_from_file(page, config)


def payload_digest(html: bytes) -> str:
    """Return the digest of a body as WARC files state it.

    Examples
    --------
    >>> payload_digest(b"")
    'sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ'
    """
    return "sha1:" + b32encode(hashlib.sha1(html, usedforsecurity=False).digest()).decode()


def _query_from_web(page: str, config: IndexConfig) -> QueryPage:
    from treesim_dask.crawl.fetch import fetch_page

    fetched = fetch_page(page)
    return _query_from_parser_bytes(fetched.html[0], config, page, url=fetched.url[0])


def _query_from_archive(page: str, config: IndexConfig, storage_options: Mapping[str, Any] | None) -> QueryPage:
    from treesim_dask.crawl.pages import read_page_at

    archive, separator, offset = page[len("warc:") :].rpartition("#")
    if not separator or not offset.isdecimal():
        raise PageError(f"a page in an archive looks like warc:FILE#OFFSET, got {page!r}")
    found: PageBatch = read_page_at(archive, int(offset), storage_options=storage_options)
    place = found.warc[0], found.offset[0]
    return _query_from_parser_bytes(found.html[0], config, page, url=found.url[0], place=place)


def _query_from_file(page: str, config: IndexConfig) -> QueryPage:
    try:
        html = Path(page).read_bytes()
    except FileNotFoundError:
        raise PageError(
            f"there is no file {page}; expected an HTML file, a URL, - (standard input), id:PAGE_ID or warc:FILE#OFFSET"
        ) from None
    except OSError as error:
        raise PageError(f"cannot read {page}: {error.strerror}") from None
    if not html.strip():
        raise PageError(f"{page} is empty; expected HTML")
    return query_from_html(html, config, page, digest=payload_digest(html))

"""The page a user means, as HTML: a file, standard input, an address, a WARC record, a page of an index."""

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

from treesim_dask.crawl.charset import Decoder, to_parser_bytes
from treesim_dask.crawl.sniffing import begins_archive, looks_binary
from treesim_dask.errors import PageError
from treesim_dask.index.segment import Segment
from treesim_dask.types import PageBatch

_HEAD_BYTES = 2048
_PAGE_ID = re.compile(r"(?P<segment>[0-9a-f]{16})-(?P<row>\d{1,10})")


@dataclass(frozen=True, slots=True)
class LoadedPage:
    """A page as bytes for the parser, and what is known of where it is from.

    Parameters
    ----------
    name
        What the user called it.
    html
        As the decoder made it.
    url, place, digest
        Its address, its archive and offset, the digest of its body; None where unknown.
    """

    name: str
    html: bytes
    url: str | None = None
    place: tuple[str, int] | None = None
    digest: str | None = None


def load_html(
    page: str | bytes,
    segments: Sequence[Segment] = (),
    storage_options: Mapping[str, Any] | None = None,
    decode: Decoder = to_parser_bytes,
) -> LoadedPage:
    """Find the page a user means.

    Parameters
    ----------
    page
        HTML as bytes, or one of: a URL (fetched), the path of an HTML file, ``-`` for standard input, ``id:`` and a
        page id (read from its archive), ``warc:`` with an archive, ``#`` and the offset of a WARC record in it.
    segments
        The index that holds pages given by id.
    storage_options
        For reading archives.
    decode
        Makes bytes for the parser of the body and its Content-Type.

    Examples
    --------
    >>> load_html(b"<p>").name
    'page'
    """
    if isinstance(page, bytes):
        return LoadedPage("page", decode(page, ""), digest=payload_digest(page))
    if page == "-":
        return _load_bytes("standard input", sys.stdin.buffer.read(), decode)
    if page.startswith("id:"):
        return _load_indexed(page, segments, storage_options, decode)
    if page.startswith("warc:"):
        return _load_archived(page, storage_options, decode)
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", page):
        return _load_from_web(page, decode)
    return _load_file(page, decode)


def find_indexed(segments: Sequence[Segment], page_id: str) -> tuple[Segment, int]:
    """Return the segment and the row of a page of the index."""
    form = _PAGE_ID.fullmatch(page_id)
    if form is None:
        raise PageError(
            f"a page id looks like 0123456789abcdef-42, got {page_id!r}; a query prints those of its matches"
        )
    for segment in segments if int(form["row"]) < 2**32 else ():
        row = segment.find_page(form["segment"], int(form["row"]))
        if row is not None:
            return segment, row
    raise PageError(f"there is no page {page_id} in the index")


def payload_digest(html: bytes) -> str:
    """Return the digest of a body as WARC files state it.

    Examples
    --------
    >>> payload_digest(b"")
    'sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ'
    """
    return "sha1:" + b32encode(hashlib.sha1(html, usedforsecurity=False).digest()).decode()


def _load_indexed(
    page: str, segments: Sequence[Segment], storage_options: Mapping[str, Any] | None, decode: Decoder
) -> LoadedPage:
    from treesim_dask.crawl.pages import read_page_at

    segment, row = find_indexed(segments, page.removeprefix("id:"))
    [place] = segment.read_pages(np.array([row]), ["warc", "offset", "length"]).to_pylist()
    found = read_page_at(
        place["warc"], place["offset"], place["length"], storage_options=storage_options, decode=decode
    )
    return _loaded(page, found)


def _load_archived(page: str, storage_options: Mapping[str, Any] | None, decode: Decoder) -> LoadedPage:
    from treesim_dask.crawl.listing import normalise
    from treesim_dask.crawl.pages import read_page_at

    archive, separator, offset = page[len("warc:") :].rpartition("#")
    if not separator or not offset.isdecimal():
        raise PageError(f"a page in an archive looks like warc:FILE#OFFSET, got {page!r}")
    url = normalise(archive)
    return _loaded(page, read_page_at(url, int(offset), storage_options=storage_options, decode=decode))


def _loaded(page: str, found: PageBatch) -> LoadedPage:
    return LoadedPage(page, found.html[0], url=found.url[0], place=(found.warc[0], found.offset[0]))


def _load_from_web(page: str, decode: Decoder) -> LoadedPage:
    from treesim_dask.crawl.fetch import fetch_page

    fetched = fetch_page(page, decode=decode)
    return LoadedPage(page, fetched.html[0], url=fetched.url[0])


def _load_file(page: str, decode: Decoder) -> LoadedPage:
    try:
        html = Path(page).read_bytes()
    except FileNotFoundError:
        raise PageError(
            f"there is no file {page}; expected an HTML file, a URL, - (standard input), id:PAGE_ID or warc:FILE#OFFSET"
        ) from None
    except IsADirectoryError:
        raise PageError(f"{page} is a folder; query --batch takes all pages of one") from None
    except OSError as error:
        raise PageError(f"cannot read {page}: {error.strerror}") from None
    return _load_bytes(page, html, decode)


def _load_bytes(name: str, data: bytes, decode: Decoder) -> LoadedPage:
    """Return a page of the given content; refuse what is no HTML."""
    if not data.strip():
        raise PageError(f"{name} is empty; expected HTML")
    if begins_archive(data[:_HEAD_BYTES]):
        raise PageError(f"{name} is an archive; query --batch takes all its pages, warc:FILE#OFFSET one of them")
    html = decode(data, "")
    if looks_binary(html[:_HEAD_BYTES]):
        raise PageError(f"{name} is no HTML")
    return LoadedPage(name, html, digest=payload_digest(data))

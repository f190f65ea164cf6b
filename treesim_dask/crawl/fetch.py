"""One page from the live web, with limits on time, size and redirects."""

from __future__ import annotations

import base64
import hashlib

from treesim_dask.crawl.bodies import BodyTooLong, undo_content_encoding
from treesim_dask.crawl.charset import Decoder, to_parser_bytes
from treesim_dask.crawl.sniffing import looks_binary, looks_like_html
from treesim_dask.crawl.web import RequestFailed, RequestOptions, open_url
from treesim_dask.errors import PageError
from treesim_dask.types import PageBatch

_HEADERS = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1", "Accept-Encoding": "gzip, deflate, br, zstd"}


def fetch_page(
    url: str,
    *,
    timeout: float = 20.0,
    max_bytes: int = 16 * 2**20,
    max_redirects: int = 5,
    decode: Decoder = to_parser_bytes,
) -> PageBatch:
    """Fetch one page.

    Parameters
    ----------
    url
        An http or https address.
    timeout
        Seconds for everything: connection, redirects and the whole body.
    max_bytes
        Length of the page, as sent and as decoded.
    max_redirects
        How many redirects to follow.
    decode
        Makes bytes for the parser of the body and its Content-Type.

    Returns
    -------
    PageBatch
        Of one page, under the address it was found at in the end.

    Raises
    ------
    PageError
        No answer, a refusal, something else than HTML, or more than the limits allow.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise PageError(f"cannot fetch {url!r}: expected an address that begins with http:// or https://")
    options = RequestOptions(timeout, total_timeout=timeout, max_redirects=max_redirects, headers=_HEADERS)
    try:
        final_url, content_type, content_encoding, body = _download(url, options, max_bytes)
        page = undo_content_encoding(body, content_encoding, max_bytes)
    except RequestFailed as failure:
        raise PageError(str(failure)) from failure
    except BodyTooLong:
        raise PageError(f"{url} is longer than {max_bytes} bytes: save it to a file to use it all the same") from None
    html = decode(page, content_type)
    if not _is_html(html, content_type):
        raise PageError(f"{url} is {content_type or 'of no declared type'}, expected an HTML page")
    digest = "sha1:" + base64.b32encode(hashlib.sha1(page).digest()).decode()
    return PageBatch([html], [final_url], [None], [200], [final_url], [0], [len(page)], [digest])


def _download(url: str, options: RequestOptions, max_bytes: int) -> tuple[str, str, str, bytes]:
    stream = open_url(url, options)
    try:
        pieces: list[bytes] = []
        n_bytes = 0
        while piece := stream.read(2**16):
            pieces.append(piece)
            n_bytes += len(piece)
            if n_bytes > max_bytes:
                raise BodyTooLong
        return stream.url, stream.content_type, stream.content_encoding, b"".join(pieces)
    finally:
        stream.close()


def _is_html(html: bytes, content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    if "html" in media_type:
        return bool(html) and not looks_binary(html[:2048])
    return looks_like_html(html[:2048])

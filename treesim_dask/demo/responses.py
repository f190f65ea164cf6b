"""What the synthetic servers answer: pages, and in between what a crawler meets besides them."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from random import Random

from treesim_dask.demo.pages import DemoPage, page_date
from treesim_dask.demo.sites import N_SITES, Site, make_site

# About one answer in twelve is no page: fewer than in a real crawl, so that a small demo is mostly pages.
_OTHER_SHARE = 0.08
_CHUNK_BYTES = 8192
_PNG_START = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response.

    Parameters
    ----------
    url, date
        What was asked for, and when.
    status
        Code and reason, as in ``200 OK``.
    headers
        Name and value of each header but the length of the body.
    body
        As stored: compressed or chunked where the headers say so.
    payload_type
        What the crawler took the payload for.
    site
        Who answered.
    """

    url: str
    date: datetime
    status: str
    body: bytes
    payload_type: str
    site: Site
    headers: tuple[tuple[str, str], ...] = field(default=())

    @property
    def http_bytes(self) -> bytes:
        """Status line, headers and body."""
        lines = [f"HTTP/1.1 {self.status}", *(f"{name}: {value}" for name, value in self.headers)]
        lines += (f"Server: {self.site.server}", f"Date: {format_datetime(self.date, usegmt=True)}")
        if ("Transfer-Encoding", "chunked") not in self.headers:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + self.body


def page_response(page: DemoPage) -> Response:
    """Return the response that carries a page, with the transport of its site.

    Examples
    --------
    >>> from treesim_dask.demo.pages import demo_page
    >>> page_response(demo_page(1, 0)).status
    '200 OK'
    """
    transport = page.site.transport
    headers = [("Content-Type", page.content_type)]
    body = page.html
    if transport == "decoded":
        headers.append(("X-Crawl-Content-Encoding", "gzip"))
    if transport.startswith("gzip"):
        headers.append(("Content-Encoding", "gzip"))
        body = zlib.compress(body, 1, wbits=31)
    if transport.endswith("chunked"):
        headers.append(("Transfer-Encoding", "chunked"))
        body = chunk_body(body)
    return Response(page.url, page.date, "200 OK", body, "text/html", page.site, tuple(headers))


def chunk_body(body: bytes) -> bytes:
    r"""Return a body in chunked transfer coding.

    Examples
    --------
    >>> chunk_body(b"page")
    b'4\r\npage\r\n0\r\n\r\n'
    """
    chunks = (body[start : start + _CHUNK_BYTES] for start in range(0, len(body), _CHUNK_BYTES))
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def other_response(seed: int, number: int) -> Response | None:
    """Return what the crawler met right after page `number` besides pages, mostly nothing.

    Redirects, missing pages, pictures, JSON, PDF, and answers too short to be a page.

    Examples
    --------
    >>> statuses = {other.status for number in range(400) if (other := other_response(1, number))}
    >>> sorted(statuses)
    ['200 OK', '301 Moved Permanently', '404 Not Found']
    """
    rng = Random(f"other {number} of {seed}")
    if rng.random() >= _OTHER_SHARE:
        return None
    site = make_site(seed, int(N_SITES * rng.random()))
    sort = _OTHERS[int(rng.random() * len(_OTHERS))]
    path, status, content_type, body = sort(rng, site, number)
    headers = [("Content-Type", content_type)]
    if status.startswith("301"):
        headers.append(("Location", f"https://{site.host}/"))
    payload_type = content_type.partition(";")[0]
    url = f"https://{site.host}{path}"
    return Response(url, page_date(number), status, body, payload_type, site, tuple(headers))


Answer = tuple[str, str, str, bytes]


def _redirect(rng: Random, site: Site, number: int) -> Answer:
    body = (
        f'<html><head><title>301 Moved</title></head><body>See <a href="https://{site.host}/">here</a>.</body></html>'
    )
    return f"/old/{number}", "301 Moved Permanently", "text/html", body.encode()


def _missing(rng: Random, site: Site, number: int) -> Answer:
    body = (
        f"<!DOCTYPE html><html><head><title>404</title></head><body><h1>Not found</h1>"
        f'<p>There is no page {number} on {site.host}.</p><p><a href="/">Home</a></p></body></html>'
    )
    return f"/gone/{number}", "404 Not Found", "text/html; charset=utf-8", body.encode()


def _picture(rng: Random, site: Site, number: int) -> Answer:
    return f"/media/{number}.png", "200 OK", "image/png", _PNG_START + _noise(rng, 2000)


def _document(rng: Random, site: Site, number: int) -> Answer:
    body = b"%PDF-1.7\n1 0 obj <</Type /Catalog>> endobj\nstream\n" + _noise(rng, 4000) + b"\nendstream\n%%EOF\n"
    return f"/files/{number}.pdf", "200 OK", "application/pdf", body


def _data(rng: Random, site: Site, number: int) -> Answer:
    items = [{"id": int(rng.random() * 10**6), "price": int(rng.random() * 10**4) / 100} for _ in range(20)]
    return f"/api/items/{number}.json", "200 OK", "application/json", json.dumps({"items": items}).encode()


def _short(rng: Random, site: Site, number: int) -> Answer:
    return f"/ping/{number}", "200 OK", "text/html", b"<html><body>OK</body></html>"


def _noise(rng: Random, n_bytes: int) -> bytes:
    return rng.getrandbits(8 * n_bytes).to_bytes(n_bytes, "little")


_OTHERS = (_redirect, _redirect, _redirect, _missing, _missing, _picture, _document, _data, _short)

"""HTTP GET requests: one answer as a stream, every failure as one clear line.

aiohttp runs on fsspec's event loop thread, so that this works inside notebooks and Dask workers, which have loops
of their own. Bodies come as they were sent: archives are compressed themselves.
"""

from __future__ import annotations

import re
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from fsspec.asyn import get_loop, sync

from treesim_dask import __version__

DEFAULT_TIMEOUT = 60.0  # seconds without a single byte
USER_AGENT = f"treesim-dask/{__version__}"

_T = TypeVar("_T")
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_TEMPORARY_STATUSES = {408, 425, 429, 500, 502, 503, 504}
_WHAT_TO_DO = {
    401: "the server wants a login: pass it as a header in the storage options",
    403: "the server refuses this address: check it, or pass credentials in the storage options",
    404: "there is no such file: check the spelling",
    410: "the file is gone from the server",
    429: "the server asks for fewer requests: try again later, or with a lower --max-connections",
    503: "the server is overloaded: try again later, or with a lower --max-connections",
}


class RequestFailed(Exception):
    """A request without a usable answer.

    ``is_temporary``: the same request may succeed later; ``retry_after``: not before so many seconds.
    """

    def __init__(
        self, message: str, *, is_temporary: bool, status: int | None = None, retry_after: float = 0.0
    ) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """How to ask: the part of fsspec's HTTP storage options that concerns a single GET.

    Parameters
    ----------
    timeout
        Seconds to wait for a connection or for the next bytes.
    total_timeout
        Seconds for the whole answer, None for no limit (an archive may take an hour).
    max_redirects
        How many redirects to follow.
    headers, client_kwargs
        Request headers; further arguments of ``aiohttp.ClientSession`` such as ``auth``.
    """

    timeout: float = DEFAULT_TIMEOUT
    total_timeout: float | None = None
    max_redirects: int = 10
    headers: Mapping[str, str] = field(default_factory=dict)
    client_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_storage_options(cls, options: Mapping[str, Any] | None) -> RequestOptions:
        """Take what concerns HTTP out of storage options."""
        known = {
            name: (options or {})[name] for name in ("timeout", "headers", "client_kwargs") if name in (options or {})
        }
        return cls(**known)


class WebStream:
    """The body of one answer, read in pieces. ``start`` is where it begins in the file, ``size`` the file's size."""

    def __init__(self, session: aiohttp.ClientSession, answer: aiohttp.ClientResponse, url: str) -> None:
        self._session = session
        self._answer = answer
        self._asked_url = url
        self.url = str(answer.url)
        self.content_type = answer.headers.get("Content-Type", "")
        self.content_encoding = answer.headers.get("Content-Encoding", "")
        self.version = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        is_part = answer.status == 206
        self.start, self.size = content_extent(
            answer.headers.get("Content-Range", "") if is_part else "", answer.headers.get("Content-Length", "")
        )
        if answer.status == 416:  # only a file of 0 bytes has no byte 0
            self.size = 0

    def read(self, n_bytes: int) -> bytes:
        """Return up to `n_bytes` bytes, none at the end. A connection that breaks raises `RequestFailed`."""
        if self.size == 0:
            return b""
        return _run(self._answer.content.read(n_bytes), self._asked_url)

    def close(self) -> None:
        """Give the connection up."""
        _run(self._close(), self._asked_url)

    async def _close(self) -> None:
        self._answer.close()
        await self._session.close()


def open_url(url: str, options: RequestOptions, *, start: int = 0, end: int | None = None) -> WebStream:
    """Ask for bytes `start` to `end` (exclusive) of `url`; a server may answer with the whole file all the same."""
    return _run(_open(url, options, start, end), url, options)


async def _open(url: str, options: RequestOptions, start: int, end: int | None) -> WebStream:
    session_options = dict(options.client_kwargs)
    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **options.headers}
    if login := session_options.pop("auth", None):  # of a session it would follow redirects to other servers
        headers["Authorization"] = login.encode()
    # environment variables name proxies; with them comes netrc, which may have another login than the one given
    has_login = any(name.lower() == "authorization" for name in headers)
    if start or end is not None:
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
    timeout = aiohttp.ClientTimeout(options.total_timeout, sock_connect=options.timeout, sock_read=options.timeout)
    # aiohttp drops what it has buffered when a connection breaks: a small buffer loses little
    session = aiohttp.ClientSession(
        timeout=timeout, auto_decompress=False, trust_env=not has_login, read_bufsize=2**16, **session_options
    )
    try:
        proxy = _find_proxy(url) if has_login else None
        answer = await session.get(url, headers=headers, max_redirects=options.max_redirects, proxy=proxy)
        if answer.status >= 300 and not (answer.status == 416 and start == 0):  # 416 at 0: a file of 0 bytes
            answer.close()
            raise _refusal(url, answer.status, answer.reason, answer.headers.get("Retry-After", ""))
        return WebStream(session, answer, url)
    except BaseException:
        await session.close()
        raise


def _find_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for `url`."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def content_extent(content_range: str, content_length: str) -> tuple[int, int | None]:
    """Return where a body begins in the file, and the size of the file where the header fields tell it.

    Examples
    --------
    >>> content_extent("bytes 100-199/5000", "100"), content_extent("", "5000"), content_extent("", "")
    ((100, 5000), (0, 5000), (0, None))
    """
    if match := _CONTENT_RANGE.match(content_range):
        return int(match[1]), None if match[2] == "*" else int(match[2])
    return 0, int(content_length) if content_length.isdigit() else None


def _run(work: Coroutine[Any, Any, _T], url: str, options: RequestOptions | None = None) -> _T:
    """Run `work` on the loop thread; say in one line what went wrong."""

    async def guarded() -> _T:
        try:
            return await work
        except aiohttp.ClientError as error:
            raise _failure(url, error) from error
        except TimeoutError as error:
            seconds = f" within {options.total_timeout or options.timeout:g} seconds" if options else " in time"
            raise RequestFailed(f"no answer from {url}{seconds}: try again later", is_temporary=True) from error
        except (ValueError, UnicodeError) as error:
            raise RequestFailed(f"not a usable web address: {url!r}: {error}", is_temporary=False) from error
        except OSError as error:
            raise RequestFailed(f"connection to {url} failed: {error}", is_temporary=True) from error

    result: _T = sync(get_loop(), guarded)
    return result


def _failure(url: str, error: aiohttp.ClientError) -> RequestFailed:
    match error:
        case aiohttp.NonHttpUrlClientError() | aiohttp.InvalidURL():
            return RequestFailed(f"not a usable web address: {url!r}: expected http:// or https://", is_temporary=False)
        case aiohttp.TooManyRedirects():
            return RequestFailed(f"{url} redirects too often: give the final address", is_temporary=False)
        case aiohttp.ClientConnectorDNSError():
            return RequestFailed(
                f"no host {error.host!r} for {url}: check the spelling and the network", is_temporary=False
            )
        case aiohttp.ClientSSLError():
            return RequestFailed(f"no secure connection to {url}: {error}", is_temporary=False)
        case aiohttp.ServerTimeoutError():
            return RequestFailed(f"no answer from {url} in time: try again later", is_temporary=True)
        case _:
            return RequestFailed(f"connection to {url} failed: {str(error) or type(error).__name__}", is_temporary=True)


def wait_seconds(retry_after: str, now: float) -> float:
    """Return how long a Retry-After header asks to wait: it gives seconds or a date.

    Examples
    --------
    >>> wait_seconds("120", 0.0), wait_seconds("Thu, 01 Jan 1970 00:01:00 GMT", 10.0), wait_seconds("soon", 0.0)
    (120.0, 50.0, 0.0)
    """
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - now)
    except ValueError:
        return 0.0


def _refusal(url: str, status: int, phrase: str | None, retry_after: str) -> RequestFailed:
    advice = _WHAT_TO_DO.get(status, "try again later" if status >= 500 else "check the address")
    message = f"{url} answered {status} {phrase or ''}".rstrip() + f": {advice}"
    wait = wait_seconds(retry_after, time.time())
    return RequestFailed(message, is_temporary=status in _TEMPORARY_STATUSES, status=status, retry_after=wait)

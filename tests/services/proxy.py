"""A proxy between client and store that counts requests and lets some of them go wrong.

Which request goes wrong is decided by a hash of the request and of how often it was made: the same requests meet the
same faults in whatever order they come, and a retry meets another fate than its predecessor.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from services.serving import serve_app

UNAVAILABLE, RESET, TRUNCATED, LATE, FLIPPED = "503", "reset", "truncated", "late", "flipped"
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "content-encoding", "keep-alive"}
_SLOW_DOWN = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_DELAY_SECONDS = 0.3


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: str
    range: str
    payer: str
    fault: str | None


@dataclass
class FaultProxy:
    """Faults by name with their share of all requests; `only` restricts them to paths that contain it."""

    upstream: str
    rates: Mapping[str, float] = field(default_factory=dict)
    only: str = ""
    requests: list[Request] = field(default_factory=list)
    endpoint: str = ""
    _times_seen: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def begin(self, rates: Mapping[str, float] | None = None, only: str = "") -> None:
        """Forget what was counted, and go on with these faults."""
        self.rates, self.only = rates or {}, only
        self.requests.clear()
        self._times_seen.clear()

    def count(self, method: str = "", path_end: str = "", fault: str = "") -> int:
        return sum(
            request.method.startswith(method)
            and request.path.endswith(path_end)
            and (not fault or request.fault == fault)
            for request in self.requests
        )

    def choose_fault(self, request: web.Request) -> str | None:
        key = (request.method, request.path_qs, request.headers.get("Range", ""))
        self._times_seen[key] += 1
        if self.only not in request.path:
            return None
        digest = hashlib.blake2b(repr((key, self._times_seen[key])).encode(), digest_size=8).digest()
        draw = int.from_bytes(digest, "big") / 2**64
        for fault, rate in self.rates.items():
            if draw < rate:
                return fault
            draw -= rate
        return None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        fault = self.choose_fault(request)
        told = (request.headers.get(name, "") for name in ("Range", "x-amz-request-payer"))
        self.requests.append(Request(request.method, request.path, request.query_string, *told, fault))
        if fault == UNAVAILABLE:
            return web.Response(status=503, text=_SLOW_DOWN, content_type="application/xml")
        if fault == RESET:
            return _reset(request)
        if fault == LATE:
            await asyncio.sleep(_DELAY_SECONDS)
        headers = {k: v for k, v in request.headers.items() if k.lower() != "connection"}
        async with self.session.request(
            request.method,
            self.upstream + request.raw_path,
            headers=headers,
            data=_flip(body) if fault == FLIPPED and request.method == "PUT" else body or None,
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding", "Content-Type"),
        ) as answer:
            return await self._pass_on(request, answer, fault)

    async def _pass_on(
        self, request: web.Request, answer: aiohttp.ClientResponse, fault: str | None
    ) -> web.StreamResponse:
        data = await answer.read()
        passed = web.StreamResponse(
            status=answer.status, headers=[(k, v) for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP]
        )
        passed.content_length = (
            int(answer.headers.get("Content-Length", "0")) if request.method == "HEAD" else len(data)
        )
        await passed.prepare(request)
        if request.method == "HEAD":
            await passed.write_eof()
            return passed
        if fault == FLIPPED and request.method == "GET":
            data = _flip(data)
        if fault == TRUNCATED and len(data) > 1:
            await passed.write(data[: len(data) // 2])
            await asyncio.sleep(0.02)
            return _reset(request)
        await passed.write(data)
        await passed.write_eof()
        return passed

    async def keep_session(self, app: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(auto_decompress=False, connector=connector) as self.session:
            yield


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x5A]) + data[middle + 1 :] if data else data


def _reset(request: web.Request) -> web.Response:
    """Break the connection as a crashing server does."""
    transport = request.transport
    if transport is not None:
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()
    return web.Response()


@contextmanager
def run_proxy(upstream: str) -> Iterator[FaultProxy]:
    proxy = FaultProxy(upstream)
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    app.cleanup_ctx.append(proxy.keep_session)
    with serve_app(app) as proxy.endpoint:
        yield proxy

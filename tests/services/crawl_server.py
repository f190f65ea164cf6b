"""A web server with Common Crawl's layout that can be slow, overloaded, moved or closed."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from services.serving import serve_app

_PIECE = 4096


@dataclass
class CrawlServer:
    """Serves the files of `folder`.

    `seconds_per_file` spreads a file over that time; `n_overloaded` first requests of every file get a 503 with
    Retry-After `retry_after`; `statuses` gives a fixed answer to paths that contain a text.
    """

    folder: Path
    url: str = ""
    seconds_per_file: float = 0.0
    n_overloaded: int = 0
    retry_after: str = "1"
    statuses: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[float, str, str, str]] = field(default_factory=list)
    n_open: int = 0
    most_open: int = 0

    def begin(self, **settings: object) -> None:
        """Forget what was counted, and go on with these settings."""
        defaults = {"seconds_per_file": 0.0, "n_overloaded": 0, "retry_after": "1", "statuses": {}}
        for name, value in {**defaults, **settings}.items():
            setattr(self, name, value)
        self.requests.clear()
        self.most_open = 0

    def times(self, path_end: str) -> list[float]:
        """When a file was asked for."""
        return [when for when, path, _, _ in self.requests if path.endswith(path_end)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        agent = request.headers.get("User-Agent", "")
        self.requests.append((time.monotonic(), path, request.headers.get("Range", ""), agent))
        for text, status in self.statuses.items():
            if text in path:
                return web.Response(status=status, headers={"Location": path.replace(text, "")} if status < 400 else {})
        if len(self.times(path)) <= self.n_overloaded:
            return web.Response(status=503, headers={"Retry-After": self.retry_after})
        file = self.folder / path.lstrip("/")
        if not file.is_file():
            return web.Response(status=404)
        if not self.seconds_per_file or not path.endswith(".warc.gz"):
            return web.FileResponse(file)
        return await self._send_slowly(request, file.read_bytes())

    async def _send_slowly(self, request: web.Request, data: bytes) -> web.StreamResponse:
        first = int(request.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        headers = {"Content-Range": f"bytes {first}-{len(data) - 1}/{len(data)}"} if first else {}
        answer = web.StreamResponse(status=206 if first else 200, headers=headers)
        answer.content_length = len(data) - first
        self.n_open += 1
        self.most_open = max(self.most_open, self.n_open)
        try:
            await answer.prepare(request)
            for start in range(first, len(data), _PIECE):
                await asyncio.sleep(self.seconds_per_file * _PIECE / len(data))
                await answer.write(data[start : start + _PIECE])
            await answer.write_eof()
        finally:
            self.n_open -= 1
        return answer


@contextmanager
def run_crawl_server(folder: Path, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[CrawlServer]:
    server = CrawlServer(folder)
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    with serve_app(app, host, tls) as server.url:
        yield server

"""A real HTTP server on this machine, with the faults that servers have."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What a server serves, and what it was asked for.

    ``files`` are answered with ranges. ``statuses`` answer with a status, ``redirects`` with a 302, ``stalls`` never.
    ``breaks`` says after how many bytes of a body each of the next connections breaks; a file in ``changes`` has
    other bytes after that.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    statuses: dict[str, list[int]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    stalls: set[str] = field(default_factory=set)
    breaks: dict[str, list[int]] = field(default_factory=dict)
    changes: dict[str, bytes] = field(default_factory=dict)
    ignores_ranges: bool = False
    shifts_ranges: int = 0
    sends_chunked: bool = False
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        site, path = self.site, self.path
        site.requests.append((path, self.headers.get("Range")))
        site.logins.append(self.headers.get("Authorization"))
        if path in site.stalls:
            time.sleep(3)
            self.close_connection = True
        elif site.statuses.get(path):
            self._answer(site.statuses[path].pop(0), b"no")
        elif path in site.redirects:
            self._answer(302, b"", Location=site.redirects[path])
        elif path in site.files:
            self._send_file(site.files[path])
        else:
            self._answer(404, b"no such page")

    def _send_file(self, data: bytes) -> None:
        headers = self.site.headers.get(self.path, {})
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not match or self.site.ignores_ranges:
            self._answer(200, data, **headers)
            return
        start, end = int(match[1]), min(int(match[2] or len(data) - 1), len(data) - 1)
        if start > end:
            self._answer(416, b"", Content_Range=f"bytes */{len(data)}")
            return
        start += self.site.shifts_ranges
        self._answer(206, data[start : end + 1], Content_Range=f"bytes {start}-{end}/{len(data)}", **headers)

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if self.site.sends_chunked and status == 200:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status < 300 and self.site.breaks.get(self.path):
            n_sent = self.site.breaks[self.path].pop(0)
            self.site.files[self.path] = self.site.changes.get(self.path, self.site.files[self.path])
            self.wfile.write(body[:n_sent])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *arguments: object) -> None:
        """Say nothing: clients hang up when they have what they want."""


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    """Serve a site on a free port."""
    handler = type("Handler", (_Handler,), {"site": site})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

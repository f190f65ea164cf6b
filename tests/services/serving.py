"""An aiohttp application on a thread of its own, so that the test can look at its counts while it serves."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web


@contextmanager
def serve_app(app: web.Application, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve on a free port until the block ends; the value is the address."""
    ready = threading.Event()
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()
    ports: list[int] = []

    async def serve() -> None:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, host, 0, ssl_context=tls).start()
        ports.append(runner.addresses[0][1])
        ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10), "the server did not start"
        yield f"{'https' if tls else 'http'}://{host}:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        loop.close()

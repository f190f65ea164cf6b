"""Progress inside long files: workers say how many pages they have read; the client and the dashboard show it.

A file may take minutes, and a bar that moves once in minutes looks dead. Each worker publishes at most one event a
second, and shows its pages and pages a second as columns of the dashboard's worker table.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, Worker, get_worker

_INTERVAL = 1.0


class PageMeter:
    """Counts the pages of one source on the worker that reads it, and publishes the count now and then.

    Parameters
    ----------
    source_url
        What is read.
    topic
        Where the count is published, see `watch_pages`.
    """

    def __init__(self, source_url: str, topic: str) -> None:
        self._source_url, self._topic = source_url, topic
        self._worker: Worker = get_worker()
        self._n_pages = 0
        self._started = time.monotonic()
        self._published = self._started
        self._worker.metrics["pages"] = lambda worker: self._n_pages
        self._worker.metrics["pages_per_s"] = lambda worker: round(self.rate, 1)

    @property
    def rate(self) -> float:
        """Pages a second."""
        return self._n_pages / max(time.monotonic() - self._started, 1e-9)

    def add(self, n_pages: int) -> None:
        """Count pages that were just indexed."""
        self._n_pages += n_pages
        now = time.monotonic()
        if now - self._published >= _INTERVAL:
            self._published = now
            self._worker.log_event(self._topic, {"source": self._source_url, "n_pages": self._n_pages})


@contextmanager
def watch_pages(client: Client, on_pages: Callable[[str, int], None]) -> Iterator[str]:
    """Call `on_pages` with a source and its pages so far, on another thread, as the workers publish them.

    Yields the topic to publish them under: each build on a scheduler has its own.
    """
    topic = f"treesim-pages-{uuid.uuid4().hex}"

    def take(event: tuple[float, Any]) -> None:
        _, message = event
        on_pages(message["source"], message["n_pages"])

    client.subscribe_topic(topic, take)
    try:
        yield topic
    finally:
        client.unsubscribe_topic(topic)

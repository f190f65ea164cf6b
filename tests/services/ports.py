"""Ports nobody uses, and waiting for somebody to use one."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack


def free_ports(n_ports: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n_ports)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


def wait_until(what: str, is_so: Callable[[], bool], seconds: float = 60.0, interval: float = 0.1) -> None:
    """Return as soon as `is_so` says yes; fail after a bound."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:g} seconds")
        time.sleep(interval)

"""What the command line shows: tables of matches, progress with rate and time left, sizes and times for people."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

_SHOW_AFTER_SECONDS = 2.0
_TERMINAL_INTERVAL = 0.2
_LOG_INTERVAL = 10.0
_TELLING_COUNT = 3
# control characters of both sets, line and paragraph separators, changes of direction, halves of characters
_ACTED_UPON = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Progress:
    """A line on standard error that is rewritten on a terminal, and repeated now and then in a log.

    Nothing is shown for work that ends within two seconds.

    Parameters
    ----------
    quiet
        Show nothing at all.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._is_terminal = self._stream.isatty()
        self._started = time.monotonic()
        self._shown_at = self._started + _SHOW_AFTER_SECONDS
        self._is_open = False

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._started

    def show(self, text: str) -> None:
        """Show a line if it is time to."""
        now = time.monotonic()
        if self._quiet or now < self._shown_at:
            return
        self._shown_at = now + (_TERMINAL_INTERVAL if self._is_terminal else _LOG_INTERVAL)
        self._is_open = self._is_terminal
        self._stream.write(f"\r{text}\x1b[K" if self._is_terminal else f"{text}\n")
        self._stream.flush()

    def count(self, what: str, done: int, total: int) -> None:
        """Show how many of `total` are done, with rate and time left once these can be told."""
        text = f"{what} {done:,}/{total:,}"
        if done >= _TELLING_COUNT:  # the first ones pay for the start
            rate = done / max(self.seconds, 1e-9)
            text += f", {rate:,.0f}/s, {format_seconds((total - done) / rate)} left"
        self.show(text)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the line on a terminal."""
        if self._is_open:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_open = False


def printable(text: str) -> str:
    """Write out what a terminal acts upon instead of showing it: escape sequences, changes of direction, line breaks.

    Whoever makes a page chooses its address, and so what stands here.

    Examples
    --------
    >>> printable("http://example.org/\\x1b[31mred")
    'http://example.org/\\\\x1b[31mred'
    """
    return _ACTED_UPON.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def tell(text: str) -> None:
    """Print a line on standard error."""
    print(printable(text), file=sys.stderr)


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    """Lay out columns of text, those marked in `right` aligned to the right; see `printable`.

    Examples
    --------
    >>> print(format_table(["n", "url"], [["1", "a"], ["10", "b"]], [True, False]))
     n  url
     1  a
    10  b
    """
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def format_bytes(n_bytes: float) -> str:
    """Write a size for people.

    Examples
    --------
    >>> format_bytes(512), format_bytes(3.5 * 2**20)
    ('512 B', '3.5 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.1f} TiB"


def format_seconds(seconds: float) -> str:
    """Write a time for people.

    Examples
    --------
    >>> format_seconds(4.2), format_seconds(75), format_seconds(7260)
    ('4 s', '1:15 min', '2:01 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)}:{int(seconds % 60):02} min"
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02} h"

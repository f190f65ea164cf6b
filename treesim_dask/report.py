"""What a build did, and while it runs, how far it is."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from treesim_dask.dataflow import Outcome, SourceFailure
from treesim_dask.index.segment import SegmentSummary, segment_id_of

_INNER = ("outdated", "finished", "running", "started")  # no part of what a program is told


@dataclass(slots=True)
class BuildReport:
    """What a build did, and while it runs, how far it is.

    ``n_sources`` were asked for, ``n_already_indexed`` of them needed nothing; ``n_done`` are finished in this run,
    ``n_replaced`` of them were indexed before as they were then, or with another page filter, and lost those pages;
    ``failures`` gave no segment and ``empty`` no page. Counts are of this run. Times are wall-clock seconds:
    ``start_seconds`` until the workers are there, ``seconds`` from then on; ``core_seconds`` is how long the workers
    were busy, all together, without what they waited for processors that others used.
    """

    n_sources: int = 0
    n_already_indexed: int = 0
    n_replaced: int = 0
    n_done: int = 0
    n_pages: int = 0
    n_shapes: int = 0
    n_html_bytes: int = 0
    n_index_bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    damage: list[tuple[str, str, int]] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    failures: list[SourceFailure] = field(default_factory=list)
    start_seconds: float = 0.0
    seconds: float = 0.0
    core_seconds: float = 0.0
    outdated: set[str] = field(default_factory=set, repr=False)
    finished: set[str] = field(default_factory=set, repr=False)
    running: dict[str, int] = field(default_factory=dict, repr=False)
    started: float = field(default_factory=time.monotonic, repr=False)

    @property
    def n_pending(self) -> int:
        """Sources of this run that are not finished yet."""
        return self.n_sources - self.n_already_indexed - self.n_done - len(self.failures)

    @property
    def failed_segments(self) -> set[str]:
        """The segments that the failed sources would have given."""
        return {segment_id_of(failure.source_url) for failure in self.failures}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {**asdict(self), "skipped": dict(self.skipped)}
        return {name: value for name, value in values.items() if name not in _INNER}

    def __str__(self) -> str:
        n_files = self.n_sources - self.n_already_indexed
        rate = self.n_pages_so_far / max(self.seconds, 1e-9)
        return f"files {n_files - self.n_pending:,}/{n_files:,}, pages {self.n_pages_so_far:,} ({rate:,.0f}/s)"

    @property
    def n_pages_so_far(self) -> int:
        """Pages of this run, those of unfinished sources included."""
        # what a worker said of a source may arrive, on another thread, after the source is finished
        running = list(self.running.items())
        return self.n_pages + sum(n_pages for source_url, n_pages in running if source_url not in self.finished)

    def start(self) -> None:
        """Note that the workers are there."""
        now = time.monotonic()
        self.start_seconds, self.started = now - self.started, now

    def stop_clock(self) -> None:
        """Note how long it took so far."""
        self.seconds = time.monotonic() - self.started

    def note_pages(self, source_url: str, n_pages: int) -> None:
        """Note how far a source is that is not finished."""
        self.running[source_url] = n_pages
        self.stop_clock()

    def add(self, outcome: Outcome, core_seconds: float = 0.0) -> None:
        """Count one finished source."""
        self.core_seconds += core_seconds
        self.stop_clock()
        self.finished.add(outcome.source_url)
        self.running.pop(outcome.source_url, None)
        if not isinstance(outcome, SegmentSummary):
            self.failures.append(outcome)
            return
        self.n_done += 1
        self.n_replaced += outcome.source_url in self.outdated
        self.n_pages += outcome.n_pages
        self.n_shapes += outcome.n_shapes
        self.n_html_bytes += outcome.n_html_bytes
        self.n_index_bytes += outcome.n_bytes
        self.skipped.update(outcome.skipped)
        self.damage.extend((reason, warc, offset) for reason, warc, offset in outcome.damage)
        if not outcome.n_pages:
            self.empty.append(outcome.source_url)

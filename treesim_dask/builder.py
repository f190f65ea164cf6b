"""A build from inputs to a finished index: what is left to do, doing it, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from treesim_dask.clients import open_client
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.crawl.inputs import DEFAULT_CRAWL_BASE_URL
from treesim_dask.dataflow import BuildJob, Outcome, SourceFailure, build_segments
from treesim_dask.errors import IndexFormatError, SourceError
from treesim_dask.index.deletion import delete_sources
from treesim_dask.index.live import IndexedSource, live_sources
from treesim_dask.index.manifest import MANIFEST, check_parameters, read_manifest, write_manifest
from treesim_dask.index.segment import SEGMENTS, SegmentSummary, list_segments, segment_id_of
from treesim_dask.index.store import STAGING, Store, check_is_folder
from treesim_dask.inputs import resolve_inputs
from treesim_dask.types import Source

if TYPE_CHECKING:
    from distributed import Client


@dataclass(slots=True)
class BuildReport:
    """What a build did, and while it runs, how far it is.

    ``n_sources`` were asked for, ``n_already_indexed`` of them needed nothing; ``n_done`` are finished in this run,
    ``failures`` gave no segment and ``empty`` no page. Counts are of this run.
    """

    n_sources: int = 0
    n_already_indexed: int = 0
    n_done: int = 0
    n_pages: int = 0
    n_shapes: int = 0
    n_html_bytes: int = 0
    n_index_bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    damage: list[tuple[str, str, int]] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    failures: list[SourceFailure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def n_pending(self) -> int:
        """Sources of this run that are not finished yet."""
        return self.n_sources - self.n_already_indexed - self.n_done - len(self.failures)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "skipped": dict(self.skipped)}

    def timed(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Pass outcomes on, keeping `seconds` up to date."""
        started = time.monotonic()
        for outcome in outcomes:
            self.seconds = time.monotonic() - started
            yield outcome

    def add(self, outcome: Outcome) -> None:
        """Count one finished source."""
        if not isinstance(outcome, SegmentSummary):
            self.failures.append(outcome)
            return
        self.n_done += 1
        self.n_pages += outcome.n_pages
        self.n_shapes += outcome.n_shapes
        self.n_html_bytes += outcome.n_html_bytes
        self.n_index_bytes += outcome.n_bytes
        self.skipped.update(outcome.skipped)
        self.damage.extend((reason, warc, offset) for reason, warc, offset in outcome.damage)
        if not outcome.n_pages:
            self.empty.append(outcome.source_url)


def build(
    inputs: Sequence[str] | str,
    index: str,
    *,
    config: IndexConfig | Mapping[str, Any] | None = None,
    page_filter: PageFilter | None = None,
    limit: int | None = None,
    sample: int | None = None,
    sample_seed: int = 0,
    strict: bool = False,
    vectors: bool = True,
    client: Client | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index_options: Mapping[str, Any] | None = None,
    crawl_base_url: str = DEFAULT_CRAWL_BASE_URL,
    on_progress: Callable[[BuildReport], None] = lambda report: None,
    on_start: Callable[[Client], None] = lambda client: None,
) -> BuildReport:
    """Index the pages of a crawl; add to the index where there is one.

    Sources that are in the index already are left alone, so the same call after an interruption does the rest.

    Parameters
    ----------
    inputs
        Archives, folders, globs, URLs, lists of paths, Common Crawl ids, HTML files; extracts of a crawl's index
        (``.cdxj``, ``.jsonl`` or ``.parquet`` with file, offset and length of each page), read by range.
    index
        Where the index lies or shall lie: a local path or any fsspec URL.
    config
        The index parameters, or some of them by name; the others are those of the existing index, or the defaults
        for a new one.
    page_filter
        Which pages to index.
    limit, sample, sample_seed
        Take the first `limit` input files, or a seeded random choice of `sample`.
    strict
        Treat a damaged WARC record as a failure of its file.
    vectors
        False stores no branch vectors, which saves space: queries then read their candidates again from the archives,
        by offset and length, and answer the same.
    client, workers, scheduler, scheduler_file
        Where to run: a connected Dask client, a number of local processes, or a running scheduler.
    storage_options, index_options
        For the fsspec file systems of the inputs and of the index.
    crawl_base_url
        Where crawl ids are looked up.
    on_progress
        Called with the report after each finished source.
    on_start
        Called with the Dask client once the work is about to start.
    """
    page_filter = page_filter or PageFilter()
    store = Store(index, index_options)
    existing = _existing_parameters(store)
    config = _wanted_parameters(existing, config)
    if existing is not None:
        check_parameters(store, config)
    sources = resolve_inputs(
        [inputs] if isinstance(inputs, str) else inputs,
        limit=limit,
        sample=sample,
        seed=sample_seed,
        storage_options=storage_options,
        crawl_base_url=crawl_base_url,
    )
    pending = _pending_sources(store, sources, page_filter)
    report = BuildReport(n_sources=len(sources), n_already_indexed=len(sources) - len(pending))
    if pending:
        job = BuildJob(
            index, config, page_filter, strict, dict(index_options or {}), dict(storage_options or {}), vectors
        )
        with ExitStack() as stack:
            if client is None:
                client = stack.enter_context(open_client(workers, scheduler, scheduler_file))
            if existing is None:
                stack.enter_context(_new_index(store, config))
            on_start(client)
            for outcome in report.timed(build_segments(client, pending, job)):
                report.add(outcome)
                on_progress(report)
            _refuse_total_failure(report)
    _remove_leftovers(store, sources)
    return report


def _existing_parameters(store: Store) -> IndexConfig | None:
    """Return the parameters of the index that is there, or None."""
    check_is_folder(store)
    if not store.exists(MANIFEST):
        if store.exists(SEGMENTS):
            raise IndexFormatError(f"{store.url} holds segments but no {MANIFEST}; restore it from a copy")
        return None
    return read_manifest(store)


def _wanted_parameters(existing: IndexConfig | None, given: IndexConfig | Mapping[str, Any] | None) -> IndexConfig:
    if isinstance(given, IndexConfig):
        return given
    return replace(existing or IndexConfig(), **(given or {}))


@contextmanager
def _new_index(store: Store, config: IndexConfig) -> Iterator[None]:
    """Write the parameters of a new index; take them back if the block raises before a segment is published."""
    was_there = store.exists()
    write_manifest(store, config)
    try:
        yield
    except Exception:
        if not list_segments(store):
            for name in (MANIFEST, STAGING, SEGMENTS) if was_there else ("",):
                store.remove(name)
        raise


def _pending_sources(store: Store, sources: Sequence[Source], page_filter: PageFilter) -> list[Source]:
    """Return the sources that the index does not hold as they are now."""
    indexed = live_sources(store)
    pending = []
    for source in sources:
        known = indexed.get(segment_id_of(source.url))
        if known is None or not _is_current(known, source, page_filter):
            pending.append(source)
    return pending


def _is_current(known: IndexedSource, source: Source, page_filter: PageFilter) -> bool:
    same_size = None in (known.source_size, source.size) or known.source_size == source.size
    return same_size and known.page_filter == page_filter.to_dict()


def _remove_leftovers(store: Store, sources: Sequence[Source]) -> None:
    """Remove what this build has made obsolete: its own staging folders, and HTML groups that were cut differently."""
    ours = {segment_id_of(source.url) for source in sources}
    for name in store.list_names(STAGING):
        if name.split(".")[0] in ours:
            store.remove(f"{STAGING}/{name}")
    if store.exists(STAGING) and not store.list_names(STAGING):
        store.remove(STAGING)
    roots = {source.url.rpartition("#")[0] for source in sources if source.kind == "html"}
    outdated = [
        source.origin
        for source in (live_sources(store).values() if roots else ())
        if source.source_url.rpartition("#")[0] in roots and source.origin not in ours
    ]
    if outdated:
        delete_sources(store, outdated)


def _refuse_total_failure(report: BuildReport) -> None:
    """Raise where not a single source of the index could be read: the input is wrong, not the crawl."""
    if report.failures and not report.n_done and not report.n_already_indexed:
        first = report.failures[0]
        others = f" (and {len(report.failures) - 1} more)" if len(report.failures) > 1 else ""
        raise SourceError(f"{first.reason}{others}")

"""A build from inputs to a finished index: what is left to do, doing it, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from treesim_dask.clients import open_client
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.crawl.inputs import DEFAULT_CRAWL_BASE_URL
from treesim_dask.dataflow import BuildJob, Outcome, SourceFailure, build_segments, build_segments_here
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import ConfigError, IndexFormatError, SourceError, StorageError
from treesim_dask.hashing.family import make_family
from treesim_dask.index.catalog import CATALOG, forget_segments
from treesim_dask.index.deletion import delete_copies, delete_sources
from treesim_dask.index.leftovers import clear_leftovers
from treesim_dask.index.live import IndexedSource, live_sources
from treesim_dask.index.manifest import MANIFEST, check_parameters, read_manifest, write_manifest
from treesim_dask.index.segment import SEGMENTS, SegmentSummary, gather_catalog, list_segments, segment_id_of
from treesim_dask.index.store import STAGING, Store, check_is_folder
from treesim_dask.inputs import resolve_inputs
from treesim_dask.types import Source

if TYPE_CHECKING:
    from distributed import Client


@dataclass(slots=True)
class BuildReport:
    """What a build did, and while it runs, how far it is.

    ``n_sources`` were asked for, ``n_already_indexed`` of them needed nothing, ``n_replaced`` were indexed before as
    they were then, or with another page filter, and lose those pages; ``n_done`` are finished in this run,
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
        return {name: value for name, value in values.items() if name not in ("running", "started")}

    def __str__(self) -> str:
        n_files = self.n_sources - self.n_already_indexed
        rate = self.n_pages_so_far / max(self.seconds, 1e-9)
        return f"files {n_files - self.n_pending:,}/{n_files:,}, pages {self.n_pages_so_far:,} ({rate:,.0f}/s)"

    @property
    def n_pages_so_far(self) -> int:
        """Pages of this run, those of unfinished sources included."""
        return self.n_pages + sum(list(self.running.values()))

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
        self.running.pop(outcome.source_url, None)
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
    cluster: str | None = None,
    jobs: int | None = None,
    lifetime: str | None = None,
    tls: bool = False,
    shard: tuple[int, int] | None = None,
    max_connections: int | None = None,
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
    cluster, jobs, lifetime, tls
        Or in batch jobs, and encrypted; see `treesim_dask.clients.open_client`.
    shard
        ``(i, n)``: only every n-th source from the i-th on, in this process and without Dask. The n shards of a build
        may run at the same time, on any machines.
    max_connections
        How many input files all workers together may read at the same time; None for one a worker.
    storage_options, index_options
        For the fsspec file systems of the inputs and of the index.
    crawl_base_url
        Where crawl ids are looked up.
    on_progress
        Called with the report after each finished source, and now and then in between, on another thread.
    on_start
        Called with the Dask client once the work is about to start.
    """
    page_filter = page_filter or PageFilter()
    where: dict[str, Any] = {
        "workers": workers,
        "scheduler": scheduler,
        "scheduler_file": scheduler_file,
        "cluster": cluster,
        "jobs": jobs,
        "lifetime": lifetime,
        "tls": tls,
    }
    _check_place(where, client, shard, max_connections)
    # 1. what is asked for, and what of it the index does not have yet
    store = Store(index, index_options)
    existing = _existing_parameters(store)
    config = _wanted_parameters(store, existing, config)
    sources = resolve_inputs(
        [inputs] if isinstance(inputs, str) else inputs,
        limit=limit,
        sample=sample,
        seed=sample_seed,
        storage_options=storage_options,
        crawl_base_url=crawl_base_url,
    )
    if limit is not None or sample is not None:
        _refuse_parts_of_groups(store, sources)
    if shard is not None:
        sources = _take_shard(sources, *shard)
    clear_leftovers(store, {segment_id_of(source.url) for source in sources})
    pending, n_replaced = _pending_sources(store, sources, page_filter)
    report = BuildReport(len(sources), len(sources) - len(pending), n_replaced)
    # 2. the work
    if pending:
        forget_segments(store, {segment_id_of(source.url) for source in pending})
        options = dict(index_options or {}), dict(storage_options or {})
        job = BuildJob(store.url, config, page_filter, strict, *options, vectors)
        with ExitStack() as stack:
            if existing is None:
                stack.enter_context(_new_index(store, config, is_shared=shard is not None))
            if shard is None and client is None:
                where["jobs"] = jobs and min(jobs, len(pending))
                client = stack.enter_context(open_client(**where))
            report.start()
            if client is not None:
                on_start(client)
            _index_pending(client, pending, job, max_connections, report, on_progress)
            _refuse_total_failure(report)
    # 3. what it leaves behind
    _remove_leftovers(store, sources, is_whole=shard is None and limit is None and sample is None)
    _update_catalog(store, {segment_id_of(source.url) for source in pending} - report.failed_segments)
    report.stop_clock()
    return report


def _index_pending(
    client: Client | None,
    pending: Sequence[Source],
    job: BuildJob,
    max_connections: int | None,
    report: BuildReport,
    on_progress: Callable[[BuildReport], None],
) -> None:
    """Index sources on a cluster, or in this process, and count in the report what comes of each."""

    def note_pages(source_url: str, n_pages: int) -> None:
        report.note_pages(source_url, n_pages)
        on_progress(report)

    if client is None:
        outcomes = build_segments_here(pending, job, note_pages)
    else:
        outcomes = build_segments(client, pending, job, max_connections=max_connections, on_pages=note_pages)
    for outcome, core_seconds in outcomes:
        report.add(outcome, core_seconds)
        on_progress(report)


def _check_place(
    where: Mapping[str, Any], client: Client | None, shard: tuple[int, int] | None, max_connections: int | None
) -> None:
    """Refuse what cannot be meant before anything is read or started."""
    if max_connections is not None and max_connections < 1:
        raise ConfigError(f"max_connections must be at least 1, got {max_connections}")
    if where["workers"] is not None and where["workers"] < 1:
        raise ConfigError(f"workers must be at least 1, got {where['workers']}")
    given = [name for name, value in where.items() if value] + (["client"] if client is not None else [])
    if shard is not None and given:
        raise ConfigError(f"a shard runs in this process: it goes without {', '.join(given)}")


def _existing_parameters(store: Store) -> IndexConfig | None:
    """Return the parameters of the index that is there, or None."""
    check_is_folder(store)
    if not store.exists(MANIFEST):
        if store.exists(SEGMENTS):
            raise IndexFormatError(f"{store.url} holds segments but no {MANIFEST}; restore it from a copy")
        return None
    return read_manifest(store)


def _wanted_parameters(
    store: Store, existing: IndexConfig | None, given: IndexConfig | Mapping[str, Any] | None
) -> IndexConfig:
    """Return the parameters to build with; refuse what does not exist, or does not fit what is there."""
    if isinstance(given, IndexConfig):
        config = given
    else:
        if unknown := (given or {}).keys() - IndexConfig().to_dict().keys():
            raise ConfigError(f"there is no index parameter {min(unknown)!r}")
        config = replace(existing or IndexConfig(), **(given or {}))
    make_family(config), shape_pages([], config)
    if existing is not None:
        check_parameters(store, existing, config)
    return config


@contextmanager
def _new_index(store: Store, config: IndexConfig, is_shared: bool) -> Iterator[None]:
    """Write the parameters of a new index; take them back if the block raises before a segment is published.

    An index that others build at the same time stays: its first segment may be on its way.
    """
    was_there = store.exists()
    write_manifest(store, config)
    try:
        yield
    except Exception:
        if not is_shared and not list_segments(store):
            for name in (MANIFEST, STAGING, SEGMENTS, CATALOG) if was_there else ("",):
                store.remove(name)
        raise


def _take_shard(sources: Sequence[Source], number: int, n_shards: int) -> list[Source]:
    if not 1 <= number <= n_shards:
        raise ConfigError(f"a shard is given as I/N with I from 1 to N, got {number}/{n_shards}")
    return list(sources[number - 1 :: n_shards])


def _refuse_parts_of_groups(store: Store, sources: Sequence[Source]) -> None:
    """Refuse to take some files of a folder of HTML that is indexed already: the others would be lost or doubled."""
    roots = {_folder_of(source.url) for source in sources if source.kind == "html"}
    for known in live_sources(store).values() if roots else ():
        root = _folder_of(known.source_url)
        if root in roots:
            raise ConfigError(f"{root} is in the index already: limit and sample would drop its other files")


def _pending_sources(store: Store, sources: Sequence[Source], page_filter: PageFilter) -> tuple[list[Source], int]:
    """Return the sources that the index does not hold as they are now, and how many of them it holds otherwise."""
    indexed = live_sources(store)
    pending, n_replaced = [], 0
    for source in sources:
        known = indexed.get(segment_id_of(source.url))
        if known is None or not _is_current(known, source, page_filter):
            pending.append(source)
            n_replaced += known is not None
    return pending, n_replaced


def _is_current(known: IndexedSource, source: Source, page_filter: PageFilter) -> bool:
    same_size = None in (known.source_size, source.size) or known.source_size == source.size
    return same_size and known.page_filter == page_filter.to_dict()


def _remove_leftovers(store: Store, sources: Sequence[Source], is_whole: bool) -> None:
    """Remove what this build has made obsolete: its own staging folders, HTML groups that were cut differently, and the
    pages of HTML files that are in a group of this build now.

    A shard does not see all groups and leaves those cut differently to a run over all sources.
    """
    clear_leftovers(store, {segment_id_of(source.url) for source in sources})
    groups = {segment_id_of(source.url): source.url for source in sources if source.kind == "html"}
    known = live_sources(store).values() if groups else ()
    others = {s.origin: s.source_url for s in known if s.source_kind == "html" and s.origin not in groups}
    roots = {_folder_of(url) for url in groups.values()}
    outdated = {name for name, url in others.items() if is_whole and _folder_of(url) in roots}
    if outdated:
        delete_sources(store, outdated)
    if elsewhere := others.keys() - outdated:
        delete_copies(store, groups, elsewhere)


def _folder_of(group_url: str) -> str:
    """Return the folder or list that a group of HTML files was cut from."""
    return group_url.rpartition("#")[0]


def _update_catalog(store: Store, written: set[str]) -> None:
    if missing := written - gather_catalog(store, written):
        raise StorageError(
            f"{len(missing)} finished segments are not in {store.url}: the workers write to another place; "
            "give an index location that all machines share"
        )


def _refuse_total_failure(report: BuildReport) -> None:
    """Raise where not a single source of the index could be read: the input is wrong, not the crawl."""
    if report.failures and not report.n_done and not report.n_already_indexed:
        first = report.failures[0]
        others = f" (and {len(report.failures) - 1} more)" if len(report.failures) > 1 else ""
        raise SourceError(f"{first.reason}{others}")

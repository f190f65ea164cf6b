"""A build from inputs to a finished index: what is left to do, doing it, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treesim_dask.choice import InputChoice
from treesim_dask.clients import Place
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.crawl.inputs import DEFAULT_CRAWL_BASE_URL
from treesim_dask.dataflow import BuildJob, build_segments, build_segments_here
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import ConfigError, IndexFormatError, SourceError, StorageError
from treesim_dask.hashing.family import make_family
from treesim_dask.index.catalog import CATALOG, forget_segments
from treesim_dask.index.deletion import delete_copies, delete_sources
from treesim_dask.index.leftovers import clear_leftovers
from treesim_dask.index.live import IndexedSource, live_sources
from treesim_dask.index.manifest import MANIFEST, check_parameters, read_manifest, write_manifest
from treesim_dask.index.segment import SEGMENTS, gather_catalog, list_segments, segment_id_of
from treesim_dask.index.store import SPARE, STAGING, Store, check_is_folder
from treesim_dask.report import BuildReport
from treesim_dask.types import Source

if TYPE_CHECKING:
    from distributed import Client

_TASK = "build"  # names the mark of a build at work


def build(
    inputs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    index: str | os.PathLike[str],
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
    choice = InputChoice(inputs, limit, sample, sample_seed, dict(storage_options or {}), crawl_base_url)
    place = Place(workers, scheduler, scheduler_file, cluster, jobs, lifetime, tls, client, shard, max_connections)
    options: dict[str, Any] = {"strict": strict, "vectors": vectors, "index_options": index_options}
    watch: dict[str, Any] = {"on_progress": on_progress, "on_start": on_start}
    return build_index(choice, index, place, config=config, page_filter=page_filter, **options, **watch)


def build_index(
    choice: InputChoice,
    index: str | os.PathLike[str],
    place: Place,
    *,
    config: IndexConfig | Mapping[str, Any] | None = None,
    page_filter: PageFilter | None = None,
    strict: bool = False,
    vectors: bool = True,
    index_options: Mapping[str, Any] | None = None,
    on_progress: Callable[[BuildReport], None] = lambda report: None,
    on_start: Callable[[Client], None] = lambda client: None,
) -> BuildReport:
    """Index a choice of input at a place; see `build`."""
    # 1. what is asked for, and what of it the index does not have yet
    store = Store(index, index_options)
    config = _wanted_parameters(store, config)
    page_filter = page_filter or PageFilter()
    sources = choice.find_sources()
    leftovers = {segment_id_of(source.url) for source in sources} | {_TASK}
    clear_leftovers(store, leftovers)  # it may put back what was to be exchanged
    indexed = live_sources(store)
    if not choice.is_whole:
        _refuse_parts_of_groups(sources, indexed)
    sources = place.take_share(sources)
    pending = _pending_sources(sources, indexed, page_filter)
    written = {segment_id_of(source.url) for source in pending}
    report = BuildReport(len(sources), len(sources) - len(pending))
    report.outdated = {source.url for source in pending if segment_id_of(source.url) in indexed}
    # 2. the work
    if pending:
        options = dict(index_options or {}), dict(choice.storage_options)
        is_careful = place.shard is not None  # nobody would begin again in the place of this process
        job = BuildJob(store.url, config, page_filter, strict, *options, vectors, is_careful)
        with _at_work(store, config), _open(place, len(pending)) as client:
            forget_segments(store, written)
            report.start()
            if client is not None:
                on_start(client)
            _index_pending(client, pending, job, place.max_connections, report, on_progress)
            _refuse_total_failure(report)
    # 3. what it leaves behind
    clear_leftovers(store, leftovers)
    is_whole = choice.is_whole and place.shard is None
    _remove_outdated(store, sources, indexed, _replaced_roots(sources, report, is_whole))
    _update_catalog(store, written - report.failed_segments)
    report.stop_clock()
    return report


def _open(place: Place, n_sources: int) -> AbstractContextManager[Client | None]:
    """Return the client of a place; None for a shard, which is built in this process."""
    return place.open(n_sources) if place.shard is None else nullcontext()


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


def _wanted_parameters(store: Store, given: IndexConfig | Mapping[str, Any] | None) -> IndexConfig:
    """Return the parameters to build with; refuse what does not exist, or does not fit what is there."""
    existing = _existing_parameters(store)
    if isinstance(given, IndexConfig):
        config = given
    else:
        if unknown := (given or {}).keys() - IndexConfig().to_dict().keys():
            raise ConfigError(f"there is no index parameter {min(unknown)!r}")
        config = replace(existing or IndexConfig(), **(given or {}))
    make_family(config), shape_pages([], config)
    if existing is not None and not _holds_nothing(store):
        check_parameters(store, existing, config)
    return config


def _existing_parameters(store: Store) -> IndexConfig | None:
    """Return the parameters of the index that is there, or None; refuse a folder that holds something else."""
    check_is_folder(store)
    # in this order: what another build has just begun holds its manifest before anything else
    names = [name for name in store.list_names("") if not name.startswith(".")]
    if store.exists(MANIFEST):
        return read_manifest(store)
    if SEGMENTS in names:
        raise IndexFormatError(f"{store.url} holds segments but no {MANIFEST}; restore it from a copy")
    if names:
        held = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise ConfigError(f"{store.url} is no index and holds {held}: give an empty folder, or one that is not there")
    return None


def _holds_nothing(store: Store, mine: str = "") -> bool:
    """Tell whether an index has no segment, and nobody but the build with the mark `mine` is about to write one.

    A segment whose exchange for a newer one was cut short is there, too: as a spare.
    """
    has_spares = any(name.endswith(SPARE) for name in store.list_names(STAGING))
    return not (has_spares or list_segments(store) or store.list_at_work(mine))


@contextmanager
def _at_work(store: Store, config: IndexConfig) -> Iterator[None]:
    """Be seen to be at work on an index, and see that it has its parameters.

    Those that were written for nothing are taken back: the next build may have others.
    """
    was_there = store.exists()
    try:
        with store.announce(_TASK) as mine:
            try:
                _write_parameters(store, config, mine)
                yield
            except BaseException:
                if _holds_nothing(store, mine):
                    for name in (MANIFEST, CATALOG):
                        store.remove(name)
                    store.remove_if_empty(SEGMENTS)
                raise
    finally:
        if not was_there:
            store.remove_if_empty("")


def _write_parameters(store: Store, config: IndexConfig, mine: str) -> None:
    """Write the parameters where there are none, or others that nobody has used; refuse where they are in use."""
    existing = read_manifest(store) if store.exists(MANIFEST) else None
    if existing is not None and existing != config and not _holds_nothing(store, mine):
        check_parameters(store, existing, config)
    if existing != config:
        write_manifest(store, config)


def _refuse_parts_of_groups(sources: Sequence[Source], indexed: Mapping[str, IndexedSource]) -> None:
    """Refuse to take some files of a folder of HTML that is indexed already: the others would be lost or doubled."""
    roots = {source.root for source in sources if source.kind == "html"}
    for known in indexed.values():
        if known.root in roots:
            raise ConfigError(f"{known.root} is in the index already: limit and sample would drop its other files")


def _pending_sources(
    sources: Sequence[Source], indexed: Mapping[str, IndexedSource], page_filter: PageFilter
) -> list[Source]:
    """Return the sources that the index does not hold as they are now."""
    pending = []
    for source in sources:
        known = indexed.get(segment_id_of(source.url))
        whole = indexed.get(segment_id_of(source.root)) if source.kind == "extract" else None
        is_there = whole is not None and whole.page_filter == page_filter.to_dict()
        if not is_there and (known is None or not _is_current(known, source, page_filter)):
            pending.append(source)
    return pending


def _is_current(known: IndexedSource, source: Source, page_filter: PageFilter) -> bool:
    """Tell whether a source is as it was indexed, as far as filter, size, names and times of its files tell."""
    states = (known.source_size, source.size), (known.source_digest, source.digest)
    is_same = all(None in state or state[0] == state[1] for state in states)
    is_newer = source.modified is not None and known.indexed is not None and source.modified > known.indexed
    return is_same and not is_newer and known.page_filter == page_filter.to_dict()


def _replaced_roots(sources: Sequence[Source], report: BuildReport, is_whole: bool) -> set[str]:
    """Return the roots of which nothing is left but what this build has written.

    These are folders of HTML, whose groups may have been cut differently before, and archives that were indexed just
    now. A group that failed may hold any file of its folder, and a part of the groups is no whole folder.
    """
    failed = {failure.source_url for failure in report.failures}
    folders = {source.root for source in sources if source.kind == "html" and is_whole}
    archives = {source.root for source in sources if source.kind == "archive" and source.url in report.finished}
    return (folders | archives) - {source.root for source in sources if source.url in failed}


def _remove_outdated(
    store: Store, sources: Sequence[Source], indexed: Mapping[str, IndexedSource], replaced_roots: Collection[str]
) -> None:
    """Remove other sources of replaced roots, and of all others the pages that the sources of this build hold too.

    An HTML file may have been indexed by itself before and with its folder now, or the other way round; a WARC record
    in one extract and now in another, or with its archive.
    """
    ours = {segment_id_of(source.url): source for source in sources}
    others = {name: known for name, known in indexed.items() if name not in ours}
    outdated = {name for name, known in others.items() if known.root in replaced_roots}
    if outdated:
        delete_sources(store, outdated)
    roots, has_html = {source.root for source in sources}, any(source.kind == "html" for source in sources)
    rivals = {
        name: known
        for name, known in others.items()
        if name not in outdated and (has_html if known.source_kind == "html" else known.root in roots)
    }
    if rivals:
        contested = {known.root for known in rivals.values()}
        kept = {name for name, source in ours.items() if source.kind == "html" or source.root in contested}
        delete_copies(store, kept, rivals.keys())


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

"""The stages joined: what one worker does with one file, and the Dask graphs over many.

A build is a bag with one partition per file and no shuffle: the whole pipeline of a file runs on one worker and only
a small summary travels back. A query filters and reranks each segment where the data is, and merges in a tree.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import dask.bag
import numpy as np
import pandas
from distributed import KilledWorker, Semaphore, as_completed, futures_of

from treesim_dask.allocator import keep_freed_memory
from treesim_dask.clock import work_clock
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.crawl.pages import read_pages
from treesim_dask.crawl.reasons import DAMAGE_REASONS, TOO_COSTLY
from treesim_dask.dom.cost import affordable_pages
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import SourceError, StorageError, TransferError
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import make_family
from treesim_dask.index.cache import Cache
from treesim_dask.index.compaction import Plan, make_band_files, make_parts, publish
from treesim_dask.index.gathering import count_distinct, gather_part, order_bands
from treesim_dask.index.segment import Segment, SegmentSummary
from treesim_dask.index.splitting import split_unit
from treesim_dask.index.store import Store
from treesim_dask.index.tables import PAGE_SCHEMA
from treesim_dask.index.writer import SegmentWriter
from treesim_dask.progress import PageMeter, watch_pages
from treesim_dask.query.matches import MatchTable, SegmentAnswer, merge_tables, no_matches
from treesim_dask.query.options import SearchOptions
from treesim_dask.query.page import QueryPage
from treesim_dask.query.search import search_segment
from treesim_dask.types import SkippedLog, Source, offsets_of

if TYPE_CHECKING:
    import dask.array
    import dask.dataframe
    from distributed import Client, Future

_F = TypeVar("_F", bound=Callable[..., Any])
_MERGE_WIDTH = 8
_WAVE_FILES = 2048
_WAVE_FILES_PER_THREAD = 8
_LARGE_PAGE = 2**20  # bytes; a smaller one takes some minutes at worst, or kills its worker
_N_TRANSFERS = 3  # of a file whose bytes changed on the way


def named_task(name: str) -> Callable[[_F], _F]:
    """Name the tasks of a function as the dashboard shall show them."""

    def rename(function: _F) -> _F:
        function.__name__ = name
        return function

    return rename


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source that gave no segment, and why. The next run of the same build tries it again."""

    source_url: str
    reason: str


Outcome = SegmentSummary | SourceFailure
TimedOutcome = tuple[Outcome, float]  # with the seconds a worker was busy with it
_IndexWarc = Callable[[Iterable[Source]], list[TimedOutcome]]


@dataclass(frozen=True, slots=True)
class BuildJob:
    """What every worker of a build needs to know. It travels with each task, so it is small and plain.

    The options may hold passwords: they are no part of its text, which ends up in the logs of failed tasks.
    With ``is_careful`` every page is judged before it is parsed, not large ones alone: that takes a tenth of the time
    of parsing.
    """

    index_url: str
    config: IndexConfig
    page_filter: PageFilter
    strict: bool
    index_options: Mapping[str, Any] = field(repr=False)
    storage_options: Mapping[str, Any] = field(repr=False)
    with_vectors: bool = True
    is_careful: bool = False


def index_source(
    source: Source, job: BuildJob, on_pages: Callable[[int], None] = lambda n_pages: None
) -> SegmentSummary:
    """Everything one worker does with one file: pages to trees to shapes to signatures to a published segment."""
    keep_freed_memory()
    config = job.config
    family = make_family(config)
    store = Store(job.index_url, job.index_options)
    with SegmentWriter(store, source, config, job.page_filter, job.with_vectors) as segment:
        for found in read_pages(source, job.page_filter, segment.skipped, storage_options=job.storage_options):
            pages = affordable_pages(found, segment.skipped, TOO_COSTLY, 0 if job.is_careful else _LARGE_PAGE)
            shapes = segment.add_pages(pages, shape_pages(pages.html, config))
            signatures = family.sign(shapes)
            segment.add_shapes(shapes, signatures, band_keys(signatures, config.n_bands))
            on_pages(len(pages))
        if job.strict:
            _refuse_damage(segment.skipped)
        return segment.publish(DAMAGE_REASONS)


def _refuse_damage(skipped: SkippedLog) -> None:
    for reason, warc, offset in skipped.select(DAMAGE_REASONS):
        raise SourceError(f"{warc} is damaged at offset {offset}: {reason}; build without --strict to index the rest")


def build_segments(
    client: Client,
    sources: Sequence[Source],
    job: BuildJob,
    *,
    max_connections: int | None = None,
    on_pages: Callable[[str, int], None] = lambda source_url, n_pages: None,
) -> Iterator[TimedOutcome]:
    """Index the sources on a cluster; yield the outcome of each, and the seconds it kept a worker busy, as it finishes.

    A source that cannot be read is an outcome; a full disk ends the build. One that killed its workers is indexed again
    with care, since some hostile page may have filled their memory. A crawl has 100,000 files and a scheduler takes
    20 kB for each: they are started in waves, the next before the last runs dry.

    Parameters
    ----------
    max_connections
        How many sources all workers together may read at the same time: a source is one connection.
    on_pages
        Called on another thread with a source and the number of its pages so far.
    """
    connections = None
    if max_connections is not None:
        with client.as_current():
            connections = Semaphore(max_connections, name=f"treesim-connections-{max_connections}")
    with watch_pages(client, on_pages) as topic:
        index_warc = partial(_index_warc, job, connections, topic)
        with_care = partial(_index_warc, replace(job, is_careful=True), connections, topic)
        yield from _compute_in_waves(client, sources, index_warc, with_care)


def _compute_in_waves(
    client: Client, sources: Sequence[Source], index_warc: _IndexWarc, with_care: _IndexWarc
) -> Iterator[TimedOutcome]:
    n_wave = max(_WAVE_FILES, _WAVE_FILES_PER_THREAD * sum(client.nthreads().values()))
    running: dict[Any, tuple[Source, _IndexWarc]] = {}
    finished = as_completed()
    n_started = 0

    def start(wave: Sequence[Source], task: _IndexWarc) -> None:
        futures = _start_wave(client, wave, task)
        running.update((future.key, (source, task)) for future, source in zip(futures, wave, strict=True))
        finished.update(futures)  # and keep none here: the client would hold every finished result until the end

    try:
        while running or n_started < len(sources):
            if len(running) <= n_wave // 2 and n_started < len(sources):
                start(sources[n_started : n_started + n_wave], index_warc)
                n_started += n_wave
            future = next(finished)
            source, task = running.pop(future.key)
            if task is index_warc and future.status == "error" and isinstance(future.exception(), KilledWorker):
                start([source], with_care)
            else:
                yield _outcome(future, source.url)
            future.release()
    finally:
        finished.clear()


def _start_wave(client: Client, sources: Sequence[Source], index_warc: _IndexWarc) -> list[Future]:
    """Start a bag with one partition a source, and return their futures in the order of the sources."""
    # from_sequence and map_partitions would make two tasks of each: one more to hold the source
    name = f"{_index_warc.__name__}-{uuid.uuid4().hex}"
    graph = {(name, number): (index_warc, [source]) for number, source in enumerate(sources)}
    bag = client.persist(dask.bag.Bag(graph, name, len(sources)))
    futures = {future.key: future for future in futures_of(bag)}
    return [futures[key] for key in bag.__dask_keys__()]


def build_segments_here(
    sources: Iterable[Source], job: BuildJob, on_pages: Callable[[str, int], None] = lambda source_url, n_pages: None
) -> Iterator[TimedOutcome]:
    """Index the sources one after the other in this process; see `build_segments`."""
    for source in sources:
        n_pages = 0

        def add_pages(n_more: int, url: str = source.url) -> None:
            nonlocal n_pages
            n_pages += n_more
            on_pages(url, n_pages)

        yield _index_timed(source, job, add_pages)


@named_task("index-warc")
def _index_warc(
    job: BuildJob, connections: AbstractContextManager[Any] | None, topic: str, partition: Iterable[Source]
) -> list[TimedOutcome]:
    with connections or nullcontext():
        return [_index_timed(source, job, PageMeter(source.url, topic).add) for source in partition]


def _index_timed(source: Source, job: BuildJob, on_pages: Callable[[int], None]) -> TimedOutcome:
    started = work_clock()
    return _index_or_fail(source, job, on_pages), work_clock() - started


def _index_or_fail(source: Source, job: BuildJob, on_pages: Callable[[int], None]) -> Outcome:
    for _ in range(_N_TRANSFERS):
        try:
            return index_source(source, job, on_pages)
        except TransferError as error:
            failure = SourceFailure(source.url, str(error))
        except StorageError:
            raise
        except SourceError as error:
            return SourceFailure(source.url, str(error))
        except Exception as error:  # whatever one file brings about, the others are indexed
            return SourceFailure(source.url, f"{type(error).__name__}: {error}")
    return failure


def _outcome(future: Future, url: str) -> TimedOutcome:
    if future.status == "finished":
        (outcome,) = future.result()
        return outcome
    error = future.exception()
    if isinstance(error, StorageError):
        raise error
    return SourceFailure(url, f"{type(error).__name__}: {error}"), 0.0


def search_on_cluster(
    client: Client,
    segments: Sequence[Segment],
    queries: Sequence[QueryPage],
    options: SearchOptions,
    snapshot: str,
    memory: int,
) -> list[SegmentAnswer]:
    """Answer queries with one task a segment and a tree of merges; `k` rows a query travel back.

    Parameters
    ----------
    client
        Where to run.
    segments, queries, options
        What to search, for what, and how.
    snapshot
        Names this view of the index: workers keep what they read for later queries of the same name.
    memory
        How many bytes each worker may keep.
    """
    if not segments:
        return no_matches(len(queries), options).answers()
    bag = dask.bag.from_sequence(segments, partition_size=1)
    answers = bag.map_partitions(partial(_filter_rerank, list(queries), options, snapshot, memory))
    merge_top_k = partial(_merge_top_k, options)
    merged = answers.reduction(merge_top_k, merge_top_k, split_every=_MERGE_WIDTH)
    table: MatchTable = client.compute(merged).result()
    return table.answers()


@named_task("filter-rerank")
def _filter_rerank(
    queries: Sequence[QueryPage], options: SearchOptions, snapshot: str, memory: int, segments: Iterable[Segment]
) -> list[MatchTable]:
    cache = _worker_cache(snapshot, memory)
    return [search_segment(segment.kept_in(cache), queries, options) for segment in segments]


@lru_cache(maxsize=1)
def _worker_cache(snapshot: str, memory: int) -> Cache:
    """Return what a worker keeps between the queries of one view of an index."""
    return Cache(memory)


@named_task("merge-top-k")
def _merge_top_k(options: SearchOptions, tables: Iterable[MatchTable]) -> MatchTable:
    return merge_tables(list(tables), options)


def compact_segments(
    plan: Plan, client: Client | None = None, on_step: Callable[[str], None] = lambda step: None
) -> SegmentSummary:
    """Carry out a compaction, on a cluster or in this process, and publish its result.

    Segments are split in parallel, then parts are gathered and bands ordered in parallel: each task reads what it needs
    from the store and holds a part at most.
    """
    work, units = plan.work, plan.units
    make_keys = partial(band_keys, n_bands=work.n_bands)
    on_step(f"splitting {len(units):,} segments")
    splits = _run_tasks(client, split_unit, [(unit, work) for unit in units])
    parts = make_parts(plan, splits)
    on_step(f"gathering {len(parts):,} parts")
    n_shapes = _run_tasks(client, count_distinct, [(part, units, work) for part in parts])
    first = offsets_of(np.array(n_shapes, np.int64)).tolist()
    tasks = [(part, first[part.number], units, work, make_keys) for part in parts]
    gathered = _run_tasks(client, gather_part, tasks)
    files = make_band_files(plan, first[-1])
    on_step(f"ordering {len(files):,} band files")
    bands = _run_tasks(client, order_bands, [(n, cells, len(parts), work) for n, cells in enumerate(files)])
    on_step("publishing")
    return publish(plan, gathered, bands)


def _run_tasks(client: Client | None, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call a function with each tuple of arguments, on the cluster if there is one."""
    if client is None:
        return [task(*given) for given in arguments]
    return client.gather([client.submit(task, *given, pure=False) for given in arguments])


def page_frame(segments: Sequence[Segment]) -> dask.dataframe.DataFrame:
    """Return the pages that are not deleted as a lazy DataFrame, one partition a segment.

    ``segment`` names the segment a page was first written to, ``page`` its row there: together they are the page id.
    """
    import dask.dataframe

    empty = PAGE_SCHEMA.empty_table().to_pandas().assign(segment=pandas.Series([], dtype=str))
    if not segments:
        return dask.dataframe.from_pandas(empty, npartitions=1)
    return dask.dataframe.from_map(_read_page_frame, list(segments), meta=empty)


def _read_page_frame(segment: Segment) -> pandas.DataFrame:
    rows = segment.live_rows()
    origins = (segment.page_origins(rows) >> np.uint64(32)).astype(np.int64)
    names = pandas.Series(np.array(segment.origins, object)[origins], dtype=str)
    return segment.read_pages(rows, PAGE_SCHEMA.names).to_pandas().assign(segment=names)


def signature_array(segments: Sequence[Segment], n_hashes: int) -> dask.array.Array:
    """Return the signatures as a lazy array, one block a segment or more."""
    import dask.array

    arrays = [array for segment in segments for array in segment.signature_arrays if array.shape[0]]
    if not arrays:
        return dask.array.zeros((0, n_hashes), dtype="uint32", chunks=(1, n_hashes))
    return dask.array.concatenate([dask.array.from_zarr(array) for array in arrays])

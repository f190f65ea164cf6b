"""The stages joined: what one worker does with one file, and the Dask graphs over many.

A build is a bag with one partition per file and no shuffle: the whole pipeline of a file runs on one worker and only
a small summary travels back. A query filters and reranks each segment where the data is, and merges in a tree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import dask.bag
import pandas
from distributed import Semaphore, as_completed

from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.crawl.pages import read_pages
from treesim_dask.crawl.reasons import DAMAGE_REASONS
from treesim_dask.dom.branches import count_branches
from treesim_dask.dom.tree import parse_trees
from treesim_dask.errors import SourceError, StorageError, TransferError
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import make_family
from treesim_dask.index.segment import Segment, SegmentSummary
from treesim_dask.index.store import Store
from treesim_dask.index.tables import PAGE_SCHEMA
from treesim_dask.index.writer import SegmentWriter
from treesim_dask.progress import PageMeter, watch_pages
from treesim_dask.query.metrics import find_metric
from treesim_dask.query.page import QueryPage
from treesim_dask.query.search import SegmentAnswer, merge_answers, search_segment
from treesim_dask.types import SkippedLog, Source

if TYPE_CHECKING:
    import dask.array
    import dask.dataframe
    from distributed import Client, Future

_F = TypeVar("_F", bound=Callable[..., Any])
_MERGE_WIDTH = 8
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


@dataclass(frozen=True, slots=True)
class BuildJob:
    """What every worker of a build needs to know. It travels with each task, so it is small and plain.

    The options may hold passwords: they are no part of its text, which ends up in the logs of failed tasks.
    """

    index_url: str
    config: IndexConfig
    page_filter: PageFilter
    strict: bool
    index_options: Mapping[str, Any] = field(repr=False)
    storage_options: Mapping[str, Any] = field(repr=False)


def index_source(
    source: Source, job: BuildJob, on_pages: Callable[[int], None] = lambda n_pages: None
) -> SegmentSummary:
    """Everything one worker does with one file: pages to trees to shapes to signatures to a published segment."""
    config = job.config
    family = make_family(config)
    store = Store(job.index_url, job.index_options)
    with SegmentWriter(store, source, config, job.page_filter) as segment:
        for pages in read_pages(source, job.page_filter, segment.skipped, storage_options=job.storage_options):
            trees = parse_trees(pages.html, config.spliced_tags)
            shapes = segment.add_pages(pages, count_branches(trees))
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
) -> Iterator[tuple[Outcome, float]]:
    """Index the sources on a cluster and yield the outcome of each, and its seconds of work, as it finishes.

    A source that cannot be read, or that killed its workers, is an outcome; a full disk ends the build.

    Parameters
    ----------
    max_connections
        How many sources all workers together may read at the same time: a source is one connection.
    on_pages
        Called on another thread with a source and the number of its pages so far.
    """
    if not sources:
        return
    connections = None
    if max_connections is not None:
        with client.as_current():
            connections = Semaphore(max_connections, name=f"treesim-connections-{max_connections}")
    bag = dask.bag.from_sequence(sources, partition_size=1).map_partitions(_index_partition, job, connections)
    with watch_pages(client, on_pages):
        yield from _compute_outcomes(client, bag, sources)


def _compute_outcomes(client: Client, bag: dask.bag.Bag, sources: Sequence[Source]) -> Iterator[tuple[Outcome, float]]:
    futures: list[Future] = client.compute(bag.to_delayed(optimize_graph=False))
    urls = {future.key: source.url for future, source in zip(futures, sources, strict=True)}
    finished = as_completed(futures)
    del futures  # else the client would keep every finished result until the end
    try:
        for future in finished:
            yield _outcome(future, urls.pop(future.key))
            future.release()
    finally:
        finished.clear()


def build_segments_here(
    sources: Iterable[Source], job: BuildJob, on_pages: Callable[[str, int], None] = lambda source_url, n_pages: None
) -> Iterator[tuple[Outcome, float]]:
    """Index the sources one after the other in this process; see `build_segments`."""
    for source in sources:
        n_pages = 0

        def add_pages(n_more: int, url: str = source.url) -> None:
            nonlocal n_pages
            n_pages += n_more
            on_pages(url, n_pages)

        yield _index_timed(source, job, add_pages)


@named_task("index-warc")
def _index_partition(
    partition: Iterable[Source], job: BuildJob, connections: AbstractContextManager[Any] | None
) -> list[tuple[Outcome, float]]:
    with connections or nullcontext():
        return [_index_timed(source, job, PageMeter(source.url).add) for source in partition]


def _index_timed(source: Source, job: BuildJob, on_pages: Callable[[int], None]) -> tuple[Outcome, float]:
    started = time.process_time()
    return _index_or_fail(source, job, on_pages), time.process_time() - started


def _index_or_fail(source: Source, job: BuildJob, on_pages: Callable[[int], None]) -> Outcome:
    for _ in range(_N_TRANSFERS):
        try:
            return index_source(source, job, on_pages)
        except TransferError as error:
            failure = SourceFailure(source.url, str(error))
        except SourceError as error:
            return SourceFailure(source.url, str(error))
    return failure


def _outcome(future: Future, url: str) -> tuple[Outcome, float]:
    if future.status == "finished":
        (outcome,) = future.result()
        return outcome
    error = future.exception()
    if isinstance(error, StorageError):
        raise error
    return SourceFailure(url, f"{type(error).__name__}: {error}"), 0.0


def search_on_cluster(
    client: Client, segments: Sequence[Segment], query: QueryPage, metric: str, k: int, with_self: bool
) -> SegmentAnswer:
    """Answer a query with one task a segment and a tree of merges; `k` rows travel back."""
    if not segments:
        return SegmentAnswer((), 0)
    store = segments[0].store
    bag = dask.bag.from_sequence([segment.segment_id for segment in segments], partition_size=1)
    filter_rerank = partial(_filter_rerank, store, query, metric, k, with_self)
    merge_top_k = partial(_merge_top_k, metric, k)
    answers = bag.map_partitions(filter_rerank)
    merged = answers.reduction(merge_top_k, merge_top_k, split_every=_MERGE_WIDTH)
    answer: SegmentAnswer = client.compute(merged).result()
    return answer


@named_task("filter-rerank")
def _filter_rerank(
    store: Store, query: QueryPage, metric: str, k: int, with_self: bool, segment_ids: Iterable[str]
) -> list[SegmentAnswer]:
    return [search_segment(Segment(store, name), query, find_metric(metric), k, with_self) for name in segment_ids]


@named_task("merge-top-k")
def _merge_top_k(metric: str, k: int, answers: Iterable[SegmentAnswer]) -> SegmentAnswer:
    return merge_answers(answers, find_metric(metric), k)


def page_frame(segments: Sequence[Segment]) -> dask.dataframe.DataFrame:
    """Return the page tables as a lazy DataFrame, one partition a segment, with the segment of each page."""
    import dask.dataframe

    empty = PAGE_SCHEMA.empty_table().to_pandas().assign(segment=pandas.Series([], dtype=str))
    if not segments:
        return dask.dataframe.from_pandas(empty, npartitions=1)
    return dask.dataframe.from_map(_read_page_frame, list(segments), meta=empty)


def _read_page_frame(segment: Segment) -> pandas.DataFrame:
    return segment.read_pages().to_pandas().assign(segment=segment.segment_id)


def signature_array(segments: Sequence[Segment], n_hashes: int) -> dask.array.Array:
    """Return the signatures as a lazy array, one block a segment or more."""
    import dask.array

    arrays = [segment.signature_array for segment in segments if segment.summary.n_shapes]
    if not arrays:
        return dask.array.zeros((0, n_hashes), dtype="uint32", chunks=(1, n_hashes))
    return dask.array.concatenate([dask.array.from_zarr(array) for array in arrays])

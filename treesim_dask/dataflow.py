"""The stages joined: what one worker does with one file, and the Dask graphs over many.

A build is a bag with one partition per file and no shuffle: the whole pipeline of a file runs on one worker and only
a small summary travels back. A query filters and reranks each segment where the data is, and merges in a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import dask.bag
import pandas
from distributed import as_completed, futures_of

from treesim_dask.allocator import keep_freed_memory
from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.crawl.pages import read_pages
from treesim_dask.crawl.reasons import DAMAGE_REASONS
from treesim_dask.dom.branches import count_branches
from treesim_dask.dom.tree import parse_trees
from treesim_dask.errors import SourceError, StorageError
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import make_family
from treesim_dask.index.segment import Segment, SegmentSummary
from treesim_dask.index.store import Store
from treesim_dask.index.tables import PAGE_SCHEMA
from treesim_dask.index.writer import SegmentWriter
from treesim_dask.query.metrics import find_metric
from treesim_dask.query.page import QueryPage
from treesim_dask.query.search import SegmentAnswer, merge_answers, search_segment
from treesim_dask.types import SkippedLog, Source

if TYPE_CHECKING:
    import dask.array
    import dask.dataframe
    from distributed import Client, Future

_MERGE_WIDTH = 8
_WAVE_FILES = 2048
_WAVE_FILES_PER_THREAD = 8


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source that gave no segment, and why. The next run of the same build tries it again."""

    source_url: str
    reason: str


Outcome = SegmentSummary | SourceFailure


@dataclass(frozen=True, slots=True)
class BuildJob:
    """What every worker of a build needs to know. It travels with each task, so it is small and plain."""

    index_url: str
    config: IndexConfig
    page_filter: PageFilter
    strict: bool
    index_options: Mapping[str, Any]
    storage_options: Mapping[str, Any]


def index_source(source: Source, job: BuildJob) -> SegmentSummary:
    """Everything one worker does with one file: pages to trees to shapes to signatures to a published segment."""
    keep_freed_memory()
    config = job.config
    family = make_family(config)
    store = Store(job.index_url, job.index_options)
    with SegmentWriter(store, source, config, job.page_filter) as segment:
        for pages in read_pages(source, job.page_filter, segment.skipped, storage_options=job.storage_options):
            trees = parse_trees(pages.html, config.spliced_tags)
            shapes = segment.add_pages(pages, count_branches(trees))
            signatures = family.sign(shapes)
            segment.add_shapes(shapes, signatures, band_keys(signatures, config.n_bands))
        if job.strict:
            _refuse_damage(segment.skipped)
        return segment.publish(DAMAGE_REASONS)


def _refuse_damage(skipped: SkippedLog) -> None:
    for reason, warc, offset in skipped.select(DAMAGE_REASONS):
        raise SourceError(f"{warc} is damaged at offset {offset}: {reason}; build without --strict to index the rest")


def build_segments(client: Client, sources: Sequence[Source], job: BuildJob) -> Iterator[Outcome]:
    """Index the sources on a cluster and yield the outcome of each as it finishes.

    A source that cannot be read, or that killed its workers, is an outcome; a full disk ends the build. A crawl has
    100,000 files and a scheduler takes 20 kB for each: they are started in waves, the next before the last runs dry.
    """
    n_wave = max(_WAVE_FILES, _WAVE_FILES_PER_THREAD * sum(client.nthreads().values()))
    urls: dict[Any, str] = {}
    finished = as_completed()
    n_started = 0
    try:
        while urls or n_started < len(sources):
            if len(urls) <= n_wave // 2 and n_started < len(sources):
                wave = sources[n_started : n_started + n_wave]
                n_started += len(wave)
                futures = _start_wave(client, wave, job)
                urls.update((future.key, source.url) for future, source in zip(futures, wave, strict=True))
                finished.update(futures)
                del futures  # else the client would keep every finished result until the end
            future = next(finished)
            yield _outcome(future, urls.pop(future.key))
            future.release()
    finally:
        finished.clear()


def _start_wave(client: Client, sources: Sequence[Source], job: BuildJob) -> list[Future]:
    """Start one task a source and return their futures in the order of the sources."""
    # one collection, not a Delayed a file: that takes half the time to plan
    bag = client.persist(dask.bag.from_sequence(sources, partition_size=1).map_partitions(_index_partition, job))
    futures = {future.key: future for future in futures_of(bag)}
    return [futures[key] for key in bag.__dask_keys__()]


def _index_partition(partition: Iterable[Source], job: BuildJob) -> list[Outcome]:
    return [_index_or_fail(source, job) for source in partition]


def _index_or_fail(source: Source, job: BuildJob) -> Outcome:
    try:
        return index_source(source, job)
    except SourceError as error:
        return SourceFailure(source.url, str(error))


def _outcome(future: Future, url: str) -> Outcome:
    if future.status == "finished":
        (outcome,) = future.result()
        return outcome
    error = future.exception()
    if isinstance(error, StorageError):
        raise error
    return SourceFailure(url, f"{type(error).__name__}: {error}")


def search_on_cluster(
    client: Client, segments: Sequence[Segment], query: QueryPage, metric: str, k: int, with_self: bool
) -> SegmentAnswer:
    """Answer a query with one task a segment and a tree of merges; `k` rows travel back."""
    if not segments:
        return SegmentAnswer((), 0)
    store = segments[0].store
    bag = dask.bag.from_sequence([segment.segment_id for segment in segments], partition_size=1)
    filter_rerank = partial(_filter_rerank, store.url, store.storage_options, query, metric, k, with_self)
    merge_top_k = partial(_merge_top_k, metric, k)
    answers = bag.map_partitions(filter_rerank)
    merged = answers.reduction(merge_top_k, merge_top_k, split_every=_MERGE_WIDTH)
    answer: SegmentAnswer = client.compute(merged).result()
    return answer


def _filter_rerank(
    index_url: str,
    index_options: Mapping[str, Any],
    query: QueryPage,
    metric: str,
    k: int,
    with_self: bool,
    segment_ids: Iterable[str],
) -> list[SegmentAnswer]:
    store = Store(index_url, index_options)
    return [search_segment(Segment(store, name), query, find_metric(metric), k, with_self) for name in segment_ids]


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

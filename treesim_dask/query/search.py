"""Buckets to candidates to matches: filter and rerank inside one segment, merge over all of them.

Queries are answered in batches, a single one being a batch of one: each row group of a band table and each vector is
looked at once for all of them, and a query gets the same answer to the bit whatever else is in its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from treesim_dask.index.bands import Hits
from treesim_dask.index.segment import Segment
from treesim_dask.query.matches import (
    MATCH_COLUMNS,
    MatchTable,
    SegmentAnswer,
    merge_tables,
    no_matches,
    stack_tables,
    used_origins,
)
from treesim_dask.query.options import SearchOptions
from treesim_dask.query.page import QueryPage
from treesim_dask.query.rerank import Pairs, rerank
from treesim_dask.query.selection import Selected, is_query_page, select_pages
from treesim_dask.types import offsets_of

# What a batch works on at a time; some hundred bytes each. Both are met by a thousand ordinary queries.
_HITS_AT_ONCE = 2**20
_MATCHES_AT_ONCE = 2**14
_QUERIES_AT_ONCE = 1024
_TABLES_AT_ONCE = 4  # full ones: of so many segments the matches of a block are held before the best are taken


def search_segment(segment: Segment, queries: Sequence[QueryPage], options: SearchOptions) -> MatchTable:
    """Return the best k pages of one segment for each query: filter by buckets, rerank exactly.

    The work is per distinct shape: a million pages of one shape cost one comparison.
    """
    # 1. filter
    hits = _find_hits(segment, queries, options)
    if hits is None:
        half = len(queries) // 2
        return stack_tables([search_segment(segment, some, options) for some in (queries[:half], queries[half:])])
    if not len(hits.shapes):
        return no_matches(len(queries), options)
    # 2. rerank
    pairs = rerank(segment, queries, hits, options)
    # 3. the pages behind the best shapes
    selected = select_pages(segment, queries, pairs.queries, pairs.shapes, pairs.keys, options)
    return _make_table(segment, queries, hits, pairs, selected, options)


def _find_hits(segment: Segment, queries: Sequence[QueryPage], options: SearchOptions) -> Hits | None:
    """Return the hits of all queries, None if they are too many to be held at once."""
    keys = np.concatenate([query.keys for query in queries]).reshape(len(queries), -1)
    most = _HITS_AT_ONCE if len(queries) > 1 else None
    if options.n_agree is None:
        return segment.find_hits(keys, options.bucket_cap, most)
    return segment.scan_hits(np.stack([query.signature for query in queries]), keys.shape[1], options.n_agree, most)


def search_segments(
    segments: Iterable[Segment], queries: Sequence[QueryPage], options: SearchOptions
) -> list[SegmentAnswer]:
    """Answer queries in this process, segment after segment."""
    tables: list[MatchTable] = []
    for segment in segments:
        tables.append(search_segment(segment, queries, options))
        # a segment gives k matches a query, and there may be hundreds of segments
        if sum(len(table.scores) for table in tables) > _TABLES_AT_ONCE * _MATCHES_AT_ONCE:
            tables = [merge_tables(tables, options)]
    return merge_tables(tables or [no_matches(len(queries), options)], options).answers()


def search_many(
    segments: Sequence[Segment], queries: Iterable[QueryPage], options: SearchOptions
) -> Iterator[tuple[QueryPage, SegmentAnswer]]:
    """Answer any number of queries, in their order and in bounded memory: some hundreds at once."""
    for block in in_blocks(queries, options.k):
        yield from zip(block, search_segments(segments, block, options), strict=True)


def in_blocks(queries: Iterable[QueryPage], k: int) -> Iterator[list[QueryPage]]:
    """Cut queries for k matches each into blocks that are answered at once."""
    n_at_once = max(1, min(_QUERIES_AT_ONCE, _MATCHES_AT_ONCE // k))
    remaining = iter(queries)
    while block := list(islice(remaining, n_at_once)):
        yield block


def fill_answers(
    ask: Callable[[Sequence[QueryPage], SearchOptions], list[SegmentAnswer]],
    queries: Sequence[QueryPage],
    options: SearchOptions,
    n_rows: int,
) -> list[SegmentAnswer]:
    """Ask, and where fewer than k pages were found, ask again for pages that agree in fewer rows of a band.

    Parameters
    ----------
    ask
        Answers queries, wherever that is done.
    queries, options
        What to ask.
    n_rows
        Rows of a band.
    """
    answers = ask(queries, options)
    for n_agree in range(n_rows - 1, 0, -1):
        short = [i for i, answer in enumerate(answers) if len(answer) < options.k]
        if not short:
            break
        more = ask([queries[i] for i in short], replace(options, n_agree=n_agree))
        for i, answer in zip(short, more, strict=True):
            answers[i] = answer
    return answers


def _make_table(
    segment: Segment,
    queries: Sequence[QueryPage],
    hits: Hits,
    pairs: Pairs,
    selected: Selected,
    options: SearchOptions,
) -> MatchTable:
    of_query = pairs.queries[selected.pairs]
    band_indptr, bands = pairs.fired(selected.pairs)
    is_query = np.zeros(len(of_query), bool)
    if options.with_self:
        is_query = is_query_page(segment, queries, of_query, selected)
    names, origins = used_origins(segment.origins, selected.origins)
    return MatchTable(
        indptr=offsets_of(np.bincount(of_query, minlength=len(queries))),
        keys=pairs.keys[selected.pairs],
        scores=pairs.scores[selected.pairs],
        cosines=pairs.cosines[selected.pairs],
        jaccards=pairs.jaccards[selected.pairs],
        band_indptr=band_indptr,
        bands=bands,
        names=names,
        origins=origins,
        is_query=is_query,
        pages=segment.read_pages(selected.rows, MATCH_COLUMNS),
        n_candidates=np.bincount(pairs.queries, minlength=len(queries)),
        n_capped=hits.n_capped,
        n_agree=options.n_agree,
        bands_and_rows=options.bands_and_rows,
    )

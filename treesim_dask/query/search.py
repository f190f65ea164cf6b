"""Buckets to candidates to matches: filter and rerank inside one segment, merge over all of them.

Queries are answered in batches, a single one being a batch of one: each row group of a band table and each vector is
looked at once for all of them, and a query gets the same answer to the bit whatever else is in its batch.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from treesim_dask.hashing.bands import candidate_probability
from treesim_dask.index.bands import Hits
from treesim_dask.index.parts import join_vectors
from treesim_dask.index.segment import Segment
from treesim_dask.index.tables import page_columns
from treesim_dask.query.metrics import METRICS, Metric, measure_pairs
from treesim_dask.query.options import SearchOptions
from treesim_dask.query.page import QueryPage
from treesim_dask.query.selection import Selected, select_pages
from treesim_dask.query.vectors import read_vectors
from treesim_dask.types import FloatArray, Int64Array, offsets_of

_SHAPES_AT_ONCE = 8192
_QUERIES_AT_ONCE = 1024


class Match(NamedTuple):
    """An indexed page that resembles the query.

    ``page_id`` names it in the index; ``bands`` are the bands that fired; one range read of ``length`` bytes at
    ``offset`` of ``warc`` gives the page back. ``is_query`` marks the query page itself. ``probability`` is that with
    which the index finds a page of this Jaccard similarity, None where the family has no such formula.
    """

    rank: int
    score: float
    cosine: float
    jaccard: float
    bands: tuple[int, ...]
    url: str
    date: datetime | None
    warc: str
    offset: int
    length: int | None
    page_id: str
    n_nodes: int
    is_query: bool
    probability: float | None = None

    def to_row(self) -> dict[str, Any]:
        """Return the fields by name."""
        return self._asdict()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**self._asdict(), "bands": list(self.bands), "date": self.date.isoformat() if self.date else None}


@dataclass(frozen=True, slots=True)
class SegmentAnswer:
    """The best matches of one or more segments, and how they were found.

    Parameters
    ----------
    matches
        Best first.
    n_candidates
        How many shapes were compared with the query, in each segment for itself.
    n_capped
        How many entries of overfull buckets were passed over, if a cap was set.
    n_agree
        In how many rows of a band candidates had to agree, if fewer than all were enough; None otherwise.
    """

    matches: tuple[Match, ...]
    n_candidates: int
    n_capped: int = 0
    n_agree: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "n_candidates": self.n_candidates,
            "n_capped": self.n_capped,
            "n_agree": self.n_agree,
            "matches": [match.to_dict() for match in self.matches],
        }

    def notes(self) -> list[str]:
        """Return what a reader of the answer should know about it."""
        notes = [f"{self.n_capped:,} entries of overfull buckets were passed over"] if self.n_capped else []
        if self.n_agree is not None:
            rows = "row" if self.n_agree == 1 else f"{self.n_agree} rows"
            notes.append(f"too few pages share a bucket: also took those that agree in the first {rows} of a band")
        return notes


@dataclass(frozen=True, slots=True)
class Pairs:
    """Queries and candidate shapes with their exact similarity, ordered by query, best first.

    Parameters
    ----------
    queries, shapes
        Shape (n_pairs,), dtype int64.
    keys
        Shape (n_pairs,), dtype float64: the score, turned so that less is better.
    scores, cosines, jaccards
        Shape (n_pairs,), dtype float64.
    indptr, bands
        The bands that fired for pair i are ``bands[indptr[i]:indptr[i + 1]]``, dtype int64.
    """

    queries: Int64Array
    shapes: Int64Array
    keys: FloatArray
    scores: FloatArray
    cosines: FloatArray
    jaccards: FloatArray
    indptr: Int64Array
    bands: Int64Array


def search_segment(segment: Segment, queries: Sequence[QueryPage], options: SearchOptions) -> list[SegmentAnswer]:
    """Return the best k pages of one segment for each query: filter by buckets, rerank exactly.

    The work is per distinct shape: a million pages of one shape cost one comparison.
    """
    # 1. filter
    hits = _find_hits(segment, queries, options)
    if not len(hits.shapes):
        return [SegmentAnswer((), 0, n_agree=options.n_agree)] * len(queries)
    # 2. rerank
    pairs = _rerank(segment, queries, hits.queries, hits.bands, hits.shapes, options)
    # 3. the pages behind the best shapes
    selected = select_pages(segment, queries, pairs.queries, pairs.shapes, pairs.keys, options)
    matches = _make_matches(segment, queries, pairs, selected, options)
    n_candidates = np.bincount(pairs.queries, minlength=len(queries)).tolist()
    n_capped = hits.n_capped.tolist()
    return [
        SegmentAnswer(tuple(matches[i]), n_candidates[i], n_capped[i], options.n_agree) for i in range(len(queries))
    ]


def _find_hits(segment: Segment, queries: Sequence[QueryPage], options: SearchOptions) -> Hits:
    keys = np.stack([query.keys for query in queries])
    if options.n_agree is None:
        return segment.find_hits(keys, options.bucket_cap)
    return segment.scan_hits(np.stack([query.signature for query in queries]), keys.shape[1], options.n_agree)


def search_segments(
    segments: Iterable[Segment], queries: Sequence[QueryPage], options: SearchOptions
) -> list[SegmentAnswer]:
    """Answer queries in this process, segment after segment."""
    answers = [search_segment(segment, queries, options) for segment in segments]
    return [merge_answers([answer[i] for answer in answers], options) for i in range(len(queries))]


def search_many(
    segments: Sequence[Segment], queries: Iterable[QueryPage], options: SearchOptions
) -> Iterator[tuple[QueryPage, SegmentAnswer]]:
    """Answer any number of queries, in their order and in bounded memory: some hundreds at once."""
    for block in in_blocks(queries):
        yield from zip(block, search_segments(segments, block, options), strict=True)


def in_blocks(queries: Iterable[QueryPage]) -> Iterator[list[QueryPage]]:
    """Cut queries into blocks that are answered at once."""
    remaining = iter(queries)
    while block := list(islice(remaining, _QUERIES_AT_ONCE)):
        yield block


def merge_answers(answers: Iterable[SegmentAnswer], options: SearchOptions) -> SegmentAnswer:
    """Return the best k matches of several answers, ranked from 1. Ties are ordered by page id."""
    answers = list(answers)
    if len(answers) == 1:  # in order and ranked already
        return answers[0]
    matches: Iterable[Match] = (match for answer in answers for match in answer.matches)
    if options.one_per is None:
        best = heapq.nsmallest(options.k, matches, key=lambda match: sort_key(match, options.ordering))
    else:
        ordered = sorted(matches, key=lambda match: sort_key(match, options.ordering))
        best = list(islice(_first_of_each_site(ordered, options), options.k))
    return SegmentAnswer(
        tuple(match if match.rank == rank else match._replace(rank=rank) for rank, match in enumerate(best, 1)),
        sum(answer.n_candidates for answer in answers),
        sum(answer.n_capped for answer in answers),
        options.n_agree,
    )


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
        short = [i for i, answer in enumerate(answers) if len(answer.matches) < options.k]
        if not short:
            break
        more = ask([queries[i] for i in short], replace(options, n_agree=n_agree))
        for i, answer in zip(short, more, strict=True):
            answers[i] = answer
    return answers


def sort_key(match: Match, metric: Metric) -> tuple[float, str, int]:
    """Order matches best first, and by page id where the scores are equal."""
    segment_id, row = match.page_id.rsplit("-", 1)
    return (match.score if metric.is_distance else -match.score, segment_id, int(row))


def _first_of_each_site(matches: Iterable[Match], options: SearchOptions) -> Iterator[Match]:
    seen = set()
    for match in matches:
        site = options.site_of(match.url)
        if site not in seen:
            seen.add(site)
            yield match


def _rerank(
    segment: Segment,
    queries: Sequence[QueryPage],
    hit_queries: Int64Array,
    hit_bands: Int64Array,
    hit_shapes: Int64Array,
    options: SearchOptions,
) -> Pairs:
    """Compare each query with each of its candidates, some thousand candidates at a time."""
    metric = options.ordering
    # pairs in the order of their shapes, so that each vector is read once; one number says it all and sorts quickly
    n_bands = len(queries[0].keys)
    hits = np.sort((hit_shapes * len(queries) + hit_queries) * n_bands + hit_bands)
    pair_of_hit = hits // n_bands
    starts = _starts_of_runs(pair_of_hit)
    distinct = pair_of_hit[starts]
    of_query, shapes = distinct % len(queries), distinct // len(queries)
    names = (metric.name, "cosine", "jaccard")
    values = np.empty((len(names), len(distinct)))
    batch = join_vectors([query.shape for query in queries])
    firsts = _starts_of_runs(shapes)
    candidates, place = shapes[firsts], np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(shapes))))
    for first in range(0, len(candidates), _SHAPES_AT_ONCE):
        some = slice(*np.searchsorted(place, (first, first + _SHAPES_AT_ONCE)))
        vectors = read_vectors(segment, candidates[first : first + _SHAPES_AT_ONCE], options.storage_options)
        overlap = measure_pairs(batch, vectors, of_query[some], place[some] - first)
        for row, name in enumerate(names):
            values[row, some] = METRICS[name].scores(overlap)
    keys = values[0] if metric.is_distance else -values[0]
    best_first = np.lexsort((shapes, keys, of_query))
    lengths = np.diff(np.append(starts, len(hits)))[best_first]
    shifts = np.repeat(starts[best_first] - offsets_of(lengths)[:-1], lengths)
    bands = (hits % n_bands)[np.arange(len(hits)) + shifts]
    pairs = (of_query[best_first], shapes[best_first], keys[best_first])
    scores, cosines, jaccards = values[:, best_first]
    return Pairs(*pairs, scores, cosines, jaccards, offsets_of(lengths), bands)


def _starts_of_runs(values: Int64Array) -> Int64Array:
    """Return where each run of equal values starts.

    Examples
    --------
    >>> _starts_of_runs(np.array([4, 4, 7])).tolist()
    [0, 2]
    """
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))


def _probabilities(pairs: Pairs, selected: Selected, options: SearchOptions) -> list[float | None]:
    if options.bands_and_rows is None:
        return [None] * len(selected.pairs)
    # rounded, so that they are the same on every machine
    return [*candidate_probability(pairs.jaccards[selected.pairs], *options.bands_and_rows).round(9).tolist()]


def _columns_for(queries: Sequence[QueryPage]) -> list[str]:
    """Return the columns of the page table that matches need; digests only where they tell the query page itself."""
    columns = ["url", "date", "warc", "offset", "length", "n_nodes"]
    return [*columns, "digest"] if any(query.is_known_by_digest for query in queries) else columns


def _make_matches(
    segment: Segment, queries: Sequence[QueryPage], pairs: Pairs, selected: Selected, options: SearchOptions
) -> list[list[Match]]:
    matches: list[list[Match]] = [[] for _ in queries]
    pages = page_columns(segment.read_pages(selected.rows, _columns_for(queries)))
    digests = pages.pop("digest", [None] * len(selected.rows))
    numbers = pairs.queries[selected.pairs].tolist()
    scores = (column[selected.pairs].tolist() for column in (pairs.scores, pairs.cosines, pairs.jaccards))
    bands, indptr = pairs.bands.tolist(), pairs.indptr
    fired = zip(indptr[selected.pairs].tolist(), indptr[selected.pairs + 1].tolist(), strict=True)
    bands_of = [tuple(bands[start:stop]) for start, stop in fired]
    page_ids = segment.page_ids(selected.origins)
    probabilities = _probabilities(pairs, selected, options)
    rows = zip(numbers, *scores, bands_of, page_ids, probabilities, digests, *pages.values(), strict=True)
    for number, score, cosine, jaccard, fired_bands, page_id, chance, digest, url, date, warc, offset, size, n in rows:
        found = matches[number]
        is_query = queries[number].is_same_page(page_id, url, warc, offset, digest)
        match = (score, cosine, jaccard, fired_bands, url, date, warc, offset, size, page_id, n, is_query, chance)
        found.append(Match(len(found) + 1, *match))
    return matches

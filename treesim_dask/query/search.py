"""Buckets to candidates to matches: filter and rerank inside one segment, merge over all of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from treesim_dask.index.segment import Candidates, Segment
from treesim_dask.query.metrics import METRICS, Metric, Overlap, measure_overlap
from treesim_dask.query.page import QueryPage
from treesim_dask.types import FloatArray, Int64Array


@dataclass(frozen=True, slots=True)
class Match:
    """An indexed page that resembles the query.

    ``page_id`` names it in the index; ``bands`` are the bands that fired; one range read of ``length`` bytes at
    ``offset`` of ``warc`` gives the page back. ``is_query`` marks the query page itself.
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

    def to_row(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "bands": list(self.bands), "date": self.date.isoformat() if self.date else None}


@dataclass(frozen=True, slots=True)
class SegmentAnswer:
    """The best matches of one or more segments, and how many candidate shapes were compared for them."""

    matches: tuple[Match, ...]
    n_candidates: int


def search_segment(segment: Segment, query: QueryPage, metric: Metric, k: int, with_self: bool = True) -> SegmentAnswer:
    """Return the best `k` pages of one segment: filter by buckets, rerank exactly.

    The work is per distinct shape: a million pages of one shape cost one comparison.
    """
    # 1. filter
    candidates = segment.find_candidates(query.keys)
    if not len(candidates):
        return SegmentAnswer((), 0)
    # 2. rerank
    overlap = measure_overlap(query.shape, segment.read_shapes(candidates.shapes))
    scores = metric.scores(overlap)
    # 3. the pages behind the best shapes; if the query itself is left out, as many more as replace it
    order, rows = _order_pages(segment, candidates, scores, metric)
    n_taken = k
    while True:
        best = slice(n_taken)
        matches = _make_matches(segment, query, candidates, overlap, scores, order[best], rows[best])
        kept = [match for match in matches if with_self or not match.is_query]
        if len(kept) >= k or n_taken >= len(rows):
            return SegmentAnswer(tuple(kept[:k]), len(candidates))
        n_taken *= 2


def search_segments(
    segments: Iterable[Segment], query: QueryPage, metric: Metric, k: int, with_self: bool = True
) -> SegmentAnswer:
    """Answer a query in this process, segment after segment."""
    return merge_answers([search_segment(segment, query, metric, k, with_self) for segment in segments], metric, k)


def merge_answers(answers: Iterable[SegmentAnswer], metric: Metric, k: int) -> SegmentAnswer:
    """Return the best `k` matches of several answers, ranked from 1. Ties are ordered by page id."""
    answers = list(answers)
    matches = [match for answer in answers for match in answer.matches]
    best = heapq.nsmallest(k, matches, key=lambda match: sort_key(match, metric))
    ranked = tuple(replace(match, rank=rank) for rank, match in enumerate(best, 1))
    return SegmentAnswer(ranked, sum(answer.n_candidates for answer in answers))


def sort_key(match: Match, metric: Metric) -> tuple[float, str, int]:
    """Order matches best first, and by page id where the scores are equal."""
    segment_id, row = match.page_id.rsplit("-", 1)
    return (match.score if metric.is_distance else -match.score, segment_id, int(row))


def _order_pages(
    segment: Segment, candidates: Candidates, scores: FloatArray, metric: Metric
) -> tuple[Int64Array, Int64Array]:
    """Return, for each page of a candidate, best first, the position of its candidate and its row in the page table."""
    place = np.searchsorted(candidates.shapes, segment.page_shapes)
    place[place == len(candidates)] = 0
    rows = np.flatnonzero(candidates.shapes[place] == segment.page_shapes)
    position = place[rows]
    keys = scores[position] if metric.is_distance else -scores[position]
    best = np.lexsort((rows, keys))
    return position[best], rows[best]


def _make_matches(
    segment: Segment,
    query: QueryPage,
    candidates: Candidates,
    overlap: Overlap,
    scores: FloatArray,
    order: Int64Array,
    rows: Int64Array,
) -> list[Match]:
    cosines, jaccards = (METRICS[name].scores(overlap) for name in ("cosine", "jaccard"))
    pages = segment.read_pages(rows).to_pylist()
    return [
        Match(
            rank=rank,
            score=float(scores[i]),
            cosine=float(cosines[i]),
            jaccard=float(jaccards[i]),
            bands=tuple(candidates.bands[candidates.indptr[i] : candidates.indptr[i + 1]].tolist()),
            url=page["url"],
            date=page["date"],
            warc=page["warc"],
            offset=page["offset"],
            length=page["length"],
            page_id=f"{segment.segment_id}-{row}",
            n_nodes=page["n_nodes"],
            is_query=query.is_same_page(page, f"{segment.segment_id}-{row}"),
        )
        for rank, (i, row, page) in enumerate(zip(order.tolist(), rows.tolist(), pages, strict=True), 1)
    ]

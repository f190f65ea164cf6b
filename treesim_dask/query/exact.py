"""Exact search: every page compared with every other, for judging what an index finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from treesim_dask.errors import ConfigError
from treesim_dask.index.segment import Segment
from treesim_dask.query.metrics import Metric, measure_pairs
from treesim_dask.query.vectors import read_vectors
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, offsets_of

_PAIRS_AT_ONCE = 2**19  # a dozen floats each


@dataclass(frozen=True, slots=True)
class PageShapes:
    """All pages of an index in memory: URL, id and shape of each, and the vectors.

    Parameters
    ----------
    urls, page_ids
        One a page.
    shape_of
        Shape (n_pages,), dtype int64: the row of `shapes` of each page.
    shapes
        The distinct shapes of each segment.
    """

    urls: list[str]
    page_ids: list[str]
    shape_of: Int64Array
    shapes: ShapeBatch


def load_page_shapes(segments: Iterable[Segment]) -> PageShapes:
    """Read all pages and vectors of an index."""
    urls: list[str] = []
    page_ids: list[str] = []
    shape_of, lengths, branches, counts = [], [], [], []
    n_shapes = 0
    for segment in segments:
        rows = segment.live_rows()
        batch = read_vectors(segment, np.arange(segment.summary.n_shapes, dtype=np.int64))
        urls += segment.read_pages(rows, ["url"]).column("url").to_pylist()
        page_ids += segment.page_ids(segment.page_origins(rows))
        shape_of.append(segment.page_shapes[rows] + n_shapes)
        lengths.append(np.diff(batch.indptr))
        branches.append(batch.branches)
        counts.append(batch.counts)
        n_shapes += len(batch)
    if not urls:
        raise ConfigError("the index holds no page to ask for")
    vectors = ShapeBatch(offsets_of(np.concatenate(lengths)), np.concatenate(branches), np.concatenate(counts))
    return PageShapes(urls, page_ids, np.concatenate(shape_of), vectors)


def best_scores(pages: PageShapes, asked: Sequence[int], metric: Metric, n_best: int) -> FloatArray:
    """Return the scores of the exact best pages for each asked page, itself left out.

    Parameters
    ----------
    asked
        Numbers of pages.
    n_best
        How many, or as many as there are other pages.

    Returns
    -------
    numpy.ndarray
        Shape (n_asked, n_best), dtype float64, best first.
    """
    n_best = min(n_best, len(pages.shape_of) - 1)
    sign = 1.0 if metric.is_distance else -1.0
    best = np.empty((len(asked), n_best))
    for some, scores in compare_with_all(pages, asked, metric):
        keys = sign * scores
        best[some] = np.sort(np.partition(keys, max(n_best - 1, 0), axis=1)[:, :n_best], axis=1)
    return sign * best


def compare_with_all(pages: PageShapes, asked: Sequence[int], metric: Metric) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the places of some asked pages and their scores with all pages; the worst there is for a page itself.

    The same bits as a query gives: shapes are compared pair by pair, each distinct one once.
    """
    n_shapes, worst = len(pages.shapes), np.inf if metric.is_distance else -np.inf
    n_at_once = max(1, _PAIRS_AT_ONCE // n_shapes)
    for first in range(0, len(asked), n_at_once):
        numbers = np.asarray(asked[first : first + n_at_once])
        distinct, place = np.unique(pages.shape_of[numbers], return_inverse=True)
        left, right = np.repeat(distinct, n_shapes), np.tile(np.arange(n_shapes), len(distinct))
        scores = metric.scores(measure_pairs(pages.shapes, pages.shapes, left, right)).reshape(-1, n_shapes)
        of_pages = scores[place][:, pages.shape_of]
        of_pages[np.arange(len(numbers)), numbers] = worst
        yield slice(first, first + len(numbers)), of_pages

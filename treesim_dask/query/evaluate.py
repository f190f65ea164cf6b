"""How good are the answers? Against labels (precision) and against exact search over all pages (recall)."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from treesim_dask.config import IndexConfig
from treesim_dask.errors import ConfigError
from treesim_dask.index.segment import Segment
from treesim_dask.query.metrics import Metric, measure_overlap
from treesim_dask.query.options import SearchOptions
from treesim_dask.query.page import QueryPage, make_query
from treesim_dask.query.search import SegmentAnswer, search_many
from treesim_dask.query.vectors import read_vectors
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, offsets_of


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Means over all queries.

    Parameters
    ----------
    precision
        Share of the answers that have the query's template. A template with fewer than k other pages is judged by
        as many answers as it has.
    r_precision
        The same for the first R answers, R being the number of other pages of the template.
    recall
        Share of the exact top k that was found; an answer as good as the k-th counts, whichever of the tied it is.
    """

    metric: str
    k: int
    n_queries: int
    n_pages: int
    precision: float
    r_precision: float
    recall: float
    n_candidates: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PageShapes:
    """All pages of an index in memory, for exact search: URL, id and shape of each, and the vectors."""

    urls: list[str]
    page_ids: list[str]
    shape_of: Int64Array
    shapes: ShapeBatch


def evaluate(
    segments: Sequence[Segment],
    config: IndexConfig,
    labels: Mapping[str, str],
    metric: Metric,
    k: int = 10,
    min_pages: int = 5,
    n_queries: int | None = None,
    seed: int = 0,
    on_query: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Query with every labelled page, itself left out, and judge the answers.

    Parameters
    ----------
    segments, config
        The index.
    labels
        The template of each URL.
    metric, k
        As for a query.
    min_pages
        Templates with fewer pages are distractors: found or not, they are not asked for.
    n_queries
        Ask only this many, drawn with `seed`.
    on_query
        Called after each query with the number done and of all.
    """
    pages = load_page_shapes(segments)
    template = [labels.get(url) for url in pages.urls]
    sizes = Counter(label for label in template if label is not None)
    asked = [i for i, label in enumerate(template) if label is not None and sizes[label] >= min_pages]
    if not asked:
        raise ConfigError(f"no indexed page has a label shared by at least {min_pages} pages; do the URLs agree?")
    if n_queries is not None and n_queries < 1:
        raise ConfigError(f"n_queries must be at least 1, got {n_queries}")
    if n_queries is not None and n_queries < len(asked):
        asked = sorted(Random(seed).sample(asked, n_queries))
    label_of = dict(zip(pages.page_ids, template, strict=True))
    n_relevant = {i: sizes[str(template[i])] - 1 for i in asked}
    totals, done = np.zeros(4), 0
    for n_wanted, some in _group_by(asked, lambda i: max(k, n_relevant[i])):
        options = SearchOptions(n_wanted, metric.name, with_self=False)
        answers = search_many(segments, (_query_of(pages, i, config) for i in some), options)
        for i, (_, answer) in zip(some, answers, strict=True):
            found = [label_of[match.page_id] == template[i] for match in answer.matches]
            recall = _recall(answer, _exact_scores(pages, i, metric), metric, k)
            totals += _share(found, min(k, n_relevant[i])), _share(found, n_relevant[i]), recall, answer.n_candidates
            done += 1
            on_query(done, len(asked))
    return Evaluation(metric.name, k, len(asked), len(pages.urls), *(totals / len(asked)).tolist())


def _group_by(items: Sequence[int], key: Callable[[int], int]) -> Iterator[tuple[int, list[int]]]:
    """Yield the items with the same key together: queries that want equally many matches make a batch."""
    return ((value, list(group)) for value, group in groupby(sorted(items, key=key), key))


def _query_of(pages: PageShapes, i: int, config: IndexConfig) -> QueryPage:
    return make_query(pages.page_ids[i], pages.shapes.take(pages.shape_of[[i]]), config, page_id=pages.page_ids[i])


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


def read_labels(path: str, url_column: str = "url", label_column: str = "template") -> dict[str, str]:
    """Read the template of each URL from a CSV file with a header."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            missing = {url_column, label_column} - set(rows.fieldnames or ())
            if missing:
                raise ConfigError(f"{path} has no column {', '.join(sorted(missing))}; it has {rows.fieldnames}")
            return {row[url_column]: row[label_column] for row in rows}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the labels: {error}") from None


def _exact_scores(pages: PageShapes, i: int, metric: Metric) -> FloatArray:
    """Compare one page with all others. Shape (n_pages - 1,), float64."""
    query = pages.shapes.take(pages.shape_of[[i]])
    scores = metric.scores(measure_overlap(query, pages.shapes))[pages.shape_of]
    return np.delete(scores, i)


def _recall(answer: SegmentAnswer, exact: FloatArray, metric: Metric, k: int) -> float:
    n_best = min(k, len(exact))
    if not n_best:
        return 1.0
    sign = 1.0 if metric.is_distance else -1.0
    bound = sign * float(np.partition(sign * exact, n_best - 1)[n_best - 1])
    good = [sign * match.score <= sign * bound for match in answer.matches[:n_best]]
    return sum(good) / n_best


def _share(found: Sequence[bool], n: int) -> float:
    return sum(found[:n]) / n if n else 1.0

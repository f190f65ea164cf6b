"""How good are the answers? Against labels (precision) and against exact search over all pages (recall)."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from treesim_dask.config import IndexConfig, check_count
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import make_family
from treesim_dask.hashing.sampling import CurvePoints, curve_points, draw_sample, meeting_pairs
from treesim_dask.index.segment import Segment
from treesim_dask.query.exact import PageShapes, best_scores, load_page_shapes
from treesim_dask.query.matches import SegmentAnswer
from treesim_dask.query.metrics import Metric, check_metric
from treesim_dask.query.options import SearchOptions
from treesim_dask.query.page import QueryPage
from treesim_dask.query.search import search_many
from treesim_dask.types import FloatArray

_CURVE_QUERIES = 100


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Means over all queries.

    Parameters
    ----------
    precision
        Share of the answers that have the query's template. A template with fewer than k other pages is judged by
        as many answers as it has. None without labels.
    r_precision
        The same for the first R answers, R being the number of other pages of the template.
    recall
        Share of the exact top k that was found; an answer as good as the k-th counts, whichever of the tied it is.
    n_candidates
        Shapes compared with a query, its own included.
    precision_by_rank, recall_by_rank
        Both for the first 1, 2, ... k answers.
    """

    metric: str
    k: int
    n_queries: int
    n_pages: int
    precision: float | None
    r_precision: float | None
    recall: float
    n_candidates: float
    precision_by_rank: tuple[float, ...]
    recall_by_rank: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            **asdict(self),
            "precision_by_rank": [*self.precision_by_rank],
            "recall_by_rank": [*self.recall_by_rank],
        }


def evaluate(
    segments: Sequence[Segment],
    config: IndexConfig,
    labels: Mapping[str, str] | None,
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
        The template of each URL; None to ask with all pages and measure recall alone.
    metric, k
        As for a query.
    min_pages
        Templates with fewer pages are distractors: found or not, they are not asked for.
    n_queries
        Ask only this many, drawn with `seed`.
    on_query
        Called after each query with the number done and of all.
    """
    check_metric(metric, config)
    check_count("k", k)
    pages = load_page_shapes(segments)
    asked = choose_queries(pages, labels, min_pages, n_queries, seed)
    judge = _Judge(pages, labels, k)
    totals, done = np.zeros(2 * k + 2), 0
    for n_wanted, some in _group_by(asked, judge.n_wanted):
        options = SearchOptions(n_wanted, metric.name, with_self=False)
        exact = best_scores(pages, some, metric, k)
        answers = search_many(segments, _queries(pages, some, config), options)
        for page, best, (_, answer) in zip(some, exact, answers, strict=True):
            precisions, r_precision = judge.precisions(page, answer)
            totals += [*precisions, r_precision, *_recalls(answer, best, metric, k), answer.n_candidates]
            done += 1
            on_query(done, len(asked))
    means = (totals / len(asked)).tolist()
    by_rank = tuple(means[:k]) if labels is not None else ()
    return Evaluation(
        metric=metric.name,
        k=k,
        n_queries=len(asked),
        n_pages=len(pages.urls),
        precision=means[k - 1] if labels is not None else None,
        r_precision=means[k] if labels is not None else None,
        recall=means[2 * k],
        n_candidates=means[2 * k + 1],
        precision_by_rank=by_rank,
        recall_by_rank=tuple(means[k + 1 : 2 * k + 1]),
    )


def measure_curve(segments: Sequence[Segment], config: IndexConfig, seed: int = 0) -> CurvePoints:
    """Return the share of candidates among pairs of indexed shapes by similarity: the points over the S-curve."""
    shapes = load_page_shapes(segments).shapes
    family = make_family(config)
    sample = draw_sample(family, shapes, _CURVE_QUERIES, seed)
    met = meeting_pairs(band_keys(family.sign(shapes), config.n_bands), sample.queries)
    return curve_points(sample.similarities, met)


def choose_queries(
    pages: PageShapes, labels: Mapping[str, str] | None, min_pages: int, n_queries: int | None, seed: int
) -> list[int]:
    """Return the numbers of the pages to ask with."""
    asked = list(range(len(pages.urls)))
    if labels is not None:
        template = [labels.get(url) for url in pages.urls]
        sizes = Counter(label for label in template if label is not None)
        asked = [i for i, label in enumerate(template) if label is not None and sizes[label] >= min_pages]
    if not asked:
        raise ConfigError(f"no indexed page has a label shared by at least {min_pages} pages; do the URLs agree?")
    if n_queries is not None:
        check_count("n_queries", n_queries)
    if n_queries is not None and n_queries < len(asked):
        asked = sorted(Random(seed).sample(asked, n_queries))
    return asked


class _Judge:
    """Says which answers have the template of the query."""

    def __init__(self, pages: PageShapes, labels: Mapping[str, str] | None, k: int) -> None:
        self._template = [labels.get(url) if labels is not None else None for url in pages.urls]
        self._label_of = dict(zip(pages.page_ids, self._template, strict=True))
        self._sizes = Counter(label for label in self._template if label is not None)
        self._k = k

    def _n_relevant(self, page: int) -> int:
        label = self._template[page]
        return self._sizes[label] - 1 if label is not None else 0

    def n_wanted(self, page: int) -> int:
        """Return how many answers to a page are looked at."""
        return max(self._k, self._n_relevant(page))

    def precisions(self, page: int, answer: SegmentAnswer) -> tuple[list[float], float]:
        """Return the precision of the first 1, 2, ... k answers, and of as many as are relevant."""
        found = [self._label_of[match.page_id] == self._template[page] for match in answer.matches]
        n_relevant = self._n_relevant(page)
        return [_share(found, min(rank, n_relevant)) for rank in range(1, self._k + 1)], _share(found, n_relevant)


def _group_by(items: Sequence[int], key: Callable[[int], int]) -> Iterator[tuple[int, list[int]]]:
    """Yield the items with the same key together: queries that want equally many matches make a batch."""
    return ((value, list(group)) for value, group in groupby(sorted(items, key=key), key))


def _queries(pages: PageShapes, asked: Sequence[int], config: IndexConfig) -> Iterator[QueryPage]:
    """Yield pages of the index as queries, each distinct shape signed once."""
    distinct, place = np.unique(pages.shape_of[asked], return_inverse=True)
    signatures = make_family(config).sign(pages.shapes.take(distinct))
    keys = band_keys(signatures, config.n_bands)
    for page, i in zip(asked, place.tolist(), strict=True):
        page_id = pages.page_ids[page]
        shape = pages.shapes.row(int(distinct[i]))
        yield QueryPage(page_id, shape, signatures[i], keys[i], page_id=page_id, url=pages.urls[page])


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


def _recalls(answer: SegmentAnswer, exact: FloatArray, metric: Metric, k: int) -> list[float]:
    """Return the share of the exact first 1, 2, ... k that was found; `exact` are their scores."""
    if not len(exact):
        return [1.0] * k
    sign = 1.0 if metric.is_distance else -1.0
    keys = sign * answer.scores[: len(exact)]
    ranks = np.minimum(np.arange(1, k + 1), len(exact))
    return [float(np.count_nonzero(keys[:rank] <= sign * exact[rank - 1]) / rank) for rank in ranks.tolist()]


def _share(found: Sequence[bool], n: int) -> float:
    return sum(found[:n]) / n if n else 1.0

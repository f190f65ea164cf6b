"""Bands and rows for the pages of an index, or for a sample of a crawl, by what exact search finds among them.

Queries are drawn from the pages. Wanted are the pages of their exact top k under a metric of the rerank, so that the
recall foretold is the one that `treesim_dask.query.evaluate` then measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from treesim_dask.config import IndexConfig, PageFilter, check_count
from treesim_dask.dom.shapes import shape_pages
from treesim_dask.errors import ConfigError
from treesim_dask.hashing.family import make_family
from treesim_dask.hashing.sampling import SampleTuning, draw_sample, tune_on_sample
from treesim_dask.hashing.tuning import BandChoice
from treesim_dask.index.parts import join_vectors
from treesim_dask.query.exact import PageShapes, compare_with_all
from treesim_dask.query.metrics import DEFAULT_METRIC, Metric, check_metric, find_metric
from treesim_dask.types import Int64Array, ShapeBatch, SkippedLog


def tune_on_pages(
    pages: PageShapes,
    asked: Sequence[int],
    config: IndexConfig,
    threshold: float,
    *,
    k: int = 10,
    metric: str = DEFAULT_METRIC,
    n_pages: int | None = None,
    max_candidates: float = np.inf,
    **bounds: Any,
) -> SampleTuning:
    """Choose bands and rows so that queries find their exact top k.

    Parameters
    ----------
    pages
        The pages of an index or of a sample.
    asked
        Numbers of the pages to ask with; some hundred are enough.
    config
        Family, feature and seed; its bands and rows are not looked at.
    threshold
        Similarity of the family below which candidates count as false.
    k, metric
        The pages queries should find.
    n_pages
        Pages of the index that is planned, if it has more of the same kind; candidates grow in proportion.
    max_candidates, bounds
        ``recall``, ``n_hashes`` and ``false_positive_weight`` of
        `treesim_dask.hashing.tuning.tune_bands`.

    Returns
    -------
    SampleTuning
        Its candidates are distinct shapes, the query's own included, as an evaluation counts them.
    """
    ranking = find_metric(metric)
    check_metric(ranking, config)
    check_count("k", k)
    queries = pages.shape_of[np.asarray(asked)]
    sample = draw_sample(make_family(config), pages.shapes, queries=queries)
    wanted = count_wanted(pages, asked, ranking, k)
    own = np.zeros(wanted.shape, np.bool_)
    own[np.arange(len(queries)), queries] = True
    growth = n_pages / len(pages.shape_of) if n_pages is not None else 1.0
    tuning = tune_on_sample(
        config,
        sample,
        threshold,
        n_pages=growth * (len(pages.shapes) - 1),
        wanted=wanted[~own].reshape(len(queries), -1),
        n_identical=int(wanted[own].sum()),
        max_candidates=max_candidates - 1,
        **bounds,
    )
    return SampleTuning(_with_own_shape(tuning.expected), _with_own_shape(tuning.counted), tuning.points)


def _with_own_shape(choice: BandChoice) -> BandChoice:
    return replace(choice, n_candidates=choice.n_candidates + 1)


def count_wanted(pages: PageShapes, asked: Sequence[int], metric: Metric, k: int) -> Int64Array:
    """Count, for each asked page, how many pages of its exact top k have which shape; the first of equal ones.

    Returns
    -------
    numpy.ndarray
        Shape (n_asked, n_shapes), dtype int64; each row sums to k, or to the number of other pages.
    """
    n_best = min(k, len(pages.shape_of) - 1)
    sign = 1.0 if metric.is_distance else -1.0
    wanted = np.zeros((len(asked), len(pages.shapes)), np.int64)
    for some, scores in compare_with_all(pages, asked, metric):
        best = np.argsort(sign * scores, axis=1, kind="stable")[:, :n_best]
        rows = np.arange(some.start, some.stop)[:, None]
        np.add.at(wanted, (rows, pages.shape_of[best]), 1)
    return wanted


def sample_pages(
    inputs: Sequence[str], config: IndexConfig, n_pages: int, storage_options: Mapping[str, Any] | None = None
) -> PageShapes:
    """Read the first pages of some inputs of a crawl, and count them as an index would.

    Parameters
    ----------
    inputs
        As for a build.
    n_pages
        Read at most so many, as evenly from the input files as they have pages.
    """
    from treesim_dask.crawl.inputs import find_sources
    from treesim_dask.crawl.pages import read_pages

    sources = find_sources(inputs, storage_options=storage_options)
    shapes: list[ShapeBatch] = []
    urls: list[str] = []
    for number, source in enumerate(sources):
        n_left = (n_pages - len(urls)) // (len(sources) - number)
        batches = read_pages(source, PageFilter(), SkippedLog(), storage_options=storage_options)
        html = list(islice(((h, u) for batch in batches for h, u in zip(batch.html, batch.url, strict=True)), n_left))
        if html:
            shapes.append(shape_pages([body for body, _ in html], config))
            urls += [url for _, url in html]
    if not urls:
        raise ConfigError("the sample holds no page; name archives with HTML pages")
    distinct, shape_of = distinct_shapes(join_vectors(shapes))
    return PageShapes(urls, [str(number) for number in range(len(urls))], shape_of, distinct)


def distinct_shapes(shapes: ShapeBatch) -> tuple[ShapeBatch, Int64Array]:
    """Return the distinct rows in the order of their first occurrence, and the place of each row among them.

    Examples
    --------
    >>> rows = ShapeBatch(np.array([0, 1, 2, 3]), np.array([5, 6, 5], np.uint32), np.ones(3, np.uint32))
    >>> distinct, place = distinct_shapes(rows)
    >>> distinct.branches.tolist(), place.tolist()
    ([5, 6], [0, 1, 0])
    """
    places: dict[tuple[bytes, bytes], int] = {}
    first, shape_of = [], np.empty(len(shapes), np.int64)
    for row in range(len(shapes)):
        part = slice(shapes.indptr[row], shapes.indptr[row + 1])
        key = (shapes.branches[part].tobytes(), shapes.counts[part].tobytes())
        if key not in places:
            places[key] = len(places)
            first.append(row)
        shape_of[row] = places[key]
    return shapes.take(np.array(first, np.int64)), shape_of

"""What collapsing repeated records does to similarity: 60 similar shops whose pages list from 5 to 200 items.

What is stressed: pages of one template that differ more in how many records they hold than the templates differ. There
are 11 pages of each. Precision at 10 is the share of the ten most similar pages, by exact search among all 660, that
have the template of the query; of equal ones the earlier page comes first. The similarity of a page of 10 and one of
200 items is that of one pair for each template. The pages and seeds are those of ``tests/test_collapse.py``.

    PYTHONPATH=tests python -m benchmarks.shops
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import record_pages

from treesim_dask.dom.branches import count_branches
from treesim_dask.dom.collapse import collapse_repeats
from treesim_dask.dom.tree import parse_trees
from treesim_dask.query.metrics import find_metric, measure_pairs
from treesim_dask.types import FloatArray, Int64Array, ShapeBatch, TreeBatch

N_TEMPLATES, N_PAGES = 60, 11
METRICS = ("log-cosine", "cosine", "jaccard")  # the default, on raw counts, on presence
_shop_page: Callable[[int, int, Random], bytes] = record_pages.shop_page


def similarities(shapes: ShapeBatch, metric: str, left: Int64Array, right: Int64Array) -> FloatArray:
    """Compare pairs of rows."""
    return find_metric(metric).scores(measure_pairs(shapes, shapes, left, right))


def precision_at_10(shapes: ShapeBatch, templates: Int64Array, metric: str) -> float:
    """Return the share of the ten most similar pages that have the template of the query."""
    n = len(templates)
    left, right = np.divmod(np.arange(n * n), n)
    scores = similarities(shapes, metric, left, right).reshape(n, n)
    np.fill_diagonal(scores, -1)
    nearest = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    return float((templates[nearest] == templates[:, None]).mean())


def print_precision() -> None:
    """Print precision at 10 with each metric."""
    random = Random(5)
    templates = np.repeat(np.arange(N_TEMPLATES), N_PAGES)
    trees = parse_trees([_shop_page(int(template), random.randint(5, 200), random) for template in templates])
    plain, collapsed = count_branches(trees), count_branches(collapse_repeats(trees))
    print(f"precision at 10 over {len(templates)} pages of {N_TEMPLATES} shops")
    for metric in METRICS:
        before, after = (precision_at_10(shapes, templates, metric) for shapes in (plain, collapsed))
        print(f"{metric:<12}{before:>8.3f}, collapsed {after:.3f}")


def print_pairs() -> None:
    """Print how similar a page of 10 and one of 200 items are."""
    random = Random(1)
    trees = parse_trees([_shop_page(template, n, random) for template in range(N_TEMPLATES) for n in (10, 200)])
    print(f"\nlog-cosine of a page of 10 and one of 200 items, {N_TEMPLATES} pairs")
    for name, batch in (("as they are", trees), ("collapsed", collapse_repeats(trees))):
        scores = pair_scores(batch)
        print(f"{name:<12} mean {scores.mean():.3f}, median {np.median(scores):.3f}, least {scores.min():.3f}")


def pair_scores(trees: TreeBatch) -> FloatArray:
    """Compare each page at an even place with the one after it."""
    first = np.arange(0, len(trees.indptr) - 1, 2)
    return similarities(count_branches(trees), "log-cosine", first, first + 1)


if __name__ == "__main__":
    print_precision()
    print_pairs()

"""Pages to shapes, as the parameters of an index say: what a build does with a page and a query does with its own."""

from __future__ import annotations

from collections.abc import Iterable

from treesim_dask.config import IndexConfig
from treesim_dask.dom.collapse import collapse_repeats
from treesim_dask.dom.features import make_feature
from treesim_dask.dom.tree import parse_trees
from treesim_dask.errors import ConfigError
from treesim_dask.types import ShapeBatch


def shape_pages(pages: Iterable[bytes], config: IndexConfig) -> ShapeBatch:
    """Parse pages, splice and collapse their trees, and count their features.

    Parameters
    ----------
    pages
        HTML as ASCII-compatible bytes.
    config
        The index parameters.

    Examples
    --------
    >>> shapes = shape_pages([b"<ul><li>a<li>b</ul>", b"<p>"], IndexConfig())
    >>> len(shapes), shapes.counts.tolist()
    (2, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    feature = make_feature(config)
    if config.collapse_repeats and feature.needs_classes:
        raise ConfigError(f"collapse_repeats compares tags alone and cannot go with the feature {config.feature!r}")
    trees = parse_trees(pages, config.spliced_tags, with_classes=feature.needs_classes)
    return feature.count(collapse_repeats(trees) if config.collapse_repeats else trees)

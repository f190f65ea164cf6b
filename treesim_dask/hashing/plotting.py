"""The S-curve drawn: theory, threshold and measured points. matplotlib is loaded at the first call only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from treesim_dask.errors import ConfigError
from treesim_dask.hashing.bands import candidate_probability, rise
from treesim_dask.types import FloatArray, Int64Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_s_curve(
    n_bands: int,
    n_rows: int,
    measured: tuple[FloatArray, FloatArray, Int64Array] | None = None,
    *,
    label: str = "similarity (probability that one hash agrees)",
    axes: Axes | None = None,
) -> Figure:
    """Draw the probability of becoming a candidate over the similarity.

    Parameters
    ----------
    measured
        Mean similarity, share of candidates and number of pairs by bin, as `curve_points` gives them. The bars are one
        standard error of as many pairs that have nothing to do with each other; the pairs of two templates meet or
        miss together, so that points of real pages scatter more.
    label
        What the similarity is.
    axes
        Where to draw; by default a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        Shown by a notebook as it is; `save_figure` writes it.

    Examples
    --------
    >>> figure = draw_s_curve(20, 5)
    >>> figure.axes[0].get_title()
    '20 bands of 5 rows'
    """
    axes = new_figure().subplots() if axes is None else axes
    grid = np.linspace(0, 1, 501)
    axes.plot(grid, candidate_probability(grid, n_bands, n_rows), label="theory: $1-(1-s^r)^b$")
    threshold = rise(n_bands, n_rows)
    axes.axvline(threshold, linestyle="--", color="grey", label=f"$(1/b)^{{1/r}}$ = {threshold:.2f}")
    if measured is not None:
        means, shares, n_pairs = measured
        errors = np.sqrt(shares * (1 - shares) / n_pairs)
        axes.errorbar(means, shares, yerr=errors, fmt="o", markersize=4, label=f"measured, {n_pairs.sum():,} pairs")
    axes.set(xlim=(0, 1), ylim=(-0.02, 1.02), xlabel=label, ylabel="probability of becoming a candidate")
    axes.set_title(f"{n_bands} bands of {n_rows} rows")
    axes.legend(loc="upper left")
    return cast("Figure", axes.figure)


def check_figure_name(path: Path | str) -> Path:
    """Refuse a file that is neither PNG nor SVG, before any work is done.

    Examples
    --------
    >>> check_figure_name("curve.svg").suffix
    '.svg'
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"a plot is written as .png or .svg, got {path.name!r}")
    return path


def save_figure(figure: Figure, path: Path | str) -> None:
    """Write a figure as PNG or SVG, as the name of the file says."""
    path = check_figure_name(path)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ConfigError(f"cannot write the plot {path}: {error.strerror}") from None


def new_figure(n_plots: int = 1) -> Figure:
    """Return an empty figure with room for some plots side by side."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("plots need matplotlib; install it with: pip install 'treesim-dask[notebook]'") from None
    return Figure(figsize=(6 * n_plots, 4), layout="constrained")

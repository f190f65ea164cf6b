"""An evaluation drawn: precision and recall by rank beside the S-curve with its measured points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treesim_dask.config import IndexConfig
from treesim_dask.hashing.plotting import draw_s_curve, new_figure
from treesim_dask.hashing.sampling import CurvePoints
from treesim_dask.query.evaluate import Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_evaluation(result: Evaluation, config: IndexConfig, points: CurvePoints | None = None) -> Figure:
    """Draw precision and recall of the first 1, 2, ... k answers, and the S-curve of the index.

    Parameters
    ----------
    result
        What `evaluate` returned.
    config
        The parameters of the index.
    points
        Measured shares of candidates, as `measure_curve` gives them.

    Returns
    -------
    matplotlib.figure.Figure
        Shown by a notebook as it is; `treesim_dask.hashing.plotting.save_figure` writes it.
    """
    figure = new_figure(n_plots=2)
    answers, curve = figure.subplots(1, 2)
    ranks = np.arange(1, result.k + 1)
    if result.precision_by_rank:
        answers.plot(ranks, result.precision_by_rank, "o-", markersize=4, label="precision against the labels")
    # hollow, so that both are seen where they are equal
    answers.plot(
        ranks, result.recall_by_rank, "s--", markersize=9, fillstyle="none", label="recall of the exact search"
    )
    answers.set(ylim=(-0.02, 1.02), xlabel="first answers", ylabel="share")
    answers.set_title(f"{result.n_queries:,} queries, {result.metric}, {result.n_candidates:,.0f} candidates each")
    answers.legend(loc="lower left")
    draw_s_curve(config.n_bands, config.n_rows, points, label=f"probability that one {config.family} hash agrees",
                 axes=curve)  # fmt: skip
    return figure

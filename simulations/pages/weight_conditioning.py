"""The page of weight_conditioning: kappa against the shift, and the weight that attention keeps on the diagonal."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.statistics.estimate import Estimate

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHOWN = 4
LINE = np.concatenate([[0.0], np.geomspace(0.05, 10.5, 120)])


def page(results: Results) -> Any:
    """Two panels against the shift, one series per shape of the weight."""
    shapes = list(dict.fromkeys((s.width, s.head_dim) for s in results.where(correction="shift")))[:SHOWN]
    with figures.style():
        figure, axes = figures.page(2, 1, width=8.2, height=2.7)
        for ax, quantity, ylabel, words in (
            (axes[0, 0], "weight_condition_number", r"$\kappa(W + \lambda E)$", "Condition number of the weight"),
            (axes[1, 0], "diagonal_attention", r"mean $P_{ii}$", "Weight that attention keeps on the diagonal"),
        ):
            _against_shift(ax, results, shapes, quantity)
            ax.set_ylabel(ylabel)
            figures.title(ax, words + " at initialisation")
        figure.suptitle("A shift of the weights: what it buys and what it costs", x=0.02, ha="left")
    return figure


def _against_shift(ax: Any, results: Results, shapes: list[Any], quantity: str) -> None:
    curves, points = [], []
    predict = results.experiment.predict
    assert predict is not None
    for width, head_dim in shapes:
        label = f"{width} x {head_dim}"
        settings = sorted(
            results.where(correction="shift", width=width, head_dim=head_dim), key=lambda s: s.shift or 0.0
        )
        table = np.full((3, LINE.size), np.nan)
        for at, shift in enumerate(LINE):
            prediction = predict(dataclasses.replace(settings[0], shift=float(shift)))[quantity]
            if prediction.in_range:
                table[:, at] = prediction.value, *prediction.band
        curves.append(figures.Curve(label, LINE, *table))
        rows = []
        for setting in settings:
            estimate = Estimate.from_draws(results.samples[setting][quantity], "median")
            ends = estimate.interval or (estimate.value, estimate.value)
            rows.append((setting.shift, estimate.value, *ends))
        points.append(figures.Points(label, *np.array(rows, dtype=float).T))
    figures.scaling(ax, curves, points, xlabel=r"shift $\lambda$", ylabel="", xscale="symlog")
    ax.set_xscale("symlog", linthresh=0.5, linscale=0.6)
    ax.set_xticks([0, 0.5, 1, 2, 5, 10], ["0", "0.5", "1", "2", "5", "10"])
    ax.set_xlim(-0.05, 11)

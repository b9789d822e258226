"""Lines and points against the layer: theory where it is in range, measurements with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from rmt import figures
from rmt.statistics.estimate import Estimate

if TYPE_CHECKING:
    from rmt.experiments.results import Results


def theory_by_layer(results: Results, setting: Any, quantity: str, label: str, *, divide: float = 1.0) -> figures.Curve:
    """The prediction of a quantity against the layer, with its band."""
    predict = results.experiment.predict
    assert predict is not None
    layers = np.arange(1, setting.depth + 1)
    table = np.full((3, layers.size), np.nan)
    for number, prediction in (predict(setting).get(quantity) or {}).items():
        if prediction.in_range and prediction.band:
            table[:, number - 1] = prediction.value, *prediction.band
    return figures.Curve(label, layers, *(table / divide))


def measured_by_layer(
    results: Results, setting: Any, quantity: str, label: str, *, divide: float = 1.0
) -> figures.Points:
    """Means of a quantity against the layer, with their 95 % intervals; layers without a number are left out."""
    rows = []
    for number, draws in enumerate(results.samples[setting][quantity].T, start=1):
        if not np.isfinite(draws).all():
            continue
        estimate = Estimate.from_draws(draws, "mean")
        if estimate.value is not None:
            rows.append((number, estimate.value, *(estimate.interval or (estimate.value, estimate.value))))
    table = np.array(rows, dtype=float).reshape(-1, 4).T
    return figures.Points(label, table[0], *(table[1:] / divide))


def by_layer(ax: Any, curves: list[figures.Curve], points: list[figures.Points], *, ylabel: str, log: bool) -> None:
    """Draw them on a linear axis of layers."""
    figures.scaling(ax, curves, points, xlabel="layer", ylabel=ylabel, xscale="linear", log=log)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))

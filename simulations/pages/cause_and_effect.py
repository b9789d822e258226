"""The page of cause_and_effect: rank behind one layer, collapse per layer and gradient growth against the dose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.statistics.estimate import Estimate

if TYPE_CHECKING:
    from rmt.experiments.results import Results

PANELS = (
    ("branch_stable_rank", "(iii) Stable rank behind one layer", r"$\|X\|_F^2/\|X\|^2$", True),
    ("collapse_rate", "(ii) Collapse from layer to layer", "fall of ln excess a layer", False),
    ("gradient_growth", "(i) Growth of a squared gradient from layer to layer", "ln growth a layer", False),
)


def page(results: Results) -> Any:
    """Three panels: n apart in the first two, the conventions of the weights in the third."""
    first = results.settings[0]
    sizes = sorted({s.n for s in results.settings})[-4:]
    scales = list(dict.fromkeys(s.value_scale for s in results.settings))
    with figures.style():
        figure, axes = figures.page(3, 1, width=8.2, height=2.6)
        for ax, (quantity, words, ylabel, log) in zip(axes[:, 0], PANELS, strict=True):
            lines = [(f"n = {n}", {"n": n, "value_scale": scales[0]}) for n in sizes]
            if quantity == "gradient_growth":
                lines = [
                    (f"n = {n}, weights {s.replace('sqrtd', '√d')}", {"n": n, "value_scale": s})
                    for s in scales
                    for n in (sizes[0], sizes[-1])
                ][:4]
            curves, points = [], []
            for label, fields in lines:
                settings = [
                    s for s in results.where(**fields) if (s.skip_scale, s.norm) == (first.skip_scale, first.norm)
                ]
                settings.sort(key=lambda s: s.eta)
                points.append(_points(results, settings, quantity, label))
                curves.append(_curve(results, settings, quantity, label))
            xlabel = r"share $\eta$ of the outlier"
            figures.scaling(ax, curves, points, xlabel=xlabel, ylabel=ylabel, xscale="linear", log=log)
            figures.title(ax, words)
        skip = "no skip" if first.skip_scale == "0" else f"skip {first.skip_scale}"
        figure.suptitle(
            rf"$A - (1-\eta)\,11^T/n$: one dose, three effects ({first.model} logits, {skip}, norm {first.norm}, "
            rf"$\beta$ = {first.beta:.3g}, depth {first.depth})",
            x=0.02,
            ha="left",
        )
    return figure


def _points(results: Results, settings: list[Any], quantity: str, label: str) -> figures.Points:
    rows = []
    for setting in settings:
        estimate = Estimate.from_draws(results.samples[setting][quantity], "mean")
        if estimate.value is not None:
            rows.append((setting.eta, estimate.value, *(estimate.interval or (estimate.value, estimate.value))))
    return figures.Points(label, *np.array(rows, dtype=float).reshape(-1, 4).T)


def _curve(results: Results, settings: list[Any], quantity: str, label: str) -> figures.Curve:
    predict = results.experiment.predict
    assert predict is not None
    table = np.full((3, len(settings)), np.nan)
    for at, setting in enumerate(settings):
        prediction = predict(setting).get(quantity)
        if prediction is not None and prediction.in_range and prediction.band:
            table[:, at] = prediction.value, *prediction.band
    return figures.Curve(label, np.array([s.eta for s in settings]), *table)

"""The page of gradient_norms: the norm against n in each convention of the weights, and against the layer."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.statistics.estimate import Estimate
from simulations.pages.depth_lines import by_layer, measured_by_layer, theory_by_layer

if TYPE_CHECKING:
    from rmt.experiments.results import Results

NAMES = {"plain": "outlier kept", "outlier_removed": "outlier removed"}
QUANTITY = "gradient_norm_squared"


def page(results: Results) -> Any:
    """One panel for each weight convention, and one against the layer at the largest n."""
    scales = list(dict.fromkeys(s.value_scale for s in results.settings))
    first = results.settings[0]
    with figures.style():
        figure, axes = figures.page(len(scales) + 1, 1, width=8.2, height=2.6)
        for ax, scale in zip(axes[:-1, 0], scales, strict=True):
            _against_n(ax, results, scale)
            words = "1" if scale == "1" else r"$1/\sqrt{d}$"
            figures.title(ax, f"Value weights of standard deviation {words}, depth {first.depth}")
        _against_layer(axes[-1, 0], results)
        figure.suptitle(
            rf"Gradient of the last tokens in the value weights, {first.model} logits, $\beta$ = {first.beta:.3g}",
            x=0.02,
            ha="left",
        )
    return figure


def _against_n(ax: Any, results: Results, scale: str) -> None:
    curves, points = [], []
    for variant in list(dict.fromkeys(s.variant for s in results.settings))[:4]:
        settings = sorted(results.where(value_scale=scale, variant=variant), key=lambda s: s.n)
        settings = [s for s in settings if s.depth == results.settings[0].depth]
        if not settings:
            continue
        label = NAMES.get(variant, variant)
        rows = [_mean(results.samples[s][QUANTITY].mean(axis=1)) for s in settings]
        points.append(figures.Points(label, np.array([s.n for s in settings]), *np.array(rows).T))
        curve = _theory(results, settings, label)
        if curve is not None:
            curves.append(curve)
    figures.scaling(ax, curves, points, xlabel="context length n", ylabel=r"$\|dX_L/dW_l\|_F^2$, mean over $l$")


def _mean(draws: np.ndarray) -> tuple[float, float, float]:
    estimate = Estimate.from_draws(draws, "mean")
    value = float(estimate.value or 0.0)
    return (value, *(estimate.interval or (value, value)))


def _theory(results: Results, settings: list[Any], label: str) -> figures.Curve | None:
    """The prediction over the range of n, width following n where it did."""
    predict = results.experiment.predict
    assert predict is not None
    sizes = np.unique(np.geomspace(settings[0].n, settings[-1].n, 12).astype(int))
    rows = []
    for n in sizes:
        try:
            moved = dataclasses.replace(settings[0], n=int(n), width=None, value_width=None, tokens=None)
        except ValueError:  # this n does not split into the heads
            return None
        entry = predict(moved).get(QUANTITY, {}).get(1)
        if entry is None or not entry.in_range:
            return None
        rows.append((entry.value, *entry.band))
    return figures.Curve(label, sizes, *np.array(rows).T)


def _against_layer(ax: Any, results: Results) -> None:
    n = max(s.n for s in results.settings)
    settings = results.where(n=n)[:4]
    curves, points = [], []
    for setting in settings:
        label = f"{NAMES.get(setting.variant, setting.variant)}, {setting.value_scale.replace('sqrtd', '√d')}"
        curves.append(theory_by_layer(results, setting, QUANTITY, label))
        points.append(measured_by_layer(results, setting, QUANTITY, label))
    by_layer(ax, curves, points, ylabel=r"$\|dX_L/dW_l\|_F^2$", log=True)
    figures.title(ax, f"Against the layer $l$, n = {n}")

"""The page of residual_conditioning: extreme singular values against the skip scale."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.statistics.estimate import Estimate

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHOWN = 4  # series per panel


def page(results: Results) -> Any:
    """Three panels for independent tokens, or for the first correlation there is; attention alone is the dotted level."""
    correlation = min(s.correlation for s in results.settings)
    groups = list(results.along("skip_scale", least=1, correlation=correlation))[:SHOWN]
    panels = {
        "smallest_singular_value": "Smallest singular value of Attn(X) + skip X",
        "largest_singular_value": "Largest singular value",
        "condition_number": "Condition number",
    }
    with figures.style():
        figure, axes = figures.page(len(panels) + 1, 1, width=7.6, height=2.5)
        _initialisations(axes[-1, 0], results, groups)
        for ax, (quantity, text) in zip(axes[:-1, 0], panels.items(), strict=True):
            curves, points = [], []
            for group in groups:
                kept = [s for s in group if s.skip_scale > 0]
                if kept:
                    curves.append(_theory(results, kept, quantity))
                    points.append(_measured(results, kept, quantity))
            figures.scaling(ax, curves, points, xlabel="skip scale", ylabel=quantity.replace("_", " "))
            for number, group in enumerate(groups):
                _without(ax, results, group, quantity, number)
            _ticks(ax, results)
            figures.legend(ax)
            figures.title(ax, text)
        figure.suptitle(f"Residual attention at initialisation, token correlation {correlation:g}", x=0.02, ha="left")
    return figure


def _ticks(ax: Any, results: Results) -> None:
    """The skip scales that were measured."""
    scales = sorted({s.skip_scale for s in results.settings if s.skip_scale > 0})
    ax.set_xticks(scales, [f"{scale:g}" for scale in scales])
    ax.xaxis.minorticks_off()


def _initialisations(ax: Any, results: Results, groups: list[list[Any]]) -> None:
    """How s_min(Z) spreads around skip s_min(X) over the draws: median, and the range from first to last."""
    names = [_label(group[0]) for group in groups]
    for number, (group, look) in enumerate(zip(groups, figures.looks(names).values(), strict=True)):
        kept = [s for s in group if s.skip_scale > 0]
        ratios = np.array([results.samples[s]["smallest_over_tokens"] for s in kept])
        if ratios.size:
            places = np.array([s.skip_scale for s in kept]) * 1.05 ** (number - (len(groups) - 1) / 2)
            middle = np.median(ratios, axis=1)
            errors = np.stack([middle - ratios.min(axis=1), ratios.max(axis=1) - middle])
            marks = {"color": look["color"], "marker": look["marker"], "linestyle": "none"}
            ax.errorbar(places, middle, yerr=errors, markersize=4.5, capsize=2, label=names[number], **marks)
    ax.axhline(1, color="0.6", linewidth=0.8)
    ax.set_xscale("log")
    _ticks(ax, results)
    ax.set_xlabel("skip scale")
    ax.set_ylabel("s_min / (skip s_min(X))")
    figures.legend(ax)
    figures.title(ax, "All initialisations: median and whole range of the draws")


def _label(setting: Any) -> str:
    return f"n = {setting.n}, d = {setting.width}"


def _theory(results: Results, group: list[Any], quantity: str) -> figures.Curve:
    predict = results.experiment.predict
    assert predict is not None
    scales = np.geomspace(group[0].skip_scale, group[-1].skip_scale, 40)
    table = np.full((3, scales.size), np.nan)
    for at, scale in enumerate(scales):
        prediction = predict(dataclasses.replace(group[0], skip_scale=float(scale))).get(quantity)
        if prediction is not None and prediction.in_range and prediction.band:
            table[:, at] = prediction.value, *prediction.band
    return figures.Curve(_label(group[0]), scales, *table)


def _measured(results: Results, group: list[Any], quantity: str) -> figures.Points:
    rows = []
    for setting in group:
        estimate = Estimate.from_draws(results.samples[setting][quantity], "median")
        if estimate.value is not None:
            rows.append((setting.skip_scale, estimate.value, *(estimate.interval or (estimate.value, estimate.value))))
    return figures.Points(_label(group[0]), *np.array(rows, dtype=float).reshape(-1, 4).T)


def _without(ax: Any, results: Results, group: list[Any], quantity: str, number: int) -> None:
    """A dotted level: attention without the skip connection."""
    alone = [s for s in group if s.skip_scale == 0]
    look = list(figures.looks([str(at) for at in range(number + 1)]).values())[number]
    if alone and np.isfinite(results.samples[alone[0]][quantity]).any():
        level = float(np.nanmedian(results.samples[alone[0]][quantity]))
        label = "no skip, " + _label(alone[0])
        ax.axhline(level, color=look["color"], linestyle=(0, (1, 3)), linewidth=1, label=label)

"""The page of variants: last rank against the gap, rank against the layer, growth of the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.statistics.estimate import Estimate
from simulations.pages.depth_lines import by_layer, measured_by_layer

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHOWN = {
    "none": ("plain", "outlier_removed", "rescaled", "shaped"),
    "causal": ("plain", "outlier_removed", "running_mean_removed", "identity_plus_centred"),
}


def page(results: Results) -> Any:
    """One row of two panels a mask, at the largest n, the first wiring of the sweep."""
    n = max(s.n for s in results.settings)
    first = results.settings[0]
    masks = list(dict.fromkeys(s.mask for s in results.settings))
    with figures.style():
        figure, axes = figures.page(3 * len(masks), 1, width=8.8, height=3.0)
        panels = iter(axes[:, 0])
        for mask in masks:
            settings = [
                s
                for s in results.where(n=n, mask=mask)
                if (s.norm, s.skip_scale, s.depth, s.model) == (first.norm, first.skip_scale, first.depth, first.model)
            ]
            by_name = {s.variant: s for s in settings}
            gap = next(panels)
            _against_gap(gap, results, by_name)
            figures.title(gap, f"Mask {mask}: rank after layer {first.depth} against the gap of layer 1")
            along = next(panels)
            points = [
                measured_by_layer(results, by_name[name], "token_stable_rank", name.replace("_", " "))
                for name in SHOWN.get(mask, ("plain",))
                if name in by_name
            ]
            by_layer(along, [], points, ylabel="stable rank of the tokens", log=True)
            figures.title(along, f"Mask {mask}: rank against the layer")
            growth = next(panels)
            _growth(growth, results, by_name)
            figures.title(growth, f"Mask {mask}: growth of a squared gradient over {first.depth} layers")
        skip = f"skip {first.skip_scale}" if first.skip_scale != "0" else "no skip"
        figure.suptitle(
            rf"Variants of attention, n = {n}, d = {first.width}, norm {first.norm}, {skip}, $\beta$ = {first.beta:.3g}",
            x=0.02,
            ha="left",
        )
    return figure


def _mean(draws: np.ndarray) -> tuple[float, float, float]:
    estimate = Estimate.from_draws(draws, "mean")
    value = float(estimate.value if estimate.value is not None else np.nan)
    return (value, *(estimate.interval or (value, value)))


def _against_gap(ax: Any, results: Results, by_name: dict[str, Any]) -> None:
    """Numbered points, so that twenty variants can be told apart without twenty colours."""
    look = figures.looks(["point"])["point"]
    lines, places = [], {}
    for number, (name, setting) in enumerate(by_name.items(), start=1):
        samples = results.samples[setting]
        x, y = _mean(samples["gap_ratio"]), _mean(samples["token_stable_rank"][:, -1])
        ax.errorbar(
            x[0],
            y[0],
            yerr=[[max(y[0] - y[1], 0)], [max(y[2] - y[0], 0)]],
            color=look["color"],
            marker="o",
            markersize=4,
            capsize=2,
        )
        places[str(number)] = (x[0], y[0])
        lines.append(f"{number} {name.replace('_', ' ')}")
    ax.set_yscale("log")
    middle = np.mean(ax.get_xlim())
    for label, place in _together(places).items():  # towards the middle, so that none leaves the panel
        side = "left" if place[0] < middle else "right"
        ax.annotate(
            label, place, textcoords="offset points", xytext=(4 if side == "left" else -4, 3), ha=side, fontsize=7
        )
    ax.set_xlabel(r"$s_2/s_1$ of the altered matrix")
    ax.set_ylabel("stable rank of the tokens")
    ax.text(1.02, 1.0, "\n".join(lines), transform=ax.transAxes, va="top", fontsize=6.5)


def _together(places: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """One label for points too close to carry one each: within a fiftieth of the panel's width and a fifteenth of its height."""
    x, y = np.array(list(places.values())).T
    across, up = np.ptp(x) or 1.0, np.ptp(np.log(y)) or 1.0
    found: dict[tuple[float, float], list[str]] = {}
    for label, (at, height) in places.items():
        near = (p for p in found if abs(p[0] - at) < across / 50 and abs(np.log(p[1] / height)) < up / 15)
        found.setdefault(next(near, (at, height)), []).append(label)
    return {", ".join(labels): place for place, labels in found.items()}


def _growth(ax: Any, results: Results, by_name: dict[str, Any]) -> None:
    looks = figures.looks(["every path", "attention held fixed"])
    place = np.arange(len(by_name))
    for quantity, label in (("gradient_factor", "every path"), ("frozen_gradient_factor", "attention held fixed")):
        rows = np.array([_mean(results.samples[s][quantity]) for s in by_name.values()])
        errors = np.abs(np.stack([rows[:, 0] - rows[:, 1], rows[:, 2] - rows[:, 0]]))
        errors[0] = np.minimum(errors[0], 0.999 * rows[:, 0])
        style = {"color": looks[label]["color"], "marker": looks[label]["marker"], "linestyle": "none"}
        ax.errorbar(place, rows[:, 0], yerr=errors, markersize=4.5, capsize=2, label=label, **style)
    ax.axhline(1.0, color="0.6", linewidth=0.8)
    ax.set_yscale("log")
    ax.set_xticks(place, [name.replace("_", " ") for name in by_name], rotation=60, ha="right", fontsize=6.5)
    ax.set_ylabel("growth")
    figures.legend(ax)

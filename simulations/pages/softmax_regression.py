"""The page of softmax_regression: excess against passes by optimiser, and against n with its law."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from simulations.pages.lines import measured, theory

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHOWN = 4  # series per panel


def page(results: Results) -> Any:
    """Curves at the largest n, up to four optimisers to a panel, then the scaling with n."""
    n = max(s.n for s in results.settings)
    last = results.where(n=n)
    chunks = [last[i : i + SHOWN] for i in range(0, min(len(last), 2 * SHOWN), SHOWN)]
    with figures.style():
        figure, axes = figures.page(len(chunks) + 1, 1, width=8.2, height=2.6)
        panels = list(axes[:, 0])
        for ax, chunk in zip(panels, chunks, strict=False):
            _curves(ax, results, chunk)
        _scaling(panels[-1], results)
        figure.suptitle("Softmax regression: excess risk of one head", x=0.02, ha="left")
    return figure


def _name(setting: Any) -> str:
    return f"{setting.optimizer}, {setting.start} start" + ("" if setting.regularizer == "off" else ", balanced")


def _curves(ax: Any, results: Results, settings: list[Any]) -> None:
    """Median excess after each pass, with the middle half of the draws."""
    look = figures.looks([str(number) for number in range(len(settings))])
    for number, setting in enumerate(settings):
        curves = results.samples[setting]["_curve"]
        if not np.isfinite(curves).any():
            continue
        kept = curves[:, np.isfinite(curves).any(axis=0)]
        low, middle, high = np.nanquantile(kept, [0.25, 0.5, 0.75], axis=0)
        marks = look[str(number)]
        passes = np.arange(kept.shape[1])
        ax.fill_between(passes, low, high, color=marks["color"], alpha=0.15, linewidth=0)
        ax.plot(passes, middle, color=marks["color"], linestyle=marks["linestyle"], label=_name(setting))
    ax.set_yscale("log")
    ax.set_xlabel("passes over the data")
    ax.set_ylabel("excess risk")
    figures.legend(ax)
    figures.title(ax, f"n = {settings[0].n}: median and middle half of the draws")


def _scaling(ax: Any, results: Results) -> None:
    """Final excess against n for up to four of the methods; the law of Algorithm 1 beside it, where it is in range."""
    groups: dict[str, list[Any]] = {}
    for setting in results.settings:
        groups.setdefault(_name(setting), []).append(setting)
    points, curves = [], []
    for name, members in list(groups.items())[:SHOWN]:
        points.append(measured(results, members, "excess_risk", name))
        if members[0].optimizer == "preconditioned":
            ends = min(s.n for s in members), max(s.n for s in members)
            curves.append(theory(results, members[0], "excess_risk", name, np.geomspace(*ends, 30)))
    figures.scaling(ax, curves, points, xlabel="tokens n", ylabel="excess risk after training")
    figures.title(ax, "How the excess falls with the number of tokens (mean law, medians measured)")

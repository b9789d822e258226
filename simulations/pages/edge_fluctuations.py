"""The page of edge_fluctuations: the law of the edge coordinate, and how its mean approaches that of Tracy-Widom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.laws.tracy_widom import TracyWidom
from rmt.statistics.estimate import Estimate
from rmt.theorems.edge_fluctuations import EdgeFluctuation

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SIZES = np.unique(np.geomspace(48, 4096, 25).astype(int))


def page(results: Results) -> Any:
    """Empirical distribution at the largest n, and the mean against n, for up to four kinds of weights."""
    largest = max(s.n for s in results.settings)
    shown = results.where(n=largest)[:4]
    look = figures.looks([_name(s) for s in shown])
    law = TracyWidom(beta=1)
    with figures.style():
        figure, (top, bottom) = figures.page(2, 1, width=8.2, height=3.2)
        x = np.linspace(-5, 4, 400)
        top[0].plot(x, law.density(x), color="black", linewidth=1.6, label="Tracy-Widom, symmetric")
        for setting in shown:
            away = results.samples[setting]["_edge_coordinate"].ravel() - _edge(setting).shift
            style = look[_name(setting)]
            line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.3}
            top[0].hist(away, bins=np.linspace(-5, 4, 28), density=True, histtype="step", label=_name(setting), **line)
        top[0].set(xlabel=r"edge coordinate $\xi$ less its correction", ylabel="density", xlim=(-5, 4))
        matrices = results.samples[shown[0]]["_edge_coordinate"].size
        figures.title(top[0], f"Largest singular value of $(I - 11^T/n)\\,A$, n = {largest}, {matrices} matrices each")
        figures.legend(top[0])
        _means(bottom[0], results, shown, look, law)
    return figure


def _means(ax: Any, results: Results, shown: list[Any], look: dict[str, dict[str, str]], law: TracyWidom) -> None:
    for setting in shown:
        style, name = look[_name(setting)], _name(setting)
        if setting.model == "iid":
            line = [law.mean + _edge(setting, n=int(n)).shift for n in SIZES]
            ax.plot(SIZES, line, color=style["color"], linestyle=style["linestyle"], linewidth=1.3)
        sizes = [s for s in results.settings if _name(s) == name]
        found = [Estimate.from_draws(results.samples[s]["edge_coordinate"]) for s in sizes]
        kept = [(s.n, e.value, *(e.interval or (e.value, e.value))) for s, e in zip(sizes, found, strict=True)]
        n, value, low, high = np.array(kept, dtype=float).T
        ax.errorbar(
            n,
            value,
            yerr=[value - low, high - value],
            linestyle="none",
            marker=style["marker"],
            color=style["color"],
            markeredgecolor="black",
            markeredgewidth=0.6,
            markersize=4.5,
            capsize=2,
            label=f"measured, {name}",
        )
    ax.axhline(law.mean, color="black", linewidth=1.0, label="mean of the limit law")
    ax.plot([], [], color="0.4", label=r"lines: with $2^{2/3}\kappa n^{-1/3}$")
    ax.set(xscale="log", xlabel="context length n", ylabel=r"mean of $\xi$")
    figures.title(ax, "The mean of the edge coordinate and its first correction")
    figures.legend(ax)


def _edge(setting: Any, *, n: int | None = None) -> EdgeFluctuation:
    return EdgeFluctuation(n or setting.n, setting.beta, setting.head_dim, setting.weights or "lognormal")


def _name(setting: Any) -> str:
    if setting.model == "keyquery":
        return f"key-query, $d_k$ = {setting.head_dim}, $\\beta$ = {setting.beta:.3g}"
    return f"{setting.weights} weights" + (rf", $\beta$ = {setting.beta:.3g}" if setting.beta else "")

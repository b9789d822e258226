"""The page of softmax_regression: excess against passes, against n, against steps of the population, and where it ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from rmt import figures
from rmt.statistics.estimate import Estimate
from simulations.pages.lines import measured, theory
from simulations.records.softmax_population import CURVE_STEPS

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHOWN = 4  # series per panel
PANELS = 3  # of one kind
CLEAN = 1e-20  # excess below which a law that starts from 1e-6 is lost in rounding
Groups = dict[str, list[Any]]
TOLD = ("contexts", "covariance", "condition", "target_condition", "tau", "rho", "noise", "rate", "passes", "width")


def page(results: Results) -> Any:
    """Each kind of panel where the sweep has something to show; Algorithm 1 stands in every panel of methods."""
    groups = _groups(results)
    own = [name for name in groups if groups[name][0].optimizer == "preconditioned"][:1]
    rest = [name for name in groups if name not in own]
    room = SHOWN - len(own)
    chunks = [own + rest[i : i + room] for i in range(0, max(len(rest), 1), room)][:PANELS]
    draw = [partial(_curves, results=results, groups=groups, names=chunk) for chunk in chunks]
    if len({s.n for s in results.settings}) > 1:
        draw += [partial(_scaling, results=results, groups=groups, names=chunk) for chunk in chunks]
    descents = _descents(results)
    if descents:
        draw.append(partial(_population, results=results, descents=descents))
    draw.append(partial(_ends, results=results, groups=groups))
    with figures.style():
        figure, axes = figures.page(len(draw), 1, width=8.2, height=2.6)
        for ax, panel in zip(axes[:, 0], draw, strict=True):
            panel(ax)
        figure.suptitle("Softmax regression: excess risk of one head", x=0.02, ha="left")
    return figure


def _groups(results: Results) -> Groups:
    """Settings that differ in n alone, under a name that tells the groups apart."""
    told = [field for field in TOLD if len({getattr(s, field) for s in results.settings}) > 1]
    groups: Groups = {}
    for setting in results.settings:
        parts = [setting.optimizer, f"{setting.start} start", *(["balanced"] if setting.regularizer == "on" else [])]
        parts += [f"{field.replace('_', ' ')} {_short(getattr(setting, field))}" for field in told]
        groups.setdefault(", ".join(parts), []).append(setting)
    return groups


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _curves(ax: Any, results: Results, groups: Groups, names: list[str]) -> None:
    """Median excess after each pass at the largest n, with the middle half of the draws."""
    look = figures.looks(names)
    for name in names:
        curves = results.samples[groups[name][-1]]["_curve"]
        if not np.isfinite(curves).any():
            continue
        kept = curves[:, np.isfinite(curves).any(axis=0)]
        low, middle, high = np.nanquantile(kept, [0.25, 0.5, 0.75], axis=0)
        passes = np.arange(kept.shape[1])
        ax.fill_between(passes, low, high, color=look[name]["color"], alpha=0.15, linewidth=0)
        ax.plot(passes, middle, color=look[name]["color"], linestyle=look[name]["linestyle"], label=name)
    ax.set_yscale("log")
    ax.set_xlabel("passes over the data")
    ax.set_ylabel("excess risk")
    figures.legend(ax)
    figures.title(ax, f"n = {groups[names[0]][-1].n}: median and middle half of the draws")


def _scaling(ax: Any, results: Results, groups: Groups, names: list[str]) -> None:
    """Median final excess against n; the law of Algorithm 1 beside it, where it is in range."""
    points = [measured(results, groups[name], "excess_risk", name) for name in names]
    sizes = sorted({s.n for name in names for s in groups[name]})
    line = np.geomspace(sizes[0], sizes[-1], 30)
    laws = [theory(results, groups[name][0], "excess_risk", name, line) for name in names]
    figures.scaling(
        ax,
        [law for law in laws if np.isfinite(law.value).any()],
        [point for point in points if point.x.size],
        xlabel="tokens n",
        ylabel="excess risk",
    )
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.xaxis.minorticks_off()
    figures.title(ax, "How the excess falls with n (law of the mean, medians measured)")


def _descents(results: Results) -> dict[str, Any]:
    """Settings whose population descent was run; of many problems the first and the last, by each method."""
    told = [f for f in ("condition", "target_condition") if len({getattr(s, f) for s in results.settings}) > 1]
    found: dict[str, dict[str, Any]] = {}
    for setting in results.settings:
        if "_population_curve" in results.samples[setting]:
            parts = [setting.optimizer, *(f"{field.replace('_', ' ')} {getattr(setting, field):g}" for field in told)]
            found.setdefault(setting.optimizer, {}).setdefault(", ".join(parts), setting)
    ends = [[*method.items()][:: max(len(method) - 1, 1)] for method in found.values()]
    return dict(pair for pairs in ends for pair in pairs)


def _population(ax: Any, results: Results, descents: dict[str, Any]) -> None:
    """The descent with infinitely many tokens against its linearised law: medians over the draws of the start."""
    points, laws = [], []
    for name, setting in descents.items():
        curve, law = (np.median(results.samples[setting][f"_population_{kind}"], axis=0) for kind in ("curve", "law"))
        kept = np.nan_to_num(curve) > CLEAN
        points.append(figures.Points(name, CURVE_STEPS[kept], curve[kept], curve[kept], curve[kept]))
        laws.append(figures.Curve(name, CURVE_STEPS[kept], law[kept], law[kept], law[kept]))
    figures.scaling(ax, laws, points, xlabel="steps", ylabel="excess risk")
    figures.title(ax, "Infinitely many tokens, from next to a minimum")


def _ends(ax: Any, results: Results, groups: Groups) -> None:
    """Median final excess of every method at the largest n, with its 95 % interval: a table to be read along the axis."""
    look = figures.looks(["method"])["method"]
    shown = list(groups.items())[: SHOWN * PANELS]
    for row, (_, members) in enumerate(shown):
        estimate = Estimate.from_draws(results.samples[members[-1]]["excess_risk"], "median")
        if estimate.value is None:
            ax.annotate("diverged", (0.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=8)
            continue
        low, high = estimate.interval or (estimate.value, estimate.value)
        ax.plot([low, high], [row, row], color=look["color"], linewidth=1.4)
        ax.plot([estimate.value], [row], color=look["color"], marker="o", markersize=4.5, markeredgecolor="black")
    ax.set_yticks(range(len(shown)), [name for name, _ in shown])
    ax.tick_params(axis="y", left=False, labelleft=False, labelright=True)  # where the other panels have their legends
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 50 * low else (1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("excess risk after training, median")
    figures.title(ax, f"Where the methods end, n = {max(s.n for s in results.settings)}")

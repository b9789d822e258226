"""The page of jacobian_conditioning: kappa(J) by correction, what it follows, and whether queries can still learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHOWN = 4
LEAST = 1e-4  # a smaller |J_Q|/|J_V| is a frozen layer, whatever its digits


def page(results: Results) -> Any:
    """Three panels for the first shape of the sweep."""
    first = results.settings[0]
    same = ("n", "width", "head_dim", "value_dim", "heads", "attention", "mask")
    settings = [s for s in results.settings if all(getattr(s, f) == getattr(first, f) for f in same)][:12]
    with figures.style():
        figure, axes = figures.page(3, 1, width=8.2, height=2.7)
        _strip(axes[0, 0], results, settings, "jacobian_condition_number", r"$\kappa(J)$")
        figures.title(axes[0, 0], "Condition number of the Jacobian, every draw and the median")
        _scatter(axes[1, 0], results, settings)
        _strip(axes[2, 0], results, settings, "query_share", r"$|J_Q| / |J_V|$")
        figures.title(axes[2, 0], "How much queries can learn")
        figure.suptitle(
            f"Jacobian of {first.attention} attention, n = {first.n}, D = {first.width}, d = {first.head_dim}",
            x=0.02,
            ha="left",
        )
    return figure


def _name(setting: Any) -> str:
    words = {"none": "as drawn", "orthogonal_shared": "shared O", "orthogonal_independent": "indep. O"}
    name = words.get(setting.correction, setting.correction)
    extra = "" if setting.shift is None else f" {setting.shift:g}"
    return name + extra + ("\nnorm kept" if setting.norm == "preserved" else "")


def _strip(ax: Any, results: Results, settings: list[Any], quantity: str, ylabel: str) -> None:
    """One column of points for each setting; draws below the axis, or singular, are counted in words."""
    color = figures.looks(["all"])["all"]["color"]
    for place, setting in enumerate(settings):
        values = results.samples[setting][quantity]
        finite = values[np.isfinite(values)]
        shown = finite[finite >= LEAST]
        ax.plot(np.full(shown.size, place), shown, "o", color=color, alpha=0.4, markersize=3.5)
        if shown.size > finite.size / 2:
            ax.plot(place, np.median(finite), "_", color="black", markersize=16, markeredgewidth=1.6)
        notes = [f"{len(values) - finite.size} singular"] if finite.size < len(values) else []
        notes += [f"{finite.size - shown.size} below {LEAST:g}"] if shown.size < finite.size else []
        ax.annotate("\n".join(notes), (place, 0.05), xycoords=("data", "axes fraction"), ha="center", fontsize=7)
    ax.set_yscale("log")
    ax.set_ylabel(ylabel)
    ax.set_xticks(range(len(settings)), [_name(s) for s in settings], fontsize=8)
    ax.set_xlim(-0.6, len(settings) - 0.4)


def _scatter(ax: Any, results: Results, settings: list[Any]) -> None:
    """kappa(J) against kappa(P X), draw by draw."""
    shown = [s for s in settings if "mixed_token_condition" in results.samples[s]][:SHOWN]
    look = figures.looks([str(number) for number in range(len(shown))])
    for number, setting in enumerate(shown):
        x, y = (results.samples[setting][q] for q in ("mixed_token_condition", "jacobian_condition_number"))
        good = np.isfinite(x) & np.isfinite(y)
        if good.any():
            marks = {"color": look[str(number)]["color"], "marker": look[str(number)]["marker"]}
            ax.plot(
                x[good],
                y[good],
                linestyle="none",
                markersize=4,
                alpha=0.8,
                label=_name(setting).replace("\n", ", "),
                **marks,
            )
    if ax.lines:
        ends = np.array(ax.get_xlim())
        line = np.array([max(ends[0], 1.0), max(ends[1], 2.0)])
        ax.plot(line, line, color="0.5", linewidth=0.8, label=r"$\kappa(J) = \kappa(PX)$")
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.set_xlabel(r"$\kappa(PX)$")
    ax.set_ylabel(r"$\kappa(J)$")
    figures.legend(ax)
    figures.title(ax, "What it follows: the mixed tokens, draw by draw")

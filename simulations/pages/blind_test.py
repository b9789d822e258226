"""The page of blind_test: coverage by regime, and every deviation in units of its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from simulations.blind.score import Row, coverages, rows_in_range
from simulations.blind_test import GOAL

if TYPE_CHECKING:
    from rmt.experiments.results import Results

FURTHEST = 2.5  # half-widths of a band shown


def page(results: Results) -> Any:
    """Two panels; a deviation of -1 or 1 lies on an end of the band."""
    rows = rows_in_range(results.rows, {s.number: s.layer for s in results.settings})
    with figures.style():
        figure, (top, bottom) = figures.page(2, 1, width=8.2, height=3.6)
        _coverage(top[0], rows)
        _deviations(bottom[0], rows)
        figure.suptitle(f"Settings drawn from commit {str(results.settings[0].commit)[:12]}", x=0.02, ha="left")
    return figure


def _coverage(ax: Any, rows: list[Row]) -> None:
    look = figures.looks(["share"])["share"]
    found = coverages(rows)
    for at, one in enumerate(found):
        if one.interval:
            ax.plot(one.interval, (at, at), color=look["color"], linewidth=1.4)
        label = "rows held, with 95 % interval over settings" if not at else None
        ax.plot(one.share, at, marker=look["marker"], color=look["color"], linestyle="none", label=label)
    ax.axvspan(*GOAL, color="0.85", linewidth=0, label="goal")
    names = [f"{one.regime} ({one.rows} rows, {one.settings} settings)" for one in found]
    ax.set_yticks(range(len(found)), names)
    lowest = min([0.8, *((one.interval or (one.share,))[0] for one in found)])
    ax.set(
        xlabel="share of measured statistics inside their band",
        xlim=(lowest - 0.02, 1.01),
        ylim=(len(found) - 0.5, -0.5),
    )
    figures.title(ax, "Coverage by regime")
    figures.legend(ax)


def _deviations(ax: Any, rows: list[Row]) -> None:
    look = figures.looks(["held", "missed"])
    quantities = list(dict.fromkeys(row.quantity.split(" ")[0] for row in rows))
    for at, quantity in enumerate(quantities):
        chosen = [row for row in rows if row.quantity.split(" ")[0] == quantity]
        away = np.clip([_deviation(row) for row in chosen], -FURTHEST, FURTHEST)
        held = np.array([row.held for row in chosen])
        height = at + np.linspace(-0.25, 0.25, len(chosen))
        for name, mask in (("held", held), ("missed", ~held)):
            label = (
                f"{name} by the band"
                if not at or (name == "missed" and not any_missed(rows, quantities[:at]))
                else None
            )
            ax.plot(
                away[mask],
                height[mask],
                linestyle="none",
                marker=look[name]["marker"],
                color=look[name]["color"],
                markersize=2.2 if name == "held" else 3.6,
                label=label if mask.any() else None,
            )
    ax.axvspan(-1, 1, color="0.9", linewidth=0, zorder=0, label="band")
    ax.set_yticks(range(len(quantities)), [name.replace("_", " ") for name in quantities])
    ax.tick_params(axis="y", labelsize=7)
    ax.set(xlabel="measured minus predicted, in half-widths of the band", ylim=(len(quantities) - 0.5, -0.5))
    figures.title(ax, "Deviations by quantity")
    figures.legend(ax)


def any_missed(rows: list[Row], quantities: list[str]) -> bool:
    """Whether a quantity among these has a row that its band does not hold."""
    return any(not row.held for row in rows if row.quantity.split(" ")[0] in quantities)


def _deviation(row: Row) -> float:
    """0 at the prediction, -1 and 1 at the ends of the band, whatever its shape."""
    side = row.band[1] - row.predicted if row.measured >= row.predicted else row.predicted - row.band[0]
    return float((row.measured - row.predicted) / max(side, 1e-300))

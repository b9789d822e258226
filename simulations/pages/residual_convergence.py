"""The page of residual_convergence: loss against steps by skip scale, and s_min of the attention output beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHOWN, PANELS = 4, 4  # series per panel, kinds of data per page


def page(results: Results) -> Any:
    """A row for each kind of data and depth, up to four: loss on the left, s_min (or nothing, for sentences) on the right."""
    groups = list(results.along("skip_scale", least=1))[:PANELS]
    with figures.style():
        figure, axes = figures.page(len(groups), 2, width=9.6, height=2.4)
        for (left, right), group in zip(axes, groups, strict=True):
            shown = _spread(group)
            _curves(left, results, shown, "_loss", relative=True)
            left.set_ylabel("loss / first loss")
            figures.title(left, f"{group[0].data}, depth {group[0].depth}: loss")
            watched = [s for s in shown if np.isfinite(results.samples[s]["_smallest"]).any()]
            if watched:
                _curves(right, results, shown, "_smallest")
                right.set_ylabel("s_min of Attn + skip X")
                figures.title(right, "smallest singular value")
            else:
                _gaps(right, results, shown)
                figures.title(right, "s_2/s_1 of the last tokens, start")
            figures.legend(right)
        figure.suptitle("Training a transformer: medians over draws, middle half shaded", x=0.02, ha="left")
    return figure


def _spread(group: list[Any]) -> list[Any]:
    """At most four of the skip scales: the first, the last, and two between."""
    places = np.unique(np.linspace(0, len(group) - 1, min(SHOWN, len(group))).round().astype(int))
    return [group[at] for at in places]


def _curves(ax: Any, results: Results, settings: list[Any], name: str, *, relative: bool = False) -> None:
    look = figures.looks([str(s.skip_scale) for s in settings])
    for setting in settings:
        samples = results.samples[setting]
        steps, curves = samples["_checkpoints"][0], samples[name]
        if relative:
            curves = curves / curves[:, :1]
        kept = np.isfinite(curves).all(axis=0)  # up to where the first draw has reached its goal
        low, middle, high = np.nanquantile(curves[:, kept], [0.25, 0.5, 0.75], axis=0)
        marks = look[str(setting.skip_scale)]
        ax.fill_between(steps[kept], low, high, color=marks["color"], alpha=0.15, linewidth=0)
        line = {"color": marks["color"], "linestyle": marks["linestyle"]}
        ax.plot(steps[kept], middle, label=f"skip {setting.skip_scale:g}", **line)
    ax.set_xscale("symlog", linthresh=1.0)
    ax.set_yscale("log")
    ax.set_xlabel("steps")


def _gaps(ax: Any, results: Results, settings: list[Any]) -> None:
    """s_2/s_1 at initialisation by skip scale: median and whole range of the draws, in the looks of the loss curves."""
    look = figures.looks([str(s.skip_scale) for s in settings])
    for place, setting in enumerate(settings):
        values = results.samples[setting]["token_gap_ratio"]
        middle = float(np.median(values))
        errors = np.array([[middle - values.min()], [values.max() - middle]])
        marks = {"color": look[str(setting.skip_scale)]["color"], "marker": look[str(setting.skip_scale)]["marker"]}
        line = {"linestyle": look[str(setting.skip_scale)]["linestyle"], "capsize": 3}
        ax.errorbar([place], [middle], yerr=errors, label=f"skip {setting.skip_scale:g}", **marks, **line)
    ax.set_xticks(range(len(settings)), [f"{s.skip_scale:g}" for s in settings])
    ax.set_xlim(-0.5, len(settings) - 0.5)
    ax.set_yscale("log")
    ax.set_xlabel("skip scale")

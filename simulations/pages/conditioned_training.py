"""The page of conditioned_training: losses of every seed, effects with their intervals, and what the probes saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.statistics.estimate import Estimate
from simulations.claims.conditioned_training import SINGULAR, Arm, arms

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHOWN = 4  # series per panel


def page(results: Results) -> Any:
    """Panels for the first task and architecture of the sweep."""
    place, group = next(iter(arms(results).items()))
    with figures.style():
        others = [arm for arm in group if arm.chosen.variant != "none"]
        plain = [arm for arm in group if arm.chosen.variant == "none"]
        chunks = [plain + others[i : i + SHOWN - 1] for i in range(0, max(1, len(others)), SHOWN - 1)][:3]
        figure, axes = figures.page(len(chunks) + 3, 1, width=8.2, height=2.5)
        panels = list(axes[:, 0])
        for ax, chunk in zip(panels, chunks, strict=False):
            _curves(ax, results, chunk)
        _effects(panels[-3], results, group)
        _along(panels[-2], results, group[:SHOWN], "_query_condition", r"$\kappa(W_Q + C)$")
        figures.title(panels[-2], "Weights of the first layer along training, every seed")
        _along(panels[-1], results, group[:SHOWN], "_jacobian_condition_number", r"$\kappa(J)$")
        figures.title(panels[-1], "Jacobian of the first layer along training, every seed")
        norm = {"pre": "pre-norm", "post": "post-norm", "none": "no norm"}[place.norm]
        figure.suptitle(
            f"Training with corrections: {place.task}, {place.attention} attention, {norm}, {place.depth} layers",
            x=0.02,
            ha="left",
        )
    return figure


def _curves(ax: Any, results: Results, group: list[Arm]) -> None:
    """Training loss against steps: thin lines are seeds, the thick one their median; smoothed over 10 steps."""
    look = figures.looks([arm.name for arm in group])
    for arm in group:
        losses = arm.draws(results, "_losses")
        size = min(10, losses.shape[1])
        smooth = np.stack([np.convolve(row, np.ones(size) / size, mode="valid") for row in losses])
        marks = {"color": look[arm.name]["color"], "linestyle": look[arm.name]["linestyle"]}
        steps = np.arange(smooth.shape[1]) + size
        ax.plot(steps, smooth.T, color=marks["color"], alpha=0.25, linewidth=0.5)
        ax.plot(steps, np.median(smooth, axis=0), linewidth=1.6, label=f"{arm.name}, rate {arm.chosen.rate:g}", **marks)
    ax.set_yscale("log")
    ax.set_xlabel("step")
    ax.set_ylabel("training loss")
    figures.legend(ax)
    figures.title(ax, "Training loss, every seed and the median")


def _effects(ax: Any, results: Results, group: list[Arm]) -> None:
    """Change of the test accuracy against plain: seeds, mean, 95 % interval."""
    plain = next((arm for arm in group if arm.chosen.variant == "none"), None)
    others = [arm for arm in group if arm is not plain]
    color = figures.looks(["all"])["all"]["color"]
    for place, arm in enumerate(others):
        if plain is None:
            break
        change = 100 * (arm.draws(results, "test_accuracy") - plain.draws(results, "test_accuracy"))
        ax.plot(change, np.full(change.size, place), "o", color=color, alpha=0.3, markersize=3)
        interval = Estimate.from_draws(change, "mean").interval
        if interval:
            ax.plot(interval, [place, place], color="black", linewidth=1.2)
        ax.plot(change.mean(), place, "D", color="black", markersize=4)
    ax.axvline(0, color="0.5", linewidth=0.8)
    ax.set_yticks(range(len(others)), [arm.name for arm in others])
    ax.set_ylim(len(others) - 0.4, -0.6)
    ax.set_xlabel("change of the test accuracy against plain, points")
    figures.title(ax, "Effect on the test set: seeds, mean and 95 % interval")


def _along(ax: Any, results: Results, group: list[Arm], quantity: str, ylabel: str) -> None:
    """A condition number at every probe: thin lines are seeds, the thick one their median; singular ones stand at 1e15."""
    look = figures.looks([arm.name for arm in group])
    for arm in group:
        values, steps = arm.draws(results, quantity), arm.draws(results, "_probe_steps")[0]
        values = np.where(np.isnan(values), SINGULAR, values)
        marks = {name: look[arm.name][name] for name in ("color", "marker", "linestyle")}
        ax.plot(steps, values.T, color=marks["color"], alpha=0.3, linewidth=0.5)
        ax.plot(steps, np.median(values, axis=0), linewidth=1.6, markersize=4, label=arm.name, **marks)
        if np.any(values == SINGULAR):
            ax.axhline(SINGULAR, color="0.6", linewidth=0.6, linestyle=":")
            ax.annotate(
                "singular", (1, SINGULAR), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7
            )
    ax.set_yscale("log")
    ax.set_xlabel("step")
    ax.set_ylabel(ylabel)
    figures.legend(ax)

"""The page of phase_diagram: the analytic map for each d_k, simulated points, and well-known models."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.theorems.phases import CLOSE, REGIMES, Phase, entry_threshold

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SIZES = np.unique(np.geomspace(16, 2**20, 29).astype(int))
BETAS = np.geomspace(0.1, 8.0, 25)
WARM = 3.0  # above this entries decide everywhere
SHADES = dict(zip(REGIMES, ("#cfe2f3", "#fff3d6", "#cfe8da", "#f7ddd3", "#ddd3ea"), strict=True))  # each is labelled


@dataclasses.dataclass(frozen=True)
class Model:
    """A published architecture: context length n, head width, deviation of its logits at the start of training."""

    name: str
    n: int
    head_dim: int
    beta: float


def at_start(width: int, deviation: float) -> float:
    """Logit deviation for normalised tokens and weights of that standard deviation: (width deviation^2)."""
    return width * deviation**2


# Sizes and initial standard deviations are those of the published configurations. Query-key norms give 1, and T5, which
# does not divide its scores, starts with queries small enough to give 1.
MODELS = (
    Model("ViT-B/16", 197, 64, at_start(768, 0.02)),
    Model("BERT base", 512, 64, at_start(768, 0.02)),
    Model("GPT-2", 1024, 64, at_start(768, 0.02)),
    Model("GPT-2 XL", 1024, 64, at_start(1600, 0.02)),
    Model("T5", 512, 64, 1.0),
    Model("Llama-3.2-1B", 131072, 64, at_start(2048, 0.02)),
    Model("OLMo-2-7B", 4096, 128, 1.0),
    Model("Qwen3-8B", 32768, 128, 1.0),
    Model("Llama-2-7B", 4096, 128, at_start(4096, 0.02)),
    Model("Llama-3-8B", 8192, 128, at_start(4096, 0.02)),
    Model("Llama-3.1-8B", 131072, 128, at_start(4096, 0.02)),
)


def page(results: Results) -> Any:
    """One panel for each d_k of the sweep, and one for d_k = 128 where the larger models live."""
    dims = list(dict.fromkeys([s.head_dim for s in results.settings] + [128]))[:4]
    with figures.style():
        figure, axes = figures.page(len(dims), 1, width=8.2, height=3.6)
        for ax, head_dim in zip(axes[:, 0], dims, strict=True):
            _map(ax, head_dim)
            _points(ax, results, head_dim)
            _models(ax, head_dim)
            figures.title(ax, f"What sets the second singular value, $d_k$ = {head_dim}")
            figures.legend(ax)
    return figure


def _map(ax: Any, head_dim: int) -> None:
    """Regimes as areas; later ones are painted over earlier ones, as the rules of `Phase.regime` overrule each other."""
    grid = [[Phase(int(n), float(beta), head_dim) for n in SIZES] for beta in BETAS if beta < WARM]
    betas = BETAS[BETAS < WARM]
    ax.set_facecolor(SHADES["proportional"])
    for at, (name, indicator) in enumerate((("iid", "spread"), ("saturated", "saturation"))):
        level = np.array([[getattr(phase, indicator) for phase in row] for row in grid]) - CLOSE
        look = {"zorder": 0.5 + at / 10}
        ax.contourf(SIZES, betas, level, levels=[-10, 0], colors=[SHADES[name]], **look)
        ax.contour(SIZES, betas, level, levels=[0], colors="0.5", linewidths=0.7, **look)
    entry = np.array([entry_threshold(int(n), head_dim) for n in SIZES])
    condensed = np.sqrt(2 * np.log(SIZES))
    ax.fill_between(SIZES, entry, BETAS[-1], color=SHADES["entry outlier"], linewidth=0, zorder=0.7)
    ax.fill_between(SIZES, condensed, BETAS[-1], color=SHADES["condensed"], linewidth=0, zorder=0.8)
    ax.plot(SIZES, entry, color="0.5", linewidth=0.7)
    ax.plot(SIZES, condensed, color="0.3", linewidth=0.9, label=r"$\beta=\sqrt{2\,\ln n}$")
    ax.plot(
        SIZES, condensed / 2, color="0.3", linewidth=0.9, linestyle=":", label="half of it: theory calibrated below"
    )
    places = {"iid": (21, 0.14), "proportional": (7 * head_dim, 0.14), "saturated": (2e5, 0.14)}
    for name, (x, y) in (places | {"entry outlier": (900, 2.3), "condensed": (400, 5.6)}).items():
        ax.text(x, y, name, ha="center", va="center", fontsize=9, color="0.25")
    ax.set(xscale="log", yscale="log", xlim=(SIZES[0], SIZES[-1]), ylim=(BETAS[0], BETAS[-1]))
    ax.set(xlabel="context length n", ylabel=r"logit deviation $\beta$")
    ax.set_yticks([0.1, 0.3, 1, 3], ["0.1", "0.3", "1", "3"])
    ax.yaxis.set_minor_formatter("")


def _points(ax: Any, results: Results, head_dim: int) -> None:
    """Simulated settings: filled where one pair of tokens carries s2."""
    from simulations.phase_diagram import CARRIED

    look = figures.looks(["bulk", "pair"])
    for name, carried in (("bulk", False), ("pair", True)):
        chosen = [
            s
            for s in results.where(head_dim=head_dim)
            if (float(np.median(results.samples[s]["entry_share"])) > CARRIED) == carried
        ]
        label = "measured: one pair of tokens carries $s_2$" if carried else "measured: the bulk carries $s_2$"
        ax.plot(
            [s.n for s in chosen],
            [s.beta for s in chosen],
            linestyle="none",
            marker=look[name]["marker"],
            color=look[name]["color"],
            markeredgecolor="black",
            markeredgewidth=0.6,
            markersize=5,
            label=label if chosen else None,
            zorder=3,
        )


def _models(ax: Any, head_dim: int) -> None:
    here = sorted((m for m in MODELS if m.head_dim == head_dim), key=lambda m: (m.beta, m.n))
    for at, model in enumerate(here):
        ax.plot(model.n, model.beta, "k+", markersize=7, zorder=4, label="models at initialisation" if not at else None)
        shift = (3, 4) if at % 2 else (3, -10)  # neighbours at the same beta write above and below
        ax.annotate(model.name, (model.n, model.beta), shift, textcoords="offset points", fontsize=7, zorder=4)

"""The complex plane of width_collapse: the eigenvalues of one draw, before and after removal, and their disc."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures

if TYPE_CHECKING:
    from rmt.experiments.results import Results


def largest_plane(settings: list[Any], results: Results) -> Any:
    """The setting with the largest n that kept its eigenvalues, None if none did."""
    kept = [s for s in settings if "_eigenvalues" in results.samples[s] and s.n > 2]
    return max(kept, key=lambda s: s.n) if kept else None


def plane(ax: Any, results: Results, setting: Any, name: str) -> None:
    """Eigenvalues of the first draw in units of sigma_n/sqrt(n); the inset has the whole plane, with the outlier at 1."""
    before = results.samples[setting]["_eigenvalues"][0]
    squares = float(np.mean(results.samples[setting]["frobenius_norm_squared"]))
    radius = math.sqrt(max(squares - 1, 1e-300) / setting.n)  # sigma_n^2 as measured: E ||A||_F^2 - 1
    removed = results.samples.get(dataclasses.replace(setting, variant="outlier_removed"), {})
    after = removed["_eigenvalues"][0] if "_eigenvalues" in removed else None
    look = figures.looks(["before", "after", "disc"])
    whole = ax.inset_axes((1.12, 0.0, 0.75, 0.42))
    for where, scale in ((ax, radius), (whole, 1.0)):
        marks = {"linestyle": "none", "markersize": 2.2, "markeredgewidth": 0.5}
        colour = look["before"]["color"]
        where.plot(
            before.real / scale, before.imag / scale, "o", markerfacecolor="none", color=colour, label="A", **marks
        )
        if after is not None:
            colour = look["after"]["color"]
            where.plot(after.real / scale, after.imag / scale, "x", color=colour, label=r"$A - 11^T/n$", **marks)
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color=look["disc"]["color"], linewidth=1.4, label=r"radius $\sigma_n/\sqrt{n}$")
    ax.set_xlim(-1.25, 1.25)
    ax.set_ylim(-1.25, 1.25)
    ax.set_aspect("equal")
    ax.set_xlabel(r"real part in $\sigma_n/\sqrt{n}$")
    ax.set_ylabel("imaginary part")
    whole.set_xlim(-0.15, 1.1)
    whole.set_ylim(-0.3, 0.3)
    whole.set_aspect("equal")
    whole.set_title("the whole plane: 1 is an eigenvalue of A only", fontsize=8)
    whole.tick_params(labelsize=7)
    figures.legend(ax)
    figures.title(ax, f"Eigenvalues of one draw, {name}, n = {setting.n}")

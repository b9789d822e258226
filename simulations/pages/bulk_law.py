"""The page of bulk_law: for each setting at the largest n a histogram with its law, and the distance to it draw by draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.theorems.bulk import Bulk

if TYPE_CHECKING:
    from rmt.experiments.results import Results

MOST = 4  # settings shown
SHOWN = 400  # points of a cdf


def page(results: Results) -> Any:
    """Two rows a setting: density, and empirical minus theoretical cdf."""
    largest = max(s.n for s in results.settings)
    settings = results.where(n=largest)[:MOST]
    with figures.style():
        figure, axes = figures.page(2 * len(settings), 1, width=8.2, height=2.2)
        for at, setting in enumerate(settings):
            spectra = results.samples[setting]["_spectrum"]
            bulk = Bulk(setting.n, setting.beta, setting.head_dim, setting.weights or "lognormal")
            _density(axes[2 * at, 0], setting, spectra, bulk)
            _distance(axes[2 * at + 1, 0], spectra, bulk)
    return figure


def _density(ax: Any, setting: Any, spectra: np.ndarray, bulk: Bulk) -> None:
    keyquery = setting.model == "keyquery"
    rival = (bulk.rival.density, bulk.rival.radius) if keyquery else None
    figures.spectrum(
        ax,
        spectra.ravel(),
        law=(bulk.law.density, float(bulk.law.support[-1, 1])),
        rival=rival,
        xlabel=r"$\sqrt{n}\,s$ of $(I - 11^T/n)\,A$",
        label="typed law" if keyquery else r"quarter circle, $\sigma_n^2$",
        rival_label="quarter circle (rival)",
    )
    temperature = rf", $\beta$ = {setting.beta:.3g}" if setting.beta else ""
    name = f"key-query logits, $d_k$ = {setting.head_dim}" if keyquery else f"iid {setting.weights} weights"
    figures.title(ax, f"{name}{temperature}, n = {setting.n}, {len(spectra)} draws")


def _distance(ax: Any, spectra: np.ndarray, bulk: Bulk) -> None:
    """F_n - F at the quantiles of the law: one thin line a draw; the rival's difference to the law is dashed."""
    look = figures.looks(["law", "rival"])
    share = (np.arange(SHOWN) + 0.5) / SHOWN
    x = np.asarray(bulk.law.quantile(share))
    for number, spectrum in enumerate(spectra):
        empirical = np.searchsorted(np.sort(spectrum), x, side="right") / spectrum.size
        ax.plot(
            x, empirical - share, color="0.45", linewidth=0.5, label=None if number else "measured, one line a draw"
        )
    colour = look["law"]["color"]
    ax.axhspan(-bulk.distance, bulk.distance, color=colour, alpha=0.2, linewidth=0, label="tolerated distance")
    if bulk.head_dim is not None:
        rival = look["rival"]
        difference = np.asarray(bulk.rival.cdf(x)) - share
        ax.plot(x, difference, color=rival["color"], linestyle="--", linewidth=1.5, label="quarter circle (rival)")
    height = 3 * bulk.distance
    ax.set(xlabel=r"$\sqrt{n}\,s$", ylabel="cdf minus law", ylim=(-height, height))
    figures.title(ax, "Distance to the law (the rival leaves the frame)" if bulk.head_dim else "Distance to the law")
    figures.legend(ax)

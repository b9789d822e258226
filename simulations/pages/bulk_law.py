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
SEEN = (1e-4, 2.5)  # of the values of a causal matrix


def page(results: Results) -> Any:
    """Two rows a setting: density, and empirical minus theoretical cdf."""
    largest = max(s.n for s in results.settings)
    settings = results.where(n=largest)[:MOST]
    with figures.style():
        figure, axes = figures.page(2 * len(settings), 1, width=8.2, height=2.2)
        for at, setting in enumerate(settings):
            spectra = results.samples[setting]["_spectrum"]
            bulk = Bulk(setting.n, setting.beta, setting.head_dim, setting.weights or "lognormal", setting.mask)
            causal = setting.mask == "causal"
            label = r"$s$ of $A$" if causal else r"$\sqrt{n}\,s$ of $(I - 11^T/n)\,A$"
            (_log_density if causal else _density)(axes[2 * at, 0], spectra, bulk, label)
            figures.title(axes[2 * at, 0], f"{_name(setting)}, n = {setting.n}, {len(spectra)} draws")
            _distance(axes[2 * at + 1, 0], spectra, bulk, label)
    return figure


def _name(setting: Any) -> str:
    temperature = rf", $\beta$ = {setting.beta:.3g}" if setting.beta else ""
    keyquery = setting.model == "keyquery"
    name = f"key-query logits, $d_k$ = {setting.head_dim}" if keyquery else f"iid {setting.weights} weights"
    return ("causal, " if setting.mask == "causal" else "") + name + temperature


def _density(ax: Any, spectra: np.ndarray, bulk: Bulk, label: str) -> None:
    typed = bulk.head_dim is not None
    figures.spectrum(
        ax,
        spectra.ravel(),
        law=(bulk.law.density, float(bulk.law.support[-1, 1])),
        rival=(bulk.rival.density, bulk.rival.radius) if typed else None,
        xlabel=label,
        label="typed law" if typed else r"quarter circle, $\sigma_n^2$",
        rival_label="quarter circle (rival)",
    )


def _log_density(ax: Any, spectra: np.ndarray, bulk: Bulk, label: str) -> None:
    """Density in ln s: a causal spectrum spans many decades."""
    look = figures.looks(["law", "rival"])
    edges = np.geomspace(*SEEN, 81)
    middle, width = np.sqrt(edges[1:] * edges[:-1]), np.diff(np.log(edges))
    counts = np.histogram(spectra, bins=edges)[0] / spectra.size / width
    ax.stairs(counts, edges, fill=True, color="0.8", label="measured")
    law, rival = (np.diff(np.asarray(one.cdf(edges))) / width for one in (bulk.law, bulk.rival))
    ax.plot(middle, law, color=look["law"]["color"], linewidth=1.5, label="causal law")
    ax.plot(middle, rival, color=look["rival"]["color"], linestyle="--", linewidth=1.5, label="quarter circle (rival)")
    ax.set(xscale="log", xlim=SEEN, xlabel=label, ylabel=r"density in $\ln s$")
    figures.legend(ax)


def _distance(ax: Any, spectra: np.ndarray, bulk: Bulk, label: str) -> None:
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
    title = "Distance to the law"
    if bulk.head_dim is not None or bulk.mask == "causal":
        rival = look["rival"]
        difference = np.asarray(bulk.rival.cdf(x)) - share
        ax.plot(x, difference, color=rival["color"], linestyle="--", linewidth=1.5, label="quarter circle (rival)")
        title += " (the rival leaves the frame)"
    height = 3 * bulk.distance
    ax.set(xlabel=label, ylabel="cdf minus law", ylim=(-height, height))
    if bulk.mask == "causal":
        ax.set(xscale="log", xlim=SEEN)
    figures.title(ax, title)
    figures.legend(ax)

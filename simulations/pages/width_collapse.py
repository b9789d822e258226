"""The page of width_collapse: singular values against n, ranks kept and removed, and the spectrum with its law."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.laws.hermite import HermiteLaw
from rmt.theorems.layer import layer
from simulations.pages.lines import measured, theory

if TYPE_CHECKING:
    from rmt.experiments.results import Results

LINE = np.unique(np.geomspace(64, 10**6, 29).astype(int))
NAMES = {
    "iid": "iid logits",
    "keyquery": "key-query logits",
    "plain": "outlier kept",
    "outlier_removed": "outlier removed",
}


def page(results: Results) -> Any:
    """Two panels, and one more per model with whole spectra, at the first beta of the sweep."""
    first = results.settings[0]
    models = list(dict.fromkeys(s.model for s in results.settings))
    whole = [m for m in models if _pooled(results, m, first.beta) is not None]
    with figures.style():
        figure, axes = figures.page(2 + len(whole), 1, width=8.2, height=2.6)
        panels = list(axes[:, 0])
        _singular_values(panels[0], results, models, first)
        _ranks(panels[1], results, models, first)
        for ax, model in zip(panels[2:], whole, strict=True):
            _spectrum(ax, results, model, first)
        figure.suptitle(
            rf"One layer of softmax attention, $\beta$ = {first.beta:.3g}: theory and measurement", x=0.02, ha="left"
        )
    return figure


def _singular_values(ax: Any, results: Results, models: list[str], first: Any) -> None:
    curves, points = [], []
    for model in models:
        for quantity, sign in (("top_singular_value", "$s_1$"), ("second_singular_value", "$s_2$")):
            label = f"{sign}, {NAMES[model]}"
            setting = _like(results, first, model=model, variant="plain")
            if setting is not None:
                curves.append(_theory(results, setting, quantity, label))
                settings = results.where(beta=first.beta, mask=first.mask, model=model, variant="plain")
                points.append(measured(results, settings, quantity, label))
    figures.scaling(ax, curves, points, xlabel="context length n", ylabel="singular value of A")
    figures.title(ax, "The two largest singular values")


def _ranks(ax: Any, results: Results, models: list[str], first: Any) -> None:
    curves, points = [], []
    for model in models:
        for variant in ("plain", "outlier_removed"):
            label = f"{NAMES[variant]}, {NAMES[model]}"
            setting = _like(results, first, model=model, variant=variant)
            if setting is not None:
                curves.append(_theory(results, setting, "token_stable_rank", label))
                settings = results.where(beta=first.beta, mask=first.mask, model=model, variant=variant)
                points.append(measured(results, settings, "token_stable_rank", label))
    figures.scaling(ax, curves, points, xlabel="context length n", ylabel=r"$\|X\|_F^2/\|X\|^2$ of the tokens")
    figures.title(ax, "Stable rank of the tokens after the layer")


def _spectrum(ax: Any, results: Results, model: str, first: Any) -> None:
    pooled = _pooled(results, model, first.beta)
    assert pooled is not None
    n, values = pooled
    one = layer(n, float(first.beta), first.head_dim or 64 if model == "keyquery" else None)
    law, circle = one.law, HermiteLaw(n, one.variance)
    rival = (circle.density, circle.support[0, 1]) if model == "keyquery" else None
    figures.spectrum(
        ax,
        values * math.sqrt(n),
        law=(law.density, law.support[0, 1]),
        rival=rival,
        xlabel=r"$\sqrt{n}\,s$ of $A - 11^T/n$",
        label="all-degrees law" if rival else "quarter circle",
        rival_label="quarter circle (rival)",
    )
    figures.title(ax, f"Spectrum with the outlier removed, {NAMES[model]}, n = {n}")


def _pooled(results: Results, model: str, beta: float) -> tuple[int, np.ndarray] | None:
    """Singular values of all draws at the largest n that has whole spectra of the repaired matrix."""
    settings = [
        s
        for s in results.where(model=model, variant="outlier_removed", beta=beta, mask="none")
        if "_spectrum" in results.samples[s] and beta > 0
    ]
    if not settings:
        return None
    largest = max(settings, key=lambda s: s.n)
    return largest.n, results.samples[largest]["_spectrum"].ravel()


def _like(results: Results, first: Any, **fields: Any) -> Any:
    found = results.where(beta=first.beta, mask=first.mask, **fields)
    return found[0] if found else None


def _theory(results: Results, setting: Any, quantity: str, label: str) -> figures.Curve:
    """The theory over the whole line of n; the width follows n where it did so in the sweep."""
    follows = setting.width == min(setting.n, 1024)
    return theory(results, setting, quantity, label, LINE, derived=("width", "value_width") if follows else ())

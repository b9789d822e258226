"""The page of depth_collapse: logarithm of the excess, rank over n and cosine against the layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from simulations.pages.depth_lines import by_layer, measured_by_layer, theory_by_layer

if TYPE_CHECKING:
    from rmt.experiments.results import Results

MOST = 4  # lines a panel


def page(results: Results) -> Any:
    """Three panels for the first settings of the sweep."""
    settings = results.settings[:MOST]
    names = _labels(settings)
    with figures.style():
        figure, axes = figures.page(3, 1, width=8.6, height=2.6)
        for ax, quantity, words, ylabel, scale in zip(
            axes[:, 0],
            ("log_gram_stable_rank_excess", "token_stable_rank", "token_cosine"),
            ("What is left beside one direction", "Stable rank of the tokens over n", "Mean cosine between tokens"),
            (r"$\log_{10}$(Gram stable rank $-$ 1)", r"$\|X\|_F^2/(n\,\|X\|^2)$", "cosine"),
            (np.log(10), None, 1.0),
            strict=True,
        ):
            curves, points = [], []
            for setting in settings:
                divide = scale or float(setting.n)
                curves.append(theory_by_layer(results, setting, quantity, names[setting], divide=divide))
                points.append(measured_by_layer(results, setting, quantity, names[setting], divide=divide))
            by_layer(ax, curves, points, ylabel=ylabel, log=scale is None)
            figures.title(ax, words)
        first = settings[0]
        figure.suptitle(
            rf"Depth at initialisation, {first.model} logits, $\beta$ = {first.beta:.3g}, d = {first.width}",
            x=0.02,
            ha="left",
        )
    return figure


def _labels(settings: list[Any]) -> dict[Any, str]:
    """What tells the settings apart."""
    fields = (
        "variant",
        "n",
        "width",
        "model",
        "mask",
        "skip_scale",
        "norm",
        "beta",
        "heads",
        "eta",
        "precision",
        "depth",
    )
    varied = [name for name in fields if len({getattr(s, name) for s in settings}) > 1] or ["variant"]
    if all(s.width == min(s.n, 1024) for s in settings) and "n" in varied:
        varied = [name for name in varied if name != "width"]
    return {s: ", ".join(_word(name, getattr(s, name)) for name in varied) for s in settings}


def _word(name: str, value: Any) -> str:
    words = {"plain": "outlier kept", "outlier_removed": "outlier removed"}
    return words.get(value, str(value)) if isinstance(value, str) else f"{name} = {value:.4g}"

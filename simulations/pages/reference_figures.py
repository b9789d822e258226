"""The page of reference_figures: one panel a published figure, theory as lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.statistics.estimate import Estimate
from simulations.networks import published
from simulations.pages.depth_lines import theory_by_layer

if TYPE_CHECKING:
    from rmt.experiments.results import Results

TRAPS = (
    "The public code differs: skips without an MLP double every output; A(X) has Xavier logits of deviation 1/d, nearly\n"
    "uniform, where the published curves need deviation 1 (drawn here); ranks are float32: rounding below an excess of\n"
    "1e-7, nan at layer 10; its gradient is no Frobenius norm. Numbers side by side: simulations/networks/published.py."
)
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")


def page(results: Results) -> Any:
    """All panels of the run, one below the other."""
    with figures.style():
        figure, axes = figures.page(len(results.settings), 1, width=8.4, height=3.0)
        for ax, setting in zip(axes[:, 0], results.settings, strict=True):
            draw = {
                "V": _language,
                "VI": _language,
                "VII": _nine,
                "VIII": _gradients,
                "X": _looking,
                "XI": _looking,
            }.get(setting.panels, _eigenvalues)
            draw(ax, results, setting)
        figure.suptitle("Figures of Mind the Gap, drawn again with random weights", x=0.02, ha="left")
        figure.supxlabel(TRAPS, x=0.02, ha="left", fontsize=6.5)
    return figure


def _series(ax: Any, x: Any, samples: list[np.ndarray], label: str, at: int) -> None:
    """Means with their 95 % intervals; nine marks and the colours of a colour-blind palette."""
    import seaborn

    rows = []
    for draws in samples:
        estimate = Estimate.from_draws(draws, "mean")
        value = float(estimate.value if estimate.value is not None else np.nan)
        rows.append((value, *(estimate.interval or (value, value))))
    table = np.array(rows)
    errors = np.abs(np.stack([table[:, 0] - table[:, 1], table[:, 2] - table[:, 0]]))
    errors[0] = np.minimum(errors[0], 0.99 * np.abs(table[:, 0]))
    colour = seaborn.color_palette("colorblind").as_hex()[at % 10]
    ax.errorbar(x, table[:, 0], yerr=errors, color=colour, marker=MARKS[at % 9], markersize=4, capsize=2, label=label)


def _nine(ax: Any, results: Results, setting: Any) -> None:
    samples, (n,) = results.samples[setting], setting.sizes
    layers = np.arange(1, published.LAYERS + 1)
    for at, name in enumerate(published.NINE):
        _series(ax, layers, list(samples[f"gram_stable_rank, {name}"].T), name, at)
    for order, style, words in ((1, "--", "identity"), (2, ":", "removed")):
        law = [n * fuss_catalan_ratio(order * int(layer)) for layer in layers]
        ax.plot(layers, law, color="black", linestyle=style, linewidth=1, label=f"Fuss-Catalan, {words}")
    curve = theory_by_layer(_as_depth(results, setting), _At(published.LAYERS), "gram_stable_rank, A removed", "")
    ax.fill_between(curve.x, curve.lower, curve.upper, color="0.8", label="theory at this n, removed")
    ax.set_yscale("log")
    ax.set_xlabel("layer")
    ax.set_ylabel("Gram stable rank")
    figures.legend(ax)
    figures.title(ax, f"VII: depth, nine configurations, n = d = {n}")


def fuss_catalan_ratio(order: int) -> float:
    """lim of the Gram stable rank over n for products of `order` square Gaussian matrices: (k+1) [k^k/(k+1)^(k+1)]^2."""
    k = order
    return (k + 1) * math.exp(2 * (k * math.log(k) - (k + 1) * math.log(k + 1))) if k else 1.0


class _At:
    """What `theory_by_layer` asks of a setting."""

    def __init__(self, depth: int) -> None:
        self.depth = depth


def _as_depth(results: Results, setting: Any) -> Any:
    """Results whose experiment predicts this panel."""

    class Experiment:
        @staticmethod
        def predict(_: Any) -> Any:
            predict = results.experiment.predict
            assert predict is not None
            return predict(setting)

    class Face:
        experiment = Experiment

    return Face


def _looking(ax: Any, results: Results, setting: Any) -> None:
    samples = results.samples[setting]
    for at, layer in enumerate((1, 2, 3, 5, 10)):
        line = [samples[f"gram_stable_rank, n = {n}"][:, layer - 1] for n in setting.sizes]
        _series(ax, setting.sizes, line, f"layer {layer}", at)
    grid = np.geomspace(setting.sizes[0], setting.sizes[-1], 30)
    if setting.panels == "X":
        ax.plot(grid, 1 + 9.86 / grid, color="black", linestyle="--", linewidth=1, label="1 + 9.86/n, layer 1")
    else:
        ax.plot(grid, 0.0538 * grid, color="black", linestyle="--", linewidth=1, label="0.0538 n, layer 1")
        ax.set_yscale("log")
    ax.set_xlabel("context length n = d")
    ax.set_ylabel("Gram stable rank")
    figures.legend(ax)
    words = "outlier kept" if setting.panels == "X" else "outlier removed"
    figures.title(ax, f"{setting.panels}: A(X), {words}")


def _language(ax: Any, results: Results, setting: Any) -> None:
    samples, sizes, at = results.samples[setting], setting.sizes, 0
    for variant, words in (("plain", "original"), ("outlier_removed", "outlier removed")):
        if setting.panels == "V":
            for layer in (1, 5, 12):
                line = [samples[f"gram_stable_rank, {variant}, n = {n}"][:, layer - 1] for n in sizes]
                _series(ax, sizes, line, f"{words}, layer {layer}", at)
                at += 1
        else:
            line = list(samples[f"gram_stable_rank, {variant}, n = {sizes[-1]}"].T)
            _series(ax, np.arange(1, len(line) + 1), line, words, at)
            at += 1
    ax.set_xlabel("context length n" if setting.panels == "V" else "layer")
    ax.set_ylabel("Gram stable rank")
    figures.legend(ax)
    figures.title(ax, f"{setting.panels}: random RoBERTa, independent tokens")


def _gradients(ax: Any, results: Results, setting: Any) -> None:
    samples, logs = results.samples[setting], np.log(setting.sizes)
    at = 0
    for kind in ("A(X)", "A"):
        for variant, words in (("plain", "kept"), ("outlier_removed", "removed")):
            line = [samples[f"log_gradient_norm_squared, {kind} {variant}, n = {n}"] for n in setting.sizes]
            _series(ax, logs, line, f"{kind}, {words}", at)
            at += 1
    ax.plot(logs, 2 * logs, color="black", linestyle="--", linewidth=1, label="2 ln n")
    ax.plot(logs, logs, color="black", linestyle=":", linewidth=1, label="ln n")
    ax.set_xlabel("ln n, d = n")
    ax.set_ylabel(r"$\ln\,\|dX_2/dW_1\|_F^2$")
    figures.legend(ax)
    figures.title(ax, "VIII: gradient of two layers")


def _eigenvalues(ax: Any, results: Results, setting: Any) -> None:
    samples = results.samples[setting]
    names = [name for name in samples if name.startswith("_eigenvalues")]
    look = figures.looks(names[-4:])
    for name in names[-4:]:
        real, imaginary = samples[name][0]
        words = name.partition(", ")[2]
        ax.plot(
            real,
            imaginary,
            linestyle="none",
            markersize=2.5,
            marker=look[name]["marker"],
            color=look[name]["color"],
            label=words,
        )
    ax.set_xlabel("real part of the eigenvalues of A, first draw")
    ax.set_ylabel("imaginary part")
    figures.legend(ax)
    model = {
        "I": "random RoBERTa, words repeated as in text",
        "II": "random RoBERTa, independent tokens",
        "III": "random TinyBERT",
        "IV": "random GPT-2, causal",
        "IX": "Gaussian tokens of unit norm",
    }[setting.panels]
    figures.title(ax, f"{setting.panels}: {model}")

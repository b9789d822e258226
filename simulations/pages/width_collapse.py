"""The page of width_collapse: singular values against n, ranks kept and removed, and the spectrum with its law."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.laws.hermite import HermiteLaw
from rmt.laws.keyquery import KeyQueryLaw
from rmt.theorems.layer import layer
from simulations.pages.lines import measured, theory
from simulations.pages.width_collapse_plane import largest_plane, plane

if TYPE_CHECKING:
    from rmt.experiments.results import Results

LINE = np.unique(np.geomspace(64, 10**6, 29).astype(int))
NAMES = {"iid": "iid logits", "keyquery": "key-query logits"}
REPAIRS = {
    "outlier_removed": "outlier removed",
    "running_mean_removed": "running mean removed",
    "centred": "centred",
}


def page(results: Results) -> Any:
    """Two panels, and one more per model with whole spectra or eigenvalues; of a sweep over other fields the first is drawn."""
    results = dataclasses.replace(results, experiment=_closed_forms(results.experiment))
    models = list(dict.fromkeys(s.model for s in results.settings))
    whole = [m for m in models if _whole(results, m) is not None]
    planes = [found for m in models if (found := largest_plane(family(results, m, "plain"), results)) is not None]
    first = results.settings[0]
    with figures.style():
        figure, axes = figures.page(2 + len(whole) + len(planes), 1, width=8.2, height=2.6)
        panels = list(axes[:, 0])
        _singular_values(panels[0], results, models)
        _ranks(panels[1], results, models)
        for ax, model in zip(panels[2:], whole, strict=False):
            _spectrum(ax, results, model)
        for ax, setting in zip(panels[2 + len(whole) :], planes, strict=True):
            plane(ax, results, setting, NAMES[setting.model])
        figure.suptitle(f"{_what(first)}: theory and measurement", x=0.02, ha="left")
    return figure


def _closed_forms(experiment: Any) -> Any:
    """The experiment with predictions that are quick at any n: a line asks for dozens of sizes."""
    assert experiment.predict is not None
    if "equations_up_to" not in inspect.signature(experiment.predict).parameters:  # a rival theory
        return experiment
    return dataclasses.replace(experiment, predict=functools.partial(experiment.predict, equations_up_to=0))


def _what(first: Any) -> str:
    """The layer in words, for the head of the page."""
    temperature = rf", $\beta$ = {first.beta:.3g}" if first.beta is not None else f", {first.weights} weights"
    mask = "" if first.mask == "none" else f", {first.mask} mask"
    tokens = "" if first.tokens in ("independent", "orthonormal") else f", {first.tokens.split('/')[-1]} tokens"
    return f"One layer of {first.attention} attention{temperature}{mask}{tokens}"


def family(results: Results, model: str, variant: str) -> list[Any]:
    """The settings of a model and variant that differ in n (and the widths) only, as the first of them in the sweep."""
    found = results.where(model=model, variant=variant)
    return [s for s in found if s.but_for_size == found[0].but_for_size]


def _singular_values(ax: Any, results: Results, models: list[str]) -> None:
    curves, points = [], []
    for model in models:
        settings = family(results, model, "plain")
        for quantity, sign in (("top_singular_value", "$s_1$"), ("second_singular_value", "$s_2$")):
            label = f"{sign}, {NAMES[model]}"
            if settings:
                curves.append(_theory(results, settings[0], quantity, label))
                points.append(measured(results, settings, quantity, label))
    figures.scaling(ax, _some(curves), points, xlabel="context length n", ylabel="singular value of A")
    figures.title(ax, "The two largest singular values")


def _ranks(ax: Any, results: Results, models: list[str]) -> None:
    curves, points = [], []
    variants = {s.variant for s in results.settings}
    masked = any(s.mask != "none" for s in results.settings)
    order = ("running_mean_removed", "outlier_removed", "centred") if masked else REPAIRS
    repair = next((name for name in order if name in variants), None)
    for model in models:
        for variant, word in (("plain", "kept"), (repair, REPAIRS.get(repair or "", ""))):
            settings = family(results, model, variant) if variant else []
            if settings:
                label = f"{word}, {NAMES[model]}"
                curves.append(_theory(results, settings[0], "token_stable_rank", label))
                points.append(measured(results, settings, "token_stable_rank", label))
    figures.scaling(ax, _some(curves), points, xlabel="context length n", ylabel=r"$\|X\|_F^2/\|X\|^2$ of the tokens")
    figures.title(ax, "Stable rank of the tokens after the layer")


def _some(curves: list[figures.Curve]) -> list[figures.Curve]:
    """The curves on which theory says anything."""
    return [curve for curve in curves if np.isfinite(curve.value).any()]


def _spectrum(ax: Any, results: Results, model: str) -> None:
    setting = _whole(results, model)
    n, values = setting.n, results.samples[setting]["_spectrum"].ravel()
    one = layer(n, float(setting.beta), setting.head_dim)
    law: Any = HermiteLaw(n, one.variance)
    rival = None
    if model == "keyquery":
        rival, law = (law.density, law.support[0, 1]), KeyQueryLaw(n, setting.head_dim, setting.beta)
    figures.spectrum(
        ax,
        values * math.sqrt(n),
        law=(law.density, law.support[0, 1]),
        rival=rival,
        xlabel=r"$\sqrt{n}\,s$ of $A - 11^T/n$",
        label="typed key-query law" if rival else "quarter circle",
        rival_label="quarter circle (rival)",
    )
    figures.title(ax, f"Spectrum with the outlier removed, {NAMES[model]}, n = {n}")


def _whole(results: Results, model: str) -> Any:
    """The setting with the largest n that has whole spectra of the repaired matrix and a law for them."""
    settings = [
        s
        for s in family(results, model, "outlier_removed")
        if "_spectrum" in results.samples[s] and s.plain_scores and s.mask == "none" and s.n > 2
        if s.beta and s.beta <= 6 and s.norm == "none" and s.tokens in ("independent", "orthonormal")
    ]
    return max(settings, key=lambda s: s.n) if settings else None


def _theory(results: Results, setting: Any, quantity: str, label: str) -> figures.Curve:
    """The theory over the whole line of n; the widths follow n where they did so in the sweep."""
    follows = ["width"] if setting.width == min(setting.n, 1024) else []
    follows += ["value_width"] if setting.value_width == setting.width else []
    return theory(results, setting, quantity, label, LINE, derived=follows)

"""Claims of reference_figures: numbers read off the published figures, within what reading and five runs allow."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.statistics.claims import Claim, bound_claim, exponent_claim
from rmt.statistics.contrasts import difference_claim
from simulations.networks import published

if TYPE_CHECKING:
    from rmt.experiments.results import Results

PUBLISHED = "nait-saada2024, rebuttal figures"
READING = 0.2  # relative: reading a curve of five runs off a picture


def judged(results: Results) -> list[Any]:
    """All claims the panels allow."""
    found: list[Claim] = []
    for setting in results.settings:
        samples = results.samples[setting]
        kind = {"V": _language, "VI": _language, "VII": _nine, "VIII": _gradients, "X": _looking, "XI": _looking}.get(
            setting.panels, _eigenvalues
        )
        found += kind(setting, samples)
    return found


def _reads(what: str, draws: np.ndarray, value: float) -> Claim:
    """The mean agrees with a number read off: within 20 % of it, or near one within 25 % of its excess and 0.01."""
    return difference_claim(
        what,
        draws,
        np.zeros(draws.size),
        predicted=value,
        tolerance=min(READING * value, 0.25 * (value - 1) + 0.01) if value < 2 else READING * value,
        expected="supported",
        source=PUBLISHED,
        paired=True,
    )


def _nine(setting: Any, samples: Any) -> list[Claim]:
    if setting.size != "paper":
        return []
    found = []
    for name, (first, last) in published.READ_OFF_VII.items():
        ranks = samples[f"gram_stable_rank, {name}"]
        found.append(_reads(f"VII: {name}, rank after layer 1 is {first:g}", ranks[:, 0], first))
        found.append(_reads(f"VII: {name}, rank after layer 10 is {last:g}", ranks[:, -1], last))
    return found


def _looking(setting: Any, samples: Any) -> list[Claim]:
    if setting.size != "paper":
        return []
    found = []
    for n, rank in (published.READ_OFF_X if setting.panels == "X" else published.READ_OFF_XI).items():
        draws = samples[f"gram_stable_rank, n = {n}"][:, 0]
        found.append(_reads(f"{setting.panels}: A(X), n = {n}, rank after layer 1 is {rank:g}", draws, rank))
    return found


def _language(setting: Any, samples: Any) -> list[Claim]:
    """Removal of the outlier keeps more rank after the last layer, however little (read off 1.26 against 1.005)."""
    n = setting.sizes[-1]
    kept, removed = (samples[f"gram_stable_rank, {variant}, n = {n}"] for variant in ("plain", "outlier_removed"))
    found = [
        bound_claim(
            f"{setting.panels}: random RoBERTa, n = {n}: removed over kept excess after layer 12 is above one",
            [float(n)],
            [(removed[:, -1] - 1) / (kept[:, -1] - 1)],
            bound=1.0,
            side="lower",
            source=PUBLISHED,
        )
    ]
    if setting.panels == "VI" and setting.size == "paper":
        for variant, draws in (("plain", kept), ("outlier_removed", removed)):
            for layer, value in zip((1, 12), published.READ_OFF_VI[variant], strict=True):
                if value is not None:
                    what = f"VI: random RoBERTa, {variant}, n = {n}: rank after layer {layer} is {value:g}"
                    found.append(dataclasses.replace(_reads(what, draws[:, layer - 1], value), expected=None))
    return found


def _gradients(setting: Any, samples: Any) -> list[Claim]:
    """Slopes of ln of the squared norm against ln n: read off 1.8 (kept) and 1.35 (removed); constant attention 2 and 1."""
    found = []
    for kind, slopes in (("A(X)", (1.8, 1.35)), ("A", (2.0, 1.0))):
        for variant, slope in zip(("plain", "outlier_removed"), slopes, strict=True):
            line = [np.exp(samples[f"log_gradient_norm_squared, {kind} {variant}, n = {n}"]) for n in setting.sizes]
            found.append(
                exponent_claim(
                    f"VIII ({setting.size}): {kind} {variant}: the squared gradient norm grows like n^{slope:g}",
                    setting.sizes,
                    line,
                    predicted=slope,
                    tolerance=0.25,
                    expected="supported" if kind == "A" else None,
                    source=PUBLISHED if kind == "A(X)" else "derived, see rmt.theorems.gradient_norms",
                )
            )
    return found


def _eigenvalues(setting: Any, samples: Any) -> list[Claim]:
    """The bulk lies in the published disc."""
    radius = {"I": 0.02, "II": 0.04, "III": 0.04, "IX": 0.1}.get(setting.panels)
    found = []
    for name, draws in samples.items():
        if name.startswith("second_eigenvalue_modulus") and radius is not None:
            expected = "supported" if setting.panels == "II" else None
            found.append(
                bound_claim(
                    f"{setting.panels}: bulk within {radius:g}, {name.partition(', ')[2]}",
                    [1.0],
                    [draws],
                    bound=radius,
                    expected=expected,
                    source=PUBLISHED,
                )
            )
        if name.startswith("distance_to_diagonal"):
            found.append(
                bound_claim(
                    f"IV: causal eigenvalues are the diagonal, {name.partition(', ')[2]}",
                    [1.0],
                    [np.maximum(draws, math.ulp(1.0))],
                    bound=1e-3,  # a triangular matrix of n = 280 is far from normal: eigenvalues carry its condition
                    expected="supported",
                    source="triangular matrices",
                )
            )
    return found

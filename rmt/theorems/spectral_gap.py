"""Predictions for one attention matrix: its two largest singular values, the gap, norms and entropy."""

from __future__ import annotations

import math

from rmt.laws.hermite import TW1_MEDIAN
from rmt.theorems.layer import Layer
from rmt.theorems.prediction import Approximation, Exact, Prediction, out_of_range, relative_band

SOURCE = "nait-saada2024; derived, see rmt.laws.hermite"
ROWS = "derived: exact average over rows, see rmt.laws.lognormal_softmax"
UNIFORM = "A = 11^T/n exactly at beta = 0"
_ROUNDING = 1e-6


def matrix_predictions(layer: Layer, *, removed: bool) -> dict[str, Prediction]:
    """What to expect of A, or of A - 11^T/n where `removed`, by quantity.

    Bands: 1 % for exact row averages, 5 % of s_1^2 - 1 for s_1; for s_2 3 % of the law (5 % below n = 500 with beta above
    0.6, where heavy entries lift the edge) and 10 % where one entry carries it; for the stable rank after removal 5 %
    where s_2 has 3 %, else 10 %. Calibrated on 64 draws at n = 256
    and 512 and 24 at n = 1024, beta 0.3 to 1, d_k 16, 64, 128, see rmt.laws.hermite; entries at beta 0.83 and 1, iid:
    measured/predicted 0.987 to 1.028.
    """
    if layer.beta == 0 or layer.n == 1:
        return _uniform(layer, removed)
    found: dict[str, Prediction] = {
        "frobenius_norm_squared": _exact(layer.variance + (0 if removed else 1), 0.01),
    }
    if not removed:
        found["attention_entropy"] = _exact(layer.entropy, 0.005)
    names = ("top_singular_value", "attention_stable_rank")
    if not removed:
        names += ("second_singular_value", "spectral_gap", "gap_ratio")
    reason = layer.limits()
    if reason:
        return found | {name: out_of_range(reason, source=SOURCE) for name in names}
    edge = layer.law.edge(entry=layer.largest_entry)
    second = math.sqrt(edge.shifted(TW1_MEDIAN) / layer.n)
    width = 0.10 if edge.detached else 0.05 if layer.n < 500 and layer.beta > 0.6 else 0.03
    how = "one entry outside the bulk" if edge.detached else "edge of the all-degrees law, Tracy-Widom median"

    def about(value: float, band: tuple[float, float], statistic: str = "median", validity: str = how) -> Prediction:
        return Approximation(value=value, band=band, statistic=statistic, source=SOURCE, validity=validity)  # type: ignore[arg-type]

    if removed:
        rank = layer.variance / second**2 / layer.n
        return found | {
            "top_singular_value": about(second, relative_band(second, width)),
            "attention_stable_rank": about(
                rank * layer.n, relative_band(rank * layer.n, 0.05 if width < 0.05 else 0.10)
            ),
        }
    top = math.sqrt(layer.top_squared)
    slack = 0.05 * (layer.top_squared - 1) / (2 * top)
    mean = "s_1^2 = 1 + sigma_n^2/n + column effect + O(n^-2)"
    gap = top - second
    return found | {
        "top_singular_value": about(top, (top - slack, top + slack), "mean", mean),
        "second_singular_value": about(second, relative_band(second, width)),
        "spectral_gap": about(gap, (gap - width * second - slack, gap + width * second + slack)),
        "gap_ratio": about(second / top, relative_band(second / top, width)),
        "attention_stable_rank": about(
            (1 + layer.variance) / layer.top_squared,
            relative_band((1 + layer.variance) / layer.top_squared, 0.02),
            "mean",
            mean,
        ),
    }


def _exact(value: float, width: float) -> Prediction:
    return Exact(
        value=value, band=relative_band(value, width), source=ROWS, standing="theorem", validity="any n, any beta"
    )


def _uniform(layer: Layer, removed: bool) -> dict[str, Prediction]:
    """beta = 0 or one token: every row is uniform."""

    def fixed(value: float) -> Prediction:
        band = (value - _ROUNDING, value + _ROUNDING)
        return Exact(value=value, band=band, source=UNIFORM, standing="theorem", validity="beta = 0 or n = 1")

    if removed:
        return {"frobenius_norm_squared": fixed(0.0), "top_singular_value": fixed(0.0)}
    found = {
        "frobenius_norm_squared": fixed(1.0),
        "attention_entropy": fixed(math.log(layer.n)),
        "top_singular_value": fixed(1.0),
        "attention_stable_rank": fixed(1.0),
    }
    if layer.n > 1:
        found |= {"second_singular_value": fixed(0.0), "spectral_gap": fixed(1.0), "gap_ratio": fixed(0.0)}
    return found

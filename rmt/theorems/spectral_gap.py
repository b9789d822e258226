"""Predictions for one attention matrix: its two largest singular values, the gap, norms and entropy."""

from __future__ import annotations

import math

from rmt.theorems.layer import Layer
from rmt.theorems.prediction import (
    MOST_RANKS,
    Approximation,
    Exact,
    Prediction,
    Predictions,
    Statistic,
    absolute_band,
    out_of_range,
    relative_band,
    values_out_of_range,
)

SOURCE = "nait-saada2024; derived, see rmt.laws.hermite"
ROWS = "derived: exact average over rows, see rmt.laws.lognormal_softmax"
TOP = "s_1^2 = 1 + sigma_n^2/n + column effect + O(n^-2)"
UNIFORM = "A = 11^T/n exactly at beta = 0"
_ROUNDING = 1e-6
_ROOT_ROUNDING = 3.5e-4  # sqrt of the float32 epsilon: a squared singular value is known to epsilon s_1^2


def matrix_predictions(layer: Layer, *, removed: bool) -> Predictions:
    """What to expect of A, or of A - 11^T/n where `removed`, by quantity; `singular_value` maps a rank to its prediction.

    Bands: 2 % of sigma_n^2 for the Frobenius norm, 0.5 % for the entropy (both exact averages over rows); 5 % of
    s_1^2 - 1 for s_1; for a value of the bulk 3 % of the law (5 % below n = 500 with beta above 0.6, where heavy
    entries lift the edge), 10 % where one entry carries it; 5 % for ratios of two bulk values; for the stable rank after
    removal 10 %. The difference of two values of the bulk is not predicted: it is the size of their fluctuation.

    Calibrated on 64 draws at n = 256 and 512 and 24 at n = 1024, beta 0.3 to 1, d_k 16, 64, 128, see rmt.laws.hermite.
    Measured over predicted, the draws that calibrated it: s_1^2 - 1 0.97 to 1.04; ranks 1 to 8 of the bulk 0.97 to 1.03;
    values carried by entries (iid) 0.976 to 1.004 at beta 0.83, 0.945 (rank 8, n = 256) to 1.03 at beta 1.
    At n = 4096 (10 draws, d_k 64, beta 0.5 to 1; iid, beta 0.83 and 1) every statistic is within half its band.
    """
    if layer.uniform:
        return _uniform(layer, removed)
    found = _row_averages(layer, removed)
    reason = layer.limits()
    if reason is None:
        return found | (_removed(layer) if removed else _kept(layer))
    names = ["top_singular_value", "second_singular_value", "gap_ratio", "attention_stable_rank"]
    names += [] if removed else ["spectral_gap"]
    return found | values_out_of_range(names, reason, source=SOURCE)


def _row_averages(layer: Layer, removed: bool) -> Predictions:
    names = ["frobenius_norm_squared"] + ([] if removed else ["attention_entropy"])
    reason = layer.row_limits()
    if reason:
        return {name: out_of_range(reason, source=ROWS, standing="theorem") for name in names}
    value = layer.variance + (0 if removed else 1)
    found: Predictions = {"frobenius_norm_squared": _exact(value, 0.02 * layer.variance)}
    if not removed:
        found["attention_entropy"] = _exact(layer.entropy, 0.005 * layer.entropy)
    return found


def _kept(layer: Layer) -> Predictions:
    top = math.sqrt(layer.top_squared)
    slack = 0.05 * (layer.top_squared - 1) / (2 * top)
    stable = (1 + layer.variance) / layer.top_squared
    second, width, how = _central(layer, 1)
    gap, wide = top - second, width * second + slack
    first = _about(top, (top - slack, top + slack), TOP, "mean")
    rest = {rank: _value(layer, rank - 1) for rank in range(2, MOST_RANKS + 1)}
    return {
        "top_singular_value": first,
        "second_singular_value": rest[2],
        "singular_value": {1: first} | rest,
        "spectral_gap": _about(gap, (gap - wide, gap + wide), how),
        "gap_ratio": _about(second / top, relative_band(second / top, width), how),
        "attention_stable_rank": _about(stable, relative_band(stable, 0.02), TOP, "mean"),
    }


def _removed(layer: Layer) -> Predictions:
    values = {rank: _value(layer, rank) for rank in range(1, MOST_RANKS + 1)}
    (top, _, how), (second, _, _) = _central(layer, 1), _central(layer, 2)
    detached = layer.leading[0][1]
    stable = layer.variance / top**2
    return {
        "top_singular_value": values[1],
        "second_singular_value": values[2],
        "singular_value": values,
        "gap_ratio": _about(second / top, relative_band(second / top, 0.10 if detached else 0.05), how),
        "attention_stable_rank": _about(stable, relative_band(stable, 0.10), how),
    }


def _central(layer: Layer, rank: int) -> tuple[float, float, str]:
    """Median of the rank-th singular value of A - 11^T/n, its relative band, and which rule gives it."""
    value, detached = layer.leading[rank - 1]
    if detached:
        return value, 0.10, "one entry outside the bulk"
    return (
        value,
        0.05 if layer.n < 500 and layer.heavy > 0.6 else 0.03,
        "edge of the all-degrees law, Tracy-Widom median",
    )


def _value(layer: Layer, rank: int) -> Prediction:
    value, width, how = _central(layer, rank)
    return _about(value, relative_band(value, width), how)


def _about(value: float, band: tuple[float, float], how: str, statistic: Statistic = "median") -> Prediction:
    return Approximation(value=value, band=band, statistic=statistic, source=SOURCE, validity=how)


def _exact(value: float, width: float) -> Prediction:
    band = absolute_band(value, width)
    return Exact(value=value, band=band, source=ROWS, standing="theorem", validity="any n, any beta")


def _uniform(layer: Layer, removed: bool) -> Predictions:
    """beta = 0 or one token: every row is uniform."""

    def fixed(value: float, width: float = _ROUNDING) -> Prediction:
        band = (value - width, value + width)
        return Exact(value=value, band=band, source=UNIFORM, standing="theorem", validity="beta = 0 or n = 1")

    if removed:
        return {"frobenius_norm_squared": fixed(0.0), "top_singular_value": fixed(0.0, _ROOT_ROUNDING)}
    found: Predictions = {
        "frobenius_norm_squared": fixed(1.0),
        "attention_entropy": fixed(math.log(layer.n)),
        "top_singular_value": fixed(1.0),
        "attention_stable_rank": fixed(1.0),
    }
    if layer.n > 1:
        found |= {
            "second_singular_value": fixed(0.0, _ROOT_ROUNDING),
            "spectral_gap": fixed(1.0, _ROOT_ROUNDING),
            "gap_ratio": fixed(0.0, _ROOT_ROUNDING),
        }
    return found

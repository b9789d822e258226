"""Predictions for causal attention with a sink in the denominator, A_ij = e^l_ij/(e^b + sum_(k <= i) e^l_ik)."""

from __future__ import annotations

import math

import numpy as np

from rmt.laws.averages import terraced_singular_values
from rmt.laws.causal import CausalLaw
from rmt.theorems.prediction import Approximation, Prediction, out_of_range, relative_band

SOURCE = "derived: mean rows of weight i/(i + c), see rmt.theorems.causal_sinks"
RANGE = "beta <= 1, n >= 64, sink >= 0"
_MOST_TOKENS = 10**6


def causal_sink_predictions(n: int, beta: float, sink: float, *, head_dim: int | None = None) -> dict[str, Prediction]:
    """What to expect of A; `sink` is b, 0 being softmax-off-by-one, head_dim d_k of key-query logits.

    Row i sums to about i/(i + c), c = e^(b - beta^2/2), so the mean is the terraced matrix 1/(i + c), whose ladder has the
    length ln(1 + n/c) (`rmt.laws.averages.sink_ladder`). The noise of the first rows, which lengthens the ladder of plain causal
    attention, is damped with them: measured over this, 24 draws at n = 500, b = 0, 1.5, 3, ln n: s_1 1.000 to 1.003, s_2 0.999
    to 1.006 (beta = .5), 1.02 to 1.03 (1); s_3 1.01 to 1.02 (.5), but 1.08 to 1.15 at beta = 1: noise, not predicted.
    Bands: s_1 1 %, s_2 1.5 % (beta <= .6) or 4 %, ||A||_F^2 4 %.
    """
    names = ("top_singular_value", "second_singular_value", "gap_ratio", "frobenius_norm_squared")
    law = CausalLaw(n, beta, head_dim) if n >= 2 and 0 < beta <= 6 else None
    reason = law.validity if law else f"n = {n}, beta = {beta:g}: needs n >= 2 and beta > 0"
    if not reason and not 0 <= sink <= 50:
        reason = f"sink = {sink:g}: calibrated from 0 to 50"
    if not reason and n > _MOST_TOKENS:
        reason = f"n = {n}: computed up to {_MOST_TOKENS} tokens"
    if reason or law is None:
        return dict.fromkeys(names, out_of_range(reason, source=SOURCE))
    i = np.arange(1, n + 1)
    heights = 1 / (i + math.exp(sink - beta**2 / 2))
    first, second = terraced_singular_values(heights, 2)
    squares = float(np.sum(heights**2 * i * (1 + law.row_variance(i))))
    wide = 0.015 if beta <= 0.6 else 0.04
    return {
        "top_singular_value": _about(first, 0.01),
        "second_singular_value": _about(second, wide),
        "gap_ratio": _about(second / first, wide),
        "frobenius_norm_squared": _about(squares, 0.04),
    }


def _about(value: float, width: float) -> Prediction:
    value = float(value)
    return Approximation(value=value, band=relative_band(value, width), source=SOURCE, validity=RANGE)

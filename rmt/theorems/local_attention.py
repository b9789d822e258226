"""Predictions for local attention: a causal window, or a linear bias on the logits (ALiBi) under a causal mask."""

from __future__ import annotations

import functools
import math

import numpy as np

from rmt.laws.band import LocalAttention
from rmt.theorems.causal import causal_predictions
from rmt.theorems.prediction import (
    Approximation,
    Exact,
    Prediction,
    Statistic,
    absolute_band,
    out_of_range,
    relative_band,
)

SOURCE = "derived: moving averages and their noise, see rmt.laws.band"
ROWS = "derived: exact average over rows, see rmt.laws.band"
_NAMES = ("top_singular_value", "second_singular_value", "gap_ratio", "attention_stable_rank", "token_cosine")


def local_predictions(
    n: int,
    beta: float,
    *,
    window: int | None = None,
    slope: float | None = None,
    model: str = "iid",
    head_dim: int | None = None,
) -> dict[str, Prediction]:
    """What to expect of A under a causal window of `window` keys, or a causal mask with logits lowered by slope * distance.

    model: "iid" or "keyquery" (then head_dim is d_k). frobenius_norm_squared (exact over rows), top_singular_value and
    second_singular_value (medians), gap_ratio, attention_stable_rank, and token_cosine of A V with independent wide V (means).
    There is no width collapse: ||A||_F^2 grows like n/window, s_1 does not grow. A window of n or more keys is a causal mask.
    Raises ValueError unless exactly one of window and slope is given.
    """
    if window is not None and window >= n:
        found = causal_predictions(n, beta, model=model, head_dim=head_dim)
        return {name: value for name, value in found.items() if isinstance(value, Approximation | Exact)}
    if beta == 0:
        return {}
    law = _law(n, float(beta), window, slope, head_dim if model == "keyquery" else None)
    if law.validity:
        return dict.fromkeys(("frobenius_norm_squared", *_NAMES), out_of_range(law.validity, source=SOURCE))
    total = law.frobenius_norm_squared
    first, second = law.top_value(1), law.top_value(2)
    cosine = _cosine(law)
    return {
        "frobenius_norm_squared": Exact(
            value=total, band=relative_band(total, 0.02), source=ROWS, validity="any window or slope, any beta"
        ),
        "top_singular_value": _about(first, 0.02),
        "second_singular_value": _about(second, 0.04),
        "gap_ratio": _about(second / first, 0.04),
        "attention_stable_rank": _about(total / first**2, 0.04, "mean"),
        "token_cosine": Approximation(
            value=cosine, band=absolute_band(cosine, 0.1 * cosine), source=SOURCE, validity=_validity(law)
        ),
    }


def _cosine(law: LocalAttention) -> float:
    """Average cosine of two of n tokens: shared mean keys, over (1 + sigma_w^2) for the noise each has alone."""
    if law.window is not None:
        w, n = law.window, law.n
        lags = np.arange(1, w)
        total = float(np.sum((n - lags) * (1 - lags / w)))
    else:
        r = math.exp(-(law.slope or 1.0))
        lags = np.arange(1, law.n)
        total = float(np.sum((law.n - lags) * r**lags))
    return 2 * total / (law.n * (law.n - 1)) / (1 + law.row_variance)


def _validity(law: LocalAttention) -> str:
    return "beta <= 1, 16 <= window <= n/4" if law.window else "beta <= 1, 5/n <= slope <= .1"


def _about(value: float, width: float, statistic: Statistic = "median") -> Prediction:
    return Approximation(
        value=value,
        band=relative_band(value, width),
        statistic=statistic,
        source=SOURCE,
        validity="beta <= 1, 16 <= window <= n/4 or 5/n <= slope <= .1",
    )


@functools.lru_cache(maxsize=64)
def _law(n: int, beta: float, window: int | None, slope: float | None, head_dim: int | None) -> LocalAttention:
    return LocalAttention(n, beta, window, slope, head_dim)

"""Predictions for local attention: a causal window, or a linear bias on the logits (ALiBi) under a causal mask."""

from __future__ import annotations

import functools
import math

import numpy as np

from rmt.laws.band import LocalAttention
from rmt.theorems.causal import causal_predictions
from rmt.theorems.causal_tokens import spread_ranks
from rmt.theorems.prediction import (
    Approximation,
    Exact,
    Prediction,
    Statistic,
    out_of_range,
    relative_band,
)

SOURCE = "derived: moving averages and their noise, see rmt.laws.band"
ROWS = "derived: exact average over rows, see rmt.laws.band"
RANGE = "beta <= .6: 16 <= window <= n/4, 5/n <= slope <= .1; beta <= 1: window >= 96, slope <= .02"
_MOST_TOKENS = 16384  # for ranks of tokens, which need every singular value
_NAMES = ("top_singular_value", "second_singular_value", "gap_ratio", "attention_stable_rank", "token_cosine")


def local_predictions(
    n: int,
    beta: float,
    *,
    window: int | None = None,
    slope: float | None = None,
    model: str = "iid",
    head_dim: int | None = None,
    widths: tuple[int, ...] = (),
) -> dict[str, Prediction]:
    """What to expect of A under a causal window of `window` keys, or a causal mask with logits lowered by slope * distance.

    model: "iid" or "keyquery" (then head_dim is d_k). frobenius_norm_squared (exact over rows), top_singular_value and
    second_singular_value (medians), gap_ratio, attention_stable_rank, and of A V with independent V token_cosine and, where its
    Gaussian factors `widths` are given (`rmt.theorems.causal_tokens`), token_stable_rank (means).
    There is no width collapse: ||A||_F^2 grows like n/window, s_1 does not grow. A window of n or more keys is a causal mask.

    Measured over predicted, 24 draws at n = 512, beta .3 to 1, iid and d_k = 64: Frobenius norm 0.99 to 1.01; s_1 0.984 to 1.004
    at beta <= .5 (w = 16 to 128, slope .01 to .1), 0.97 to 1.007 above for w >= 64 or slope <= .02 (standard errors .01), but
    .95 to .98 for shorter reach, which is refused; s_2 0.98 to 1.01 and 0.957 to 1.004; stable rank 0.98 to 1.04; cosine 0.98
    to 1.06 at beta <= .5, to 1.13 at 1 (rows of large noise are longer; refused above .85). Token stable rank 0.93 to 1.06 at
    errors 0.01 to 0.05, (n, width, value width) = (512, 512, 512), (1024, 512, 512), (512, 256, 64).
    Bands, in this order: 2, 2, 4, 5, 10 and 7 % (12 % below width 256).
    Raises ValueError unless exactly one of window and slope is given.
    """
    if window is not None and window >= n:
        found = causal_predictions(n, beta, model=model, head_dim=head_dim)
        return {name: value for name, value in found.items() if isinstance(value, Approximation | Exact)}
    if beta == 0:
        return {}
    law = _law(n, float(beta), window, slope, head_dim if model == "keyquery" else None)
    reason = law.validity
    if not reason and law.beta > 0.6 and law.reach < 95:
        reason = (
            f"beta = {law.beta:g}, reach {law.reach:.3g}: above beta .6 calibrated for window >= 96 or slope <= .02"
        )
    if reason:
        return dict.fromkeys(("frobenius_norm_squared", *_NAMES), out_of_range(reason, source=SOURCE))
    total = law.frobenius_norm_squared
    first, second = law.top_value(1), law.top_value(2)
    after = {}
    if widths and min(widths) >= 32 and n <= _MOST_TOKENS:
        squares = law.squares
        stable = spread_ranks(squares, total, float(np.sum(squares**2)), widths)[0]
        after["token_stable_rank"] = _about(stable, 0.07 if min(widths) >= 256 else 0.12, "mean")
    return after | {
        "frobenius_norm_squared": Exact(
            value=total, band=relative_band(total, 0.02), source=ROWS, validity="any window or slope, any beta"
        ),
        "top_singular_value": _about(first, 0.02),
        "second_singular_value": _about(second, 0.04),
        "gap_ratio": _about(second / first, 0.04),
        "attention_stable_rank": _about(total / first**2, 0.05, "mean"),
        "token_cosine": _about(_cosine(law), 0.10, "mean")
        if beta <= 0.85
        else out_of_range(f"beta = {beta:g}: cosines are calibrated for beta <= .85", source=SOURCE),
    }


def _cosine(law: LocalAttention) -> float:
    """Average cosine of two of n tokens: overlap of their mean rows over lengths, and each token's own noise.

    Rows up to eight times the reach are summed pair by pair; later ones all see the same of the tokens before them.
    """
    early = min(law.n, int(8 * law.reach) + 2)
    i = np.arange(1, early + 1, dtype=float)
    total = 0.0
    for j in range(2, early + 1):
        total += float(np.sum(_overlap(law, i[: j - 1], float(j))))
    late = float(np.sum(_overlap(law, i[:-1], float(early)))) * (law.n - early)
    return 2 * (total + late) / (law.n * (law.n - 1)) / (1 + law.row_variance)


def _overlap(law: LocalAttention, i: np.ndarray, j: float) -> np.ndarray:
    """Cosines of mean rows i < j."""
    if law.window is not None:
        shared = np.clip(np.minimum(i, law.window - (j - i)), 0.0, None)
        return shared / np.sqrt(np.minimum(i, law.window) * min(j, law.window))
    slope = law.slope or 1.0
    return np.exp(-slope * (j - i)) * np.sqrt(np.expm1(-2 * slope * i) / math.expm1(-2 * slope * j))


def _about(value: float, width: float, statistic: Statistic = "median") -> Prediction:
    return Approximation(
        value=value,
        band=relative_band(value, width),
        statistic=statistic,
        source=SOURCE,
        validity=RANGE,
    )


@functools.lru_cache(maxsize=64)
def _law(n: int, beta: float, window: int | None, slope: float | None, head_dim: int | None) -> LocalAttention:
    return LocalAttention(n, beta, window, slope, head_dim)

"""Predictions for causal attention less 11^T/n, and for its centred columns: the ladder stays, one degree of freedom goes."""

from __future__ import annotations

import functools

import numpy as np

from rmt.laws.causal_centred import CentredCausalLaw
from rmt.theorems.causal import ROWS, Predictions
from rmt.theorems.prediction import (
    MOST_RANKS,
    Approximation,
    Exact,
    Prediction,
    Statistic,
    absolute_band,
    out_of_range,
    relative_band,
    values_out_of_range,
)

SOURCE = "derived: causal equations with a projected mean, see rmt.laws.causal_centred"
RANGE = "beta <= 1, n >= 128, head_dim >= 16"
CENTRED = {"outlier_removed": "keys", "centred": "queries"}


def causal_centred_predictions(
    n: int, beta: float, *, head_dim: int | None = None, variant: str, equations: bool = True
) -> Predictions:
    """What to expect of A - 11^T/n ("outlier_removed") or (I - 11^T/n) A ("centred"), A causal attention over n tokens.

    head_dim: d_k of key-query logits, None for iid ones. Quantities: frobenius_norm_squared, attention_stable_rank (means),
    top_singular_value, second_singular_value, singular_value (ranks 1 to 8), spectral_gap, gap_ratio (medians).
    equations: False leaves the singular values out, which take up to two seconds.

    Neither is a repair under a causal mask: s_1 falls by 5 and 12 % at n = 512, and still tends to 2 as n grows.

    Measured over predicted, 200 draws at n = 128, 80 at 256, 32 at 512, 12 at 1024, 24 at 2048, beta .3 to 1, iid and d_k 16, 64:
    of A - 11^T/n s_1 0.990 to 1.012, s_2 0.984 to 1.010; of (I - 11^T/n) A 0.981 to 1.017, 0.988 to 1.016 (errors .002 to .012);
    s_3 to s_8 0.95 to 1.036, mean 1.00 (.004 to .03), ratio 0.985 to 1.03, stable rank 0.97 to 1.036, ||.||_F^2 0.993 to 1.008.
    Bands: s_1, s_2 and ||.||_F^2 3 %, further values 5 %, gap 4 % of s_1, ratio 4 %, stable rank 5 %.
    Raises KeyError for another variant.
    """
    centred = CENTRED[variant]
    names = ("top_singular_value", "second_singular_value", "spectral_gap", "gap_ratio", "attention_stable_rank")
    law = _law(n, float(beta), head_dim, centred) if n >= 2 and 0 < beta <= 6 else None
    if law is None:
        reason = f"n = {n}, beta = {beta:g}: needs n >= 2 and 0 < beta <= 6"
        return dict.fromkeys((*names, "frobenius_norm_squared"), out_of_range(reason, source=SOURCE))
    total = law.frobenius_norm_squared
    found: Predictions = {"frobenius_norm_squared": _squared(law, total)}
    reason = law.validity
    reason = reason or (f"n = {n}: calibrated for n >= 128" if n < 128 else "")
    reason = reason or ("" if equations else f"n = {n}: needs the causal equations, see rmt.theorems.causal_centred")
    if head_dim is not None and head_dim < 32 and beta > 0.85:
        reason = reason or f"head_dim = {head_dim}, beta = {beta:g}: calibrated for head_dim >= 32 above beta .85"
    if reason:
        return found | values_out_of_range(names, reason, source=SOURCE)
    ranks = {rank: _value(law, rank) for rank in range(1, MOST_RANKS + 1)}
    first, second = (float(law.top_value(rank)) for rank in (1, 2))
    stable = total / first**2
    return found | {
        "top_singular_value": ranks[1],
        "second_singular_value": ranks[2],
        "singular_value": ranks,
        "spectral_gap": _about(first - second, absolute_band(first - second, 0.04 * first)),
        "gap_ratio": _about(second / first, relative_band(second / first, 0.04)),
        "attention_stable_rank": _about(stable, relative_band(stable, 0.05), "mean"),
    }


def _squared(law: CentredCausalLaw, total: float) -> Prediction:
    if law.centred == "keys":
        return Exact(value=total, band=relative_band(total, 0.03), source=ROWS, validity="any n, any beta")
    source, band = "derived: rows less the mean row, see rmt.laws.causal_centred", relative_band(total, 0.03)
    return Approximation(value=total, band=band, source=source, validity="beta <= 1")


def _value(law: CentredCausalLaw, rank: int) -> Prediction:
    value = float(law.top_value(rank))
    if np.isnan(value):
        return out_of_range(f"n = {law.n}: value {rank} is below the resolved range", source=SOURCE)
    return _about(value, relative_band(value, 0.03 if rank <= 2 else 0.05))


def _about(value: float, band: tuple[float, float], statistic: Statistic = "median") -> Prediction:
    return Approximation(value=value, band=band, statistic=statistic, source=SOURCE, validity=RANGE)


@functools.lru_cache(maxsize=32)
def _law(n: int, beta: float, head_dim: int | None, centred: str) -> CentredCausalLaw:
    return CentredCausalLaw(n, beta, head_dim, centred)

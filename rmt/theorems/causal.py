"""Predictions for one causal attention matrix A, or A - C (its uniform causal mean removed)."""

from __future__ import annotations

import functools

import numpy as np

from rmt.laws.averages import terraced_singular_values
from rmt.laws.causal import CausalLaw
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

ROWS = "derived: exact average over rows, see rmt.laws.causal"
LADDER = "derived: causal information-plus-noise equations, see rmt.laws.causal_equations"
UNIFORM = "A = C, the uniform causal mean, at beta = 0: see rmt.laws.averages"
_LIFT = (
    0.4  # by how much more values of A stand above the largest of A - C of the same draw: the noise lifts the last rung
)
_ROUNDING = 1e-6
_EXACT_UP_TO = 10**5  # tokens for which beta = 0 is computed exactly


def causal_predictions(
    n: int, beta: float, *, model: str = "iid", head_dim: int | None = None, variant: str = "plain"
) -> Predictions:
    """What to expect of causal attention over n tokens, by quantity; `singular_value` maps a rank to its prediction.

    model: "iid" or "keyquery" (then head_dim is d_k); variant: "plain" (A) or "running_mean_removed" (A - C).
    Quantities: frobenius_norm_squared, top_singular_value, second_singular_value, singular_value (ranks 1 to 8),
    attention_stable_rank, and for A also spectral_gap, gap_ratio and outlier_count: the number of singular values of A
    above the largest of A - C of the same draw. Singular values, gap and ratio are medians, the rest means.

    Bands: 3 % of ||A||_F^2, 5 % of that of A - C (exact averages over rows); s_1 2 %, s_2 and s_3 3 %, further values 5 %; of
    A - C s_1 12 %, s_2 10 %, further values 6 %, stable rank 20 %; gap 3 % of s_1, ratio and stable rank of A 3 %, count 0.75.
    Measured over predicted, 48 and 20 draws at n = 256, 512, beta .3, .5, .7, 1, d_k 16, 64 and iid: s_1 0.995 to 1.008
    (1.02 at d_k = 16, beta = 1), s_2 0.988 to 1.01, s_3 0.987 to 1.03, s_4 to s_8 0.96 to 1.05, mean 1.006; of A - C s_1 0.87 to
    1.03 (standard errors 0.02 to 0.04), s_2 to s_8 0.94 to 1.05; stable rank of A 0.97 to 1.01; counts above those of the law
    by 0.43 in the mean (noise lifts the last rungs of its own draw; 0.4 is added), then within 0.5 (errors 0.1 to 0.4).
    Raises ValueError for an unknown model or variant.
    """
    if model not in ("iid", "keyquery") or variant not in ("plain", "running_mean_removed"):
        raise ValueError(f"model {model}, variant {variant}: iid, keyquery; plain, running_mean_removed are predicted")
    if model == "keyquery" and head_dim is None:
        raise ValueError("head_dim None: key-query logits have a head dimension")
    removed = variant == "running_mean_removed"
    if beta == 0 or n < 3:
        return _uniform(n, removed) if beta == 0 else {}
    law = causal_law(n, float(beta), head_dim if model == "keyquery" else None, not removed)
    found: Predictions = {
        "frobenius_norm_squared": Exact(
            value=law.frobenius_norm_squared,
            band=relative_band(law.frobenius_norm_squared, 0.05 if removed else 0.03),
            source=ROWS,
            validity="any n, any beta",
        )
    }
    if law.validity:
        return found | _refused(law.validity, removed)
    return found | (_removed(law) if removed else _kept(law))


def _kept(law: CausalLaw) -> Predictions:
    values = _values(law, (0.02, 0.03, 0.03, 0.05))
    first, second = (float(law.top_value(k)) for k in (1, 2))
    noise_top = float(causal_law(law.n, law.beta, law.head_dim, False).top_value(1))
    return values | {
        "spectral_gap": _about(first - second, absolute_band(first - second, 0.03 * first)),
        "gap_ratio": _about(second / first, relative_band(second / first, 0.03)),
        "attention_stable_rank": _about(
            law.frobenius_norm_squared / first**2, relative_band(law.frobenius_norm_squared / first**2, 0.03), "mean"
        ),
        "outlier_count": _count(law, noise_top),
    }


def _count(law: CausalLaw, noise_top: float) -> Prediction:
    count = law.count_above(noise_top) if np.isfinite(noise_top) else np.nan
    if not np.isfinite(count):  # the largest of A - C, or the rungs down to it, lie below the grid of the law
        rule = f"beta = {law.beta:g}: the largest value of A - C is below the resolved range; raise beta"
        return out_of_range(rule, source=LADDER)
    return _about(count + _LIFT, absolute_band(count + _LIFT, 0.75), "mean")


def _removed(law: CausalLaw) -> Predictions:
    values = _values(law, (0.12, 0.10, 0.06))
    top = values["top_singular_value"]
    assert isinstance(top, Approximation)
    if top.value is None:
        return values | {"attention_stable_rank": top}
    stable = law.frobenius_norm_squared / top.value**2
    return values | {"attention_stable_rank": _about(stable, relative_band(stable, 0.20))}


def _values(law: CausalLaw, widths: tuple[float, ...]) -> Predictions:
    """The leading singular values; relative bands by rank, the last one for all that follow."""
    ranks: dict[int, Prediction] = {}
    few = law.head_dim is not None and law.head_dim < 32 and law.beta > 0.85
    for rank in range(1, MOST_RANKS + 1):
        value = float(law.top_value(rank))
        if np.isnan(value):
            ranks[rank] = out_of_range(f"n = {law.n}: value {rank} is below the resolved range", source=LADDER)
        elif few and (rank > 3 or not law.mean):
            reason = f"head_dim = {law.head_dim}, beta = {law.beta:g}: the noise is calibrated for head_dim >= 32 above beta .85"
            ranks[rank] = out_of_range(reason, source=LADDER)
        else:
            ranks[rank] = _about(value, relative_band(value, widths[min(rank, len(widths)) - 1]))
    return {"top_singular_value": ranks[1], "second_singular_value": ranks[2], "singular_value": ranks}


def _about(value: float, band: tuple[float, float], statistic: Statistic = "median") -> Prediction:
    return Approximation(
        value=value, band=band, statistic=statistic, source=LADDER, validity="beta <= 1, n >= 64, head_dim >= 16"
    )


def _refused(reason: str, removed: bool) -> Predictions:
    names = ["top_singular_value", "second_singular_value", "attention_stable_rank"]
    names += [] if removed else ["spectral_gap", "gap_ratio", "outlier_count"]
    return values_out_of_range(names, reason, source=LADDER)


@functools.lru_cache(maxsize=64)
def causal_law(n: int, beta: float, head_dim: int | None, mean: bool) -> CausalLaw:
    """A cached law: its equations are solved once."""
    return CausalLaw(n, beta, head_dim, mean)


def _uniform(n: int, removed: bool) -> Predictions:
    """beta = 0: A = C exactly."""

    def fixed(value: float, width: float = _ROUNDING) -> Prediction:
        band = absolute_band(value, width * max(1.0, value))
        return Exact(value=value, band=band, source=UNIFORM, standing="theorem", validity="beta = 0")

    if removed:
        return {"frobenius_norm_squared": fixed(0.0), "top_singular_value": fixed(0.0, 3.5e-4)}
    if n > _EXACT_UP_TO:
        reason = f"n = {n}: the exact ladder is computed up to {_EXACT_UP_TO} tokens"
        return {"frobenius_norm_squared": out_of_range(reason, source=UNIFORM)} | _refused(reason, removed)
    squares = float(np.sum(1 / np.arange(1, n + 1)))
    rungs = terraced_singular_values(1 / np.arange(1, n + 1), min(n, MOST_RANKS))
    ranks = {rank: fixed(float(value)) for rank, value in enumerate(rungs, 1)}
    found: Predictions = {
        "frobenius_norm_squared": fixed(squares),
        "top_singular_value": ranks[1],
        "singular_value": ranks,
        "attention_stable_rank": fixed(squares / float(rungs[0]) ** 2),
    }
    if n > 1:
        gap, ratio = float(rungs[0] - rungs[1]), float(rungs[1] / rungs[0])
        found |= {"second_singular_value": ranks[2], "spectral_gap": fixed(gap), "gap_ratio": fixed(ratio)}
    return found

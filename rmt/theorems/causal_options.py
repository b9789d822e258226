"""Predictions for causal attention with QK-norm or capped logits: the ladder of plain logits of equal weight variance."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import scipy.special
from scipy.optimize import brentq

from rmt.laws.few_keys import row_variances
from rmt.laws.law import Array
from rmt.theorems.causal import Predictions, causal_predictions
from rmt.theorems.causal_ladder import ladder_predictions
from rmt.theorems.layer import layer
from rmt.theorems.prediction import (
    Approximation,
    Exact,
    Prediction,
    out_of_range,
    relative_band,
    values_out_of_range,
)

SOURCE = "derived: causal ladder at equal variance, see rmt.theorems.causal_options"
ROWS = "derived: exact average over rows, see rmt.laws.few_keys"
_NODES = 80
_MOST_TOKENS = 10**6
_NAMES = (
    "top_singular_value",
    "second_singular_value",
    "spectral_gap",
    "gap_ratio",
    "attention_stable_rank",
    "outlier_count",
)


def causal_option_predictions(
    n: int,
    beta: float,
    *,
    head_dim: int | None = None,
    cap: float | None = None,
    variant: str = "plain",
    equations: bool = True,
) -> Predictions:
    """What to expect of A, or of A - C ("running_mean_removed"), with logits cap tanh(l/cap) or, without `cap`, with QK-norm.

    head_dim: d_k of key-query logits, None for iid ones. equations: whether to solve the causal equations, or to take the
    closed forms of the first rungs. With a cap A alone, s_1 and s_2 are predicted.

    Late rows enter the causal equations by the variance of their weights and the ranks of its degrees, and both laws have
    nearly those of plain logits of another deviation b: e^(b^2) - 1, or with keys and a cap its average over query norms,
    is the variance of the weights over many keys. Of the first rows, which lengthen the ladder, this is an approximation
    (a cap leaves them more noise than b says: lower rungs come out 2 to 7 % low and are refused). ||A||_F^2 is exact:
    sum (1 + sigma_i^2)/i with the softmax of i keys of the very law. Shared tokens are taken for independent ones.

    Measured over predicted, 16 to 60 draws at n = 256, 512, 1024. Cap .5, 1, 1.5, 2, 5, 50, beta .7 to 2, iid and d_k = 64:
    s_1 0.994 to 1.004, s_2 0.992 to 1.007 (errors .002 to .014), ||A||_F^2 0.999 to 1.008, stable rank 0.991 to 1.002. QK-norm,
    d_k 16, 32, 64, beta .6 to 1, independent tokens, and shared ones with and without RoPE: s_1 0.992 to 1.008, s_2 0.984 to
    1.007, s_3 to s_8 0.98 to 1.05, ||A||_F^2 0.993 to 1.006, count within 0.35; of A - C s_1 0.93 to 0.98 (0.03), others 0.99 to
    1.047, norm 0.984 to 0.997, stable rank 1.08 to 1.10. Bands: those of `rmt.theorems.causal`.
    Raises ValueError for QK-norm of iid logits.
    """
    if cap is None and head_dim is None:
        raise ValueError("head_dim None: QK-norm needs queries and keys")
    most = 1.0 if cap is None else 2.0
    rules = (
        (n < 64 or not 0 < beta <= most, f"n = {n}, beta = {beta:g}: calibrated for n >= 64, beta <= {most:g}"),
        (n > _MOST_TOKENS, f"n = {n}: computed up to {_MOST_TOKENS} tokens"),
        (head_dim is not None and head_dim < 16, f"head_dim = {head_dim}: calibrated for head_dim >= 16"),
        (cap is not None and not 0.5 <= cap <= 100, f"cap = {cap}: calibrated from .5 to 100"),
        (cap is not None and variant != "plain", f"variant {variant} of capped logits: no prediction"),
    )
    reason = next((text for broken, text in rules if broken), "")
    weights = None if reason else _weights(float(beta), head_dim, cap)
    if weights is not None and weights.equal_beta > 1:
        reason = f"weights as spread as at beta = {weights.equal_beta:.3g}: calibrated up to 1"
    if reason or weights is None:
        return values_out_of_range((*_NAMES, "frobenius_norm_squared"), reason, source=SOURCE)
    b = weights.equal_beta
    if equations:
        model = "iid" if head_dim is None else "keyquery"
        found = causal_predictions(n, b, model=model, head_dim=head_dim, variant=variant)
    else:
        found = ladder_predictions(n, b, head_dim=head_dim, variant=variant)
    noise = sum(
        share * row_variances(F, weights.probabilities, n)
        for F, share in zip(weights.values, weights.shares, strict=True)
    )
    total = float(np.sum((float(variant == "plain") + noise) / np.arange(1, n + 1)))
    band = relative_band(total, 0.03 if variant == "plain" else 0.05)
    return _told(found, Exact(value=total, band=band, source=ROWS, validity="any n, any beta"), capped=cap is not None)


def _told(found: Predictions, squared: Exact, *, capped: bool) -> Predictions:
    """The predictions of plain logits under this source, with the norm that is known; of a cap the first two rungs alone."""
    lower = out_of_range("a cap changes the noise of the first rows: s_1 and s_2 are predicted", source=SOURCE)

    def told(rank: int, one: Prediction) -> Prediction:
        kept = isinstance(one, Approximation) and (rank <= 2 or not capped)
        return dataclasses.replace(one, source=SOURCE) if kept else lower if one.in_range else one

    ranks = {rank: told(rank, one) for rank, one in found["singular_value"].items()}  # type: ignore[union-attr]
    said: Predictions = {name: told(1, found[name]) for name in _NAMES if name in found}  # type: ignore[arg-type]
    if capped:
        said["outlier_count"] = lower
    stable, first = said.get("attention_stable_rank"), ranks[1]
    if isinstance(stable, Approximation) and stable.value and first.value and squared.value:
        value = squared.value / first.value**2
        width = (stable.band[1] - stable.value) / stable.value if stable.band else 0.0
        said["attention_stable_rank"] = dataclasses.replace(stable, value=value, band=relative_band(value, width))
    return said | {"frobenius_norm_squared": squared, "singular_value": ranks}


@dataclasses.dataclass(frozen=True, eq=False)
class _Weights:
    """Weights of one row by type: values (types, nodes), probabilities of the nodes, shares of the types; b of `equal_beta`."""

    values: Array
    probabilities: Array
    shares: Array
    equal_beta: float


@functools.lru_cache(maxsize=64)
def _weights(beta: float, head_dim: int | None, cap: float | None) -> _Weights:
    if cap is None and head_dim is not None:
        cosine, weight = scipy.special.roots_gegenbauer(_NODES, head_dim / 2 - 1)
        values, shares = np.exp(beta * math.sqrt(head_dim) * cosine)[None], np.ones(1)
    else:
        normal, weight = np.polynomial.hermite_e.hermegauss(_NODES)
        types, shares = layer(_MOST_TOKENS, beta, head_dim).temperatures
        values = np.exp(cap * np.tanh(beta * np.sqrt(types)[:, None] * normal / cap)) if cap else np.ones((1, 1))
    weight = weight / weight.sum()
    variance = float(shares @ ((values**2) @ weight / (values @ weight) ** 2)) - 1
    return _Weights(values, weight, shares, _equal_beta(variance, head_dim if cap else None))


def _equal_beta(variance: float, head_dim: int | None) -> float:
    """b: e^(b^2) - 1, averaged over query norms where head_dim is given, is this variance."""
    if head_dim is None:
        return math.sqrt(math.log1p(variance))

    def excess(b: float) -> float:
        return -head_dim / 2 * math.log1p(-2 * b * b / head_dim) - math.log1p(variance)

    return float(brentq(excess, 0.0, 0.999 * math.sqrt(head_dim / 2)))

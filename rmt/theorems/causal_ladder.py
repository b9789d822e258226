"""Causal attention in closed form: the lengthened ladder, in microseconds for any n, and the tokens after the layer.

`rmt.theorems.causal` solves equations for all leading values and takes seconds at n = 10^5; the first three rungs, and
how many values stand out, need none of that.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.interpolate import PchipInterpolator

from rmt.laws.averages import ladder_values
from rmt.laws.causal import CausalLaw, expected_outliers, phase_shift
from rmt.theorems.causal import ROWS, Predictions
from rmt.theorems.layer import layer
from rmt.theorems.light_weights import LightWeights
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

SOURCE = "derived: ladder of the causal mean, lengthened by the noise, see rmt.theorems.causal_ladder"
TOKENS = "derived: means of common keys, see rmt.theorems.causal_ladder"
BANDS = (0.02, 0.03, 0.05)  # of the first three rungs
_NOISE_SIZE = 256  # tokens at which the largest value of A - C is worked out: it does not depend on n
_LARGEST = 10**8


def ladder_predictions(n: int, beta: float, *, head_dim: int | None = None, variant: str = "plain") -> Predictions:
    """What to expect of A, or of A - C ("running_mean_removed"), of causal attention over n tokens, by quantity.

    The noise sits at the first tokens and only lengthens the ladder of the causal mean, ln n -> ln n + delta(beta)
    (`rmt.laws.causal.phase_shift`); the largest value of A - C belongs to the first rows and does not depend on n, so the
    number of rungs above it grows like ln n. The Frobenius norm is an exact sum over rows.

    Against the causal equations, n = 300 to 131072, beta 0.83: s_1 0.1 %, s_2 0.2 %, s_3 5 % at n = 300, 1 % from 4096 on,
    count 0.15. Bands: 2 %, 3 %, 5 % and 0.75; of A - C s_1 15 %. Lower rungs are lifted by the noise and not given here.
    Range: beta <= 1, n from 64 to 10^8, head_dim >= 16; s_3 above beta 0.5 needs n >= 4096.
    """
    law = CausalLaw(min(n, _LARGEST), float(beta), head_dim, variant == "plain")
    names = ["top_singular_value", "second_singular_value", "spectral_gap", "gap_ratio", "outlier_count"]
    reason = law.validity or (f"n = {n}: summed up to {_LARGEST:g} tokens" if n > _LARGEST else "")
    if reason:
        return values_out_of_range([*names, "attention_stable_rank"], reason, source=SOURCE)
    squared = law.frobenius_norm_squared
    found: Predictions = {
        "frobenius_norm_squared": Exact(
            value=squared,
            band=relative_band(squared, 0.03 if variant == "plain" else 0.05),
            source=ROWS,
            validity="any n, any beta",
        )
    }
    noise_top = _noise_top(float(beta), head_dim)
    lower = out_of_range(f"n = {n}: this rung needs the causal equations, see rmt.theorems.causal", source=SOURCE)
    unseen = out_of_range(f"beta = {beta:g}: the values of A - C lie below the resolved range", source=SOURCE)
    if variant != "plain":
        top = unseen if math.isnan(noise_top) else _about(noise_top, relative_band(noise_top, 0.15))
        ranks: dict[int, Prediction] = {1: top} | dict.fromkeys(range(2, MOST_RANKS + 1), lower)
        return found | {"top_singular_value": top, "second_singular_value": lower, "singular_value": ranks}
    rungs = ladder_values(math.log(n) + phase_shift(beta), 3)
    given = 3 if beta <= 0.5 or n >= 4096 else 2
    ranks = {rank: _about(value, relative_band(value, BANDS[rank - 1])) for rank, value in enumerate(rungs[:given], 1)}
    ranks |= dict.fromkeys(range(given + 1, MOST_RANKS + 1), lower)
    first, second = float(rungs[0]), float(rungs[1])
    count = unseen if math.isnan(noise_top) else _outliers(n, beta, noise_top)
    return found | {
        "top_singular_value": ranks[1],
        "second_singular_value": ranks[2],
        "singular_value": ranks,
        "spectral_gap": _about(first - second, absolute_band(first - second, 0.03 * first)),
        "gap_ratio": _about(second / first, relative_band(second / first, 0.03)),
        "attention_stable_rank": _about(squared / first**2, relative_band(squared / first**2, 0.04), "mean"),
        "outlier_count": count,
    }


def light_ladder(n: int, light: LightWeights, *, variant: str = "plain") -> Predictions:
    """The same for iid weights with light tails, by the ladder of lognormal weights of the same variance.

    Only sigma^2 = e^(beta^2) - 1 enters the noise beyond the first rows; the Frobenius norm is that of the weights themselves.
    """
    beta = math.sqrt(math.log1p(light.variance(10**6)))
    found = ladder_predictions(n, beta, variant=variant)
    if not found["top_singular_value"].in_range:  # type: ignore[union-attr]
        return found
    count = np.unique(np.round(np.geomspace(1, n, min(n, 200)))).astype(int)
    variance = PchipInterpolator(np.log(count), [light.variance(int(i)) for i in count])
    i = np.arange(1, n + 1)
    noise = float(np.sum(variance(np.log(i)) / i))
    squared = noise + (float(np.sum(1 / i)) if variant == "plain" else 0.0)
    found["frobenius_norm_squared"] = Exact(
        value=squared, band=absolute_band(squared, 0.02 * noise), source=ROWS, validity="any n"
    )
    top = found["top_singular_value"].value  # type: ignore[union-attr]
    if variant == "plain" and top is not None:
        stable = squared / top**2
        found["attention_stable_rank"] = _about(stable, relative_band(stable, 0.04), "mean")
    return found


def causal_cosine(n: int, beta: float, *, head_dim: int | None = None, width: int) -> dict[str, Prediction]:
    """The mean cosine of two tokens after a causal layer, independent Gaussian value tokens; variant "plain" only.

    Rows i < j of A share the keys up to i: E (A A^T)_ij = 1/j, and a token has squared norm (1 + sigma_i^2)/i, so
    cos(i, j) = sqrt(i/j)/sqrt((1 + sigma_i^2)(1 + sigma_j^2)); its mean over all pairs tends to (2/3) e^(-beta^2).
    Band: 0.02. Range: n >= 250, beta <= 0.7, widths >= 64: above, the norms of early tokens scatter and the mean cosine is
    higher (16 draws, beta = 1: .27(1) for .25 at n = 1000).
    """
    reason = f"n = {n}, beta = {beta:g}, width = {width}: calibrated for n >= 250, beta <= 0.7, widths >= 64"
    if n < 250 or beta > 0.7 or width < 64 or n > _LARGEST:
        return {"token_cosine": out_of_range(reason, source=TOKENS)}
    i = np.arange(1, n + 1)
    variance = CausalLaw(n, float(beta), head_dim).row_variance(i) if beta > 0 else np.zeros(n)
    before = np.cumsum(np.sqrt(i / (1 + variance)))[:-1]
    value = float(2 * np.sum(before / np.sqrt(i[1:] * (1 + variance[1:]))) / (n * (n - 1.0)))
    band = absolute_band(value, 0.02)
    return {"token_cosine": Approximation(value=value, band=band, source=TOKENS, validity="n >= 250, beta <= 0.7")}


def causal_entropy(n: int, beta: float, *, head_dim: int | None = None) -> dict[str, Prediction]:
    """The mean entropy of a row of A, in nats: row i is a softmax over i entries (exact, interpolated in ln i to 1e-5)."""
    if not 2 <= n <= 10**6 or beta > 6:
        return {
            "attention_entropy": out_of_range(f"n = {n}, beta = {beta:g}: summed for n to 10^6, beta <= 6", source=ROWS)
        }
    if beta == 0:
        return {}
    count = np.unique(np.round(np.geomspace(1, n, 40)))
    entropy = [0.0, *(layer(int(i), beta, head_dim).entropy for i in count[1:])]
    value = float(np.mean(PchipInterpolator(np.log(count), entropy)(np.log(np.arange(1, n + 1)))))
    band = relative_band(value, 0.005)
    return {"attention_entropy": Exact(value=value, band=band, source=ROWS, validity="any n, any beta")}


@functools.lru_cache(maxsize=64)
def _noise_top(beta: float, head_dim: int | None) -> float:
    """The largest singular value of A - C; key-query logits of 64 or more dimensions have that of iid ones."""
    few = head_dim if head_dim is not None and head_dim < 64 else None
    return float(CausalLaw(_NOISE_SIZE, beta, few, False).top_value(1))


def _outliers(n: int, beta: float, noise_top: float) -> Prediction:
    count = expected_outliers(n, beta, noise_top)
    return _about(count, absolute_band(count, 0.75), "mean")


def _about(value: float, band: tuple[float, float], statistic: Statistic = "median") -> Prediction:
    return Approximation(
        value=float(value), band=band, statistic=statistic, source=SOURCE, validity="beta <= 1, n >= 64, head_dim >= 16"
    )

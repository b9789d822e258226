"""Residual connections at initialisation: extreme singular values of Z = Attn(X) + skip_scale X, and rank-one collapse.

Model: n tokens of width D > n with N(0, 1) entries and pairwise correlation rho, W_V of variance 1/D, scores of standard
deviation beta (`score_deviation`). All formulas are derived here.

Uniform attention. P = 11^T/n gives Z = skip sqrt(1 - rho) G + 1 m^T, G iid, with |m|^2/D = (1 + skip^2) rho + (1 - rho)/n:
an iid matrix plus one rank-one term that is independent of it. Its bulk is that of skip sqrt(1 - rho) G, so

    s_min = skip sqrt(1 - rho) x (lower edge of G),

the edge being sqrt(D) - sqrt(n) with the Tracy-Widom correction in Ma's centring of log s_min^2 (error O(n^(-2/3)) of
the fluctuation). In units of skip sqrt(1 - rho) sqrt(D), with c = n/D and theta = sqrt(n) |m| in those units, the top
value is sqrt((1 + theta^2)(c + theta^2))/theta where theta > c^(1/4) (Benaych-Georges and Nadakuditi 2012) and the upper
edge of G otherwise.

What attention adds. The key-query column effect lengthens the mean row, |P^T u|^2 = 1 + beta^4/(2 d_k), and with it m.
The rest of P has rows of variance (e^(b) - 1 - b)/n beyond the piece of rank d_k, b = beta^2 (1 - rho): at most a share
noise/2 = (e^b - 1 - b)/(2 n skip^2) is added to s_min. The piece of rank d_k multiplies X from the right by skip I plus
a matrix of low rank and moves single values only. Measured s_min over the formula, n = 64, 128, 256, 1024, D = 2n,
d_k = 64, beta = 1: skip 0.1: 1.11, 1.07, 1.05, 1.02; skip 0.25: 1.014, 1.017, 1.015, 1.001; skip 0.5 to 2: 0.993 to
1.006; with rho = 0.9: 0.994 to 1.014 at every skip from 0.1 on. s_max over the formula: 0.98 to 1.03, rho = 0.9 too. At
n = 4096, D = 8192 (two draws, skip 0.25 and 1): s_min 1.000 and 0.999, s_max 1.004 and 0.999 of the formula.
With n = D the lower edge is hard and nothing of this holds for s_min.

Not a theorem. "Z has full rank whenever X has" is generic only: W_V = -skip I gives skip (I - P) X, singular for every X.
What is deterministic is Weyl: s_(n-1)(Z) >= skip s_min(X) - |(P - 11^T/n) X W_V|, one index lost to the rank-one part.

Small scores. P = 11^T/n + (S - row mean)/n + O(S^2): s_2(P) is the norm of the doubly centred scores over n, a share of
order beta away. With fixed n, D and growing d_k, W_Q W_K^T tends to a Gaussian matrix, so s_2/s_1 of attention without
residual falls like beta(d_k): exponents in `COLLAPSE`.
"""

from __future__ import annotations

import math

from rmt.laws.edge_scaling import wishart_edge
from rmt.laws.hermite import TW1_MEAN
from rmt.theorems.prediction import Approximation, Exact, Prediction, absolute_band, out_of_range, relative_band

SOURCE = "residual-convergence; derived, see rmt.theorems.residual"
COLLAPSE = {
    "standard": 0.0,
    "mup": -0.5,
    "fan_out": -1.0,
    "fan_out_unscaled": -0.5,
}  # of s_2/s_1 in d_k, scores below 1
ROUNDING = 1e-12  # a singular value below this share of the largest is zero
_NOISE = 0.2  # share of attention's own rows in the square of s_min; measured effect at most 4 %


def score_deviation(scaling: str, *, width: int, head_dim: int) -> float:
    """Standard deviation beta of the scores of independent tokens, by convention. Raises ValueError for an unknown one."""
    root = math.sqrt(head_dim)
    found = {
        "standard": 1.0,
        "mup": 1 / root,
        "unscaled": root,
        "fan_out": width / head_dim,
        "fan_out_unscaled": width / root,
    }
    if scaling not in found:
        raise ValueError(f"scaling {scaling}: must be one of {', '.join(found)}")
    return found[scaling]


def smallest_of_gaussian(n: int, width: int) -> float:
    """exp of the mean log of s_min of an n x width matrix of N(0, 1) entries, n < width (Ma 2012)."""
    long, short = math.sqrt(width - 0.5), math.sqrt(n - 0.5)
    square = (long - short) ** 2
    spread = (1 / short - 1 / long) ** (1 / 3) / (long - short)
    return math.sqrt(square) * math.exp((spread**2 / 8 - spread * TW1_MEAN) / 2)


def largest_of_gaussian(n: int, width: int) -> float:
    """Root of the mean s_max^2 of an n x width matrix of N(0, 1) entries (`wishart_edge`)."""
    return math.sqrt(float(wishart_edge(n, width).place(TW1_MEAN)))


def residual_predictions(
    *,
    n: int,
    width: int,
    head_dim: int,
    skip_scale: float,
    correlation: float = 0.0,
    scaling: str = "standard",
    values: str = "gaussian",
) -> dict[str, Prediction]:
    """Predictions by quantity, medians; bands of 5 % (6 % for s_min over skip s_min(X), the tolerance of a single draw).

    Raises ValueError for a correlation outside [0, 1) or an unknown scaling.
    """
    if not 0 <= correlation < 1:
        raise ValueError(f"correlation {correlation}: must lie in [0, 1); tokens that are all equal have no bulk")
    beta = score_deviation(scaling, width=width, head_dim=head_dim)
    found: dict[str, Prediction] = {"second_over_scores": _second(beta)}
    if values == "opposed":
        if skip_scale > 0:
            found["inverse_condition_number"] = Exact(
                value=0.0, band=(0.0, ROUNDING), source=SOURCE, validity="W_V = -skip_scale I", statistic="median"
            )
        return found
    rows = beta**2 * (1 - correlation)
    hot = f"score deviation {math.sqrt(rows):.3g}: derived for scores up to 1 in deviation; choose another scaling"
    too_hot = hot if rows > 1 + 1e-9 else None
    sizes = f"n = {n}, width = {width}, head_dim = {head_dim}"
    small = f"{sizes}: calibrated from 64, 32 and 16 on" if n < 64 or width < 32 or head_dim < 16 else None
    least = too_hot or _limits_of_smallest(n, width, skip_scale, rows)
    low = skip_scale * math.sqrt(1 - correlation) * smallest_of_gaussian(n, width) if least is None else None
    high = None if too_hot or small else _largest(n, width, head_dim, skip_scale, correlation, beta)
    top_reason = too_hot or small
    found["smallest_singular_value"] = _about(low, 0.05, least or small, "0.05 < n/width <= 0.8, noise <= 0.2")
    found["smallest_over_tokens"] = _about(None if low is None else 1.0, 0.06, least, "noise <= 0.2, n/width <= 0.8")
    found["largest_singular_value"] = _about(high, 0.05, top_reason, "n >= 64, width >= 32, head_dim >= 16, beta <= 1")
    kappa = high / low if low is not None and high is not None else None
    found["condition_number"] = _about(kappa, 0.05, least or top_reason, "ratio of the two edges")
    return found


def _limits_of_smallest(n: int, width: int, skip_scale: float, rows: float) -> str | None:
    if skip_scale == 0:
        return "skip_scale = 0: attention alone has no lower edge; give a skip scale"
    if n > 0.8 * width:
        return f"n = {n}, width = {width}: the lower edge is hard above n = 0.8 width; raise the width"
    noise = (math.expm1(rows) - rows) / (n * skip_scale**2)
    if noise > _NOISE:
        return f"noise {noise:.2g} of attention's own rows: at most {_NOISE}; raise n or the skip scale"
    return None


def _largest(n: int, width: int, head_dim: int, skip_scale: float, correlation: float, beta: float) -> float:
    lengthening = 1 + beta**4 / (2 * head_dim)
    mean = n * (lengthening * (correlation + (1 - correlation) / n) + skip_scale**2 * correlation)  # n |m|^2 / width
    scale, ratio = skip_scale**2 * (1 - correlation), n / width
    if mean <= scale * math.sqrt(ratio):
        return math.sqrt(scale) * largest_of_gaussian(n, width)
    return math.sqrt(width * (scale + mean) * (ratio * scale + mean) / mean)


def _second(beta: float) -> Prediction:
    if beta > 0.25:
        return out_of_range(
            f"score deviation {beta:.3g}: first order in the scores, for 0.25 and less",
            source=SOURCE,
            statistic="median",
        )
    band = absolute_band(1.0, 0.05)
    return Approximation(value=1.0, band=band, source=SOURCE, validity="beta <= 0.25", statistic="median")


def _about(value: float | None, width: float, reason: str | None, validity: str) -> Prediction:
    if value is None or reason:
        return out_of_range(reason or "out of range", source=SOURCE, statistic="median")
    band = relative_band(value, width)
    return Approximation(value=value, band=band, source=SOURCE, validity=validity, statistic="median")

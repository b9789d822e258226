"""Depth under a causal mask without skip: cosines between tokens follow a Matern kernel in the logarithm of position.

Causal averaging C (C_ij = 1/i, j <= i) acts on ln(position) as a convolution with an exponential law, so after L layers
    cos(i, j) = Matern kernel of order L - 1/2 at u = |ln(i/j)|/2:  e^-u,  (1 + u) e^-u,  (1 + u + u^2/3) e^-u, ...
a curve, not a point: positions a fixed ratio apart keep their cosine whatever n. Its mean over pairs of positions is
    sum_(m < L) binom(L - 1, m) m! (2L - 2 - m)!/(2L - 2)! (2/3)^(m + 1) = .6667 .8889 .9383 .9580 ..., 1 - mean ~ 1/(8 L).
The noise of softmax enters in layer 1 only: a factor 1/(1 + sigma^2) there, none later (derived; spectral density
(1/4 + w^2)^-L). Range: 2 L - 1 <= ln n, beyond which the first token takes over: its weight in row i is Q(L, ln i).

Measured (uniform attention, n = 3000): means .6668 .8895 .9408 .9636, cos(n/4, n) .500 .8467 .9279 .9574 for L = 1 ... 4.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special

from rmt.theorems.prediction import Approximation, Prediction, absolute_band, out_of_range

__all__ = ["causal_cosines", "first_token_weight", "matern_cosine", "mean_causal_cosine"]

SOURCE = "derived, see rmt.theorems.causal_depth"
VALIDITY = "no skip, no norm, 2 L - 1 <= ln n, n >= 500, beta <= 1"


def matern_cosine(depth: int, log_ratio: float) -> float:
    """Cosine of two tokens |ln(i/j)| = log_ratio apart after `depth` layers of causal averaging, n -> infinity."""
    u = abs(log_ratio) / 2
    L = depth
    terms = [
        math.exp(
            math.lgamma(L)
            + math.lgamma(2 * L - 1 - m)
            - math.lgamma(L - m)
            - math.lgamma(2 * L - 1)
            - math.lgamma(m + 1)
        )
        * (2 * u) ** m
        for m in range(L)
    ]
    return math.exp(-u) * sum(terms)


def mean_causal_cosine(depth: int) -> float:
    """The mean of `matern_cosine` over pairs of positions, whose log ratio is exponentially distributed."""
    L = depth
    return sum(
        math.comb(L - 1, m)
        * math.exp(math.lgamma(m + 1) + math.lgamma(2 * L - 1 - m) - math.lgamma(2 * L - 1))
        * (2 / 3) ** (m + 1)
        for m in range(L)
    )


def first_token_weight(depth: int, position: float) -> float:
    """Weight of the first token in the average at a position: Q(L, ln i), the upper incomplete gamma function."""
    return float(scipy.special.gammaincc(depth, math.log(position)))


def causal_cosines(n: int, depth: int, variance: float) -> dict[str, dict[int, Prediction]]:
    """token_cosine and quarter_cosine, cos(n/4, n), after each layer; variance sigma^2 = e^(beta^2) - 1.

    Band: 0.02 absolute.
    """
    found: dict[str, dict[int, Prediction]] = {"token_cosine": {}, "quarter_cosine": {}}
    for number in range(1, depth + 1):
        noise = 1 / (1 + variance) if number == 1 else 1.0
        values = {"token_cosine": mean_causal_cosine(number), "quarter_cosine": matern_cosine(number, math.log(4))}
        for name, value in values.items():
            if n < 500 or 2 * number - 1 > np.log(n):
                rule = f"layer {number} at n = {n}: needs n >= 500 and 2 l - 1 <= ln n = {math.log(n):.1f}"
                found[name][number] = out_of_range(rule, source=SOURCE)
            else:
                cosine = noise * value
                found[name][number] = Approximation(
                    value=cosine, band=absolute_band(cosine, 0.02), source=SOURCE, validity=VALIDITY
                )
    return found

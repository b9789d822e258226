"""Single large entries of attention, which at strong logits carry the largest singular values instead of the bulk."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special

from rmt.laws.law import Array
from rmt.laws.lognormal_softmax import effective_variance
from rmt.laws.types import chi_square_types


def large_entry(n: int, head_dim: int, beta: float, rank: int = 1) -> tuple[float, float]:
    """sqrt(n) times the typical rank-th largest entry of A, and the variance sigma_n^2 of the row that has it.

    Queries and keys iid N(0, 1). Given its query, a logit is N(0, beta^2 r), r = |q|^2/d_k, and n A = a = e^(logit - beta^2 r/2);
    a is where n^2 E_r P(n A > a) is the median of Gamma(rank), the number of larger entries being Poisson (derived).
    """
    if not (n >= 2 and head_dim >= 2 and 0 < beta <= 6 and rank >= 1):
        raise ValueError(
            f"n = {n}, head_dim = {head_dim}, beta = {beta}, rank = {rank}: needs n, head_dim >= 2, 0 < beta <= 6, rank >= 1"
        )
    r = chi_square_types(head_dim, n)
    expected = math.log(float(special.gammaincinv(rank, 0.5))) - 2 * math.log(n)
    deviation = beta * np.sqrt(r.values)

    def log_tails(log_entry: float) -> Array:
        return np.asarray(np.log(r.weights) + special.log_ndtr(-log_entry / deviation - deviation / 2))

    level = optimize.brentq(lambda x: special.logsumexp(log_tails(x)) - expected, -40.0, 80.0)
    hottest = float(special.softmax(log_tails(level)) @ r.values)
    size = math.sqrt(n) / (1 + (n - 1) * math.exp(-level))
    return size, float(effective_variance(beta**2 * hottest, n))


def entry_value(n: int, head_dim: int, beta: float, rank: int = 1) -> float:
    """The singular value of sqrt(n) (I - 11^T/n) A that this entry makes by itself, theta + V/theta in noise of variance V.

    theta is the entry above the mean 1/n; for theta^2 <= V it makes none and the edge 2 sqrt(V) is given (derived; rank-one
    perturbation of noise). The larger of this and `KeyQueryLaw.top_value(rank)` is the typical value. Medians of 9 draws over
    that larger one, n = 1500: d_k = 64, beta = 1.5: 1.06, second value 1.08 (bulk alone: 1.26, 1.13; single draws up to 17);
    32, 1.5: 1.08; 64, 1.25: 1.03; n = d_k = 1000, beta = 1: 1.10, second 1.03. Range: beta <= 1.5; low rather than high.
    """
    size, variance = large_entry(n, head_dim, beta, rank)
    theta = max(size - 1 / math.sqrt(n), math.sqrt(variance))
    return theta + variance / theta

"""Attention with QK-norm: queries and keys on a sphere, the cleanest of key-query laws."""

from __future__ import annotations

import math

import numpy as np

from rmt.laws.harmonics import harmonics, log_projection
from rmt.laws.heavy_entries import excess_kurtosis, with_heavy_entries
from rmt.laws.law import Array
from rmt.laws.lognormal_softmax import effective_variance
from rmt.laws.piece_law import PieceLaw
from rmt.laws.pieces import Pieces
from rmt.laws.shared_tokens import DEGREES, degree_weights, sphere_tail


def qk_norm_law(n: int, head_dim: int, beta: float, *, heavy: bool = True) -> PieceLaw:
    """Law of the singular values of sqrt(n) (I - 11^T/n) A, A = softmax(beta sqrt(d_k) u_i.v_j), u, v on the unit sphere.

    That is queries and keys of length sqrt(d_k). Without norms there are no types: degree l is one piece of rank N_l and
    variance N_l b_l(x)^2/b_0(x)^2, x = beta sqrt(d_k), N_l the number of harmonics (derived). Kolmogorov distance at n = 1500:
    d_k = 64, beta = 1: .004, .5: .003; 32, 1: .007; 16, 1: .008, .5: .005; .004-.013 without the correction for heavy entries,
    `heavy`. Range: head_dim >= 8, beta <= 1.5, n >= 300.
    """
    _check(head_dim, beta)
    variance = np.array([beta**2])
    weights, total = degree_weights(variance, float(head_dim))
    rest = np.maximum(total - weights.sum(axis=0), 0.0)
    f = np.vstack([weights, rest]) * effective_variance(variance, n) / np.expm1(variance)
    ranks = np.array([harmonics(degree, head_dim) / n for degree in range(1, DEGREES + 1)] + [np.inf])
    one = np.ones(1)
    pieces = Pieces(f, np.ones_like(f), ranks, one, one)
    if heavy:
        kappa = excess_kurtosis(variance, n, sphere_tail(variance, float(head_dim)))
        pieces = with_heavy_entries(pieces, kappa, kappa, n=n)
    return PieceLaw(pieces, n)


def qk_norm_variance(head_dim: int, beta: float) -> float:
    """sigma^2 of the weights for n -> infinity: b_0(2 x)/b_0(x)^2 - 1, x = beta sqrt(d_k); exact."""
    _check(head_dim, beta)
    return float(degree_weights(np.array([beta**2]), float(head_dim))[1][0])


def funk_hecke_values(head_dim: int, beta: float, count: int) -> Array:
    """The first `count` singular values of A for n -> infinity: b_l(x)/b_0(x) = I_(nu+l)(x)/I_nu(x), nu = d_k/2 - 1.

    Degree l = 0, 1, 2, ... has multiplicity 1, d_k, ...: s_1 = 1 exactly, without a column effect (Funk-Hecke; exact).
    """
    _check(head_dim, beta)
    x = beta * math.sqrt(head_dim)
    values: list[float] = []
    degree = 0
    while len(values) < count:
        ratio = math.exp(float(log_projection(degree, x, head_dim) - log_projection(0, x, head_dim)))
        values += [ratio] * min(round(harmonics(degree, head_dim)), count - len(values))
        degree += 1
    return np.array(values)


def _check(head_dim: int, beta: float) -> None:
    if head_dim < 2 or not 0 < beta <= 6:
        raise ValueError(f"head_dim = {head_dim}, beta = {beta}: needs head_dim >= 2 and 0 < beta <= 6")

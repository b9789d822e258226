"""What rotary positions do to the canonical scales of shared tokens: turning averages the Gram matrices of the weights."""

from __future__ import annotations

import math

import numpy as np

from rmt.laws.law import Array
from rmt.laws.token_scales import Scales, scale_density

ROPE_BASE = 10000.0
_POINTS = 1000


def rotary_scales(
    n: int, width: float, head_dim: int, *, sphere: float | None = None, base: float = ROPE_BASE
) -> Scales:
    """Typical scales of n tokens whose queries and keys are turned, pair a of head_dim/2 by i theta_a, theta_a = base^(-2a/d_k).

    Query i turned is R_i^T W_Q^T x_i. Over all rows its Gram matrix is the mean of R_i^T S_Q R_i: an entry between pairs a and b
    keeps D(theta_a - theta_b) and D(theta_a + theta_b) of its two parts, D(t) = |sin(n t/2)/(n sin(t/2))|. Fast pairs lose their
    anisotropy, slow ones, n theta < 1, keep it. Direction a then has the fluctuation of a Wishart matrix of ratio
        c_a = (d_k/width) eta_a,   eta_a = (1/d_k) sum_b [D(theta_a - theta_b)^2 + D(theta_a + theta_b)^2],
    and the law of tau^2 is the mixture over a of the laws of `typical_scales` of ratio c_a (derived; exact in E tau^4, and where
    pairs either turn fully or not at all). Quantiles against weights drawn, 20 draws, (n, width, d_k) = (512, 256, 64),
    (1024, 512, 64), (512, 128, 32), (2048, 1024, 128): within 4 % from the least to the largest, which comes out 1 to 4 % low.
    Raises ValueError for an odd head_dim or a head wider than the tokens.
    """
    if head_dim % 2 or not 0 < head_dim <= width:
        raise ValueError(f"width = {width}, head_dim = {head_dim}: RoPE needs an even head_dim of at most the width")
    theta = rotary_angles(head_dim, base=base)
    kept = kept_by_turning(n, theta[:, None] - theta) ** 2 + kept_by_turning(n, theta[:, None] + theta) ** 2
    ratios = kept.sum(axis=1) / width  # d_k/width times eta
    most = float(ratios.max())
    s = np.linspace(1e-4, 1.0, 2001)[1:] / math.sqrt(most)
    high = float(np.min((1 + s) * (1 + most * s) ** 2 / s))
    z = high * np.sin(np.linspace(0.0, math.pi / 2, _POINTS + 2)[1:-1]) ** 2
    density = np.sum([scale_density(z, float(ratio)) for ratio in ratios], axis=0)
    cdf = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(z))])
    squares = np.interp((np.arange(head_dim) + 0.5) / head_dim, cdf / cdf[-1], z)
    return Scales(squares / squares.mean(), 1.0, sphere)


def rotary_angles(head_dim: int, *, base: float = ROPE_BASE) -> Array:
    """By how much a step turns each pair, (head_dim/2,)."""
    return np.asarray(base ** (-2 * np.arange(head_dim // 2) / head_dim))


def kept_by_turning(n: int, angle: Array) -> Array:
    """D, the modulus of the mean of n unit vectors, each turned by `angle` against the one before."""
    half = np.asarray(angle) / 2
    small = np.abs(np.sin(half)) < 1e-9
    return np.where(small, 1.0, np.abs(np.sin(n * half) / (n * np.where(small, 1.0, np.sin(half)))))


def coherent_share(n: int, head_dim: int, *, base: float = ROPE_BASE) -> float:
    """The share of the energy of the mean of n turned keys that is left of the keys: the mean of D(theta_a)^2 over pairs."""
    return float(np.mean(kept_by_turning(n, rotary_angles(head_dim, base=base)) ** 2))


def rotary_types(scales: Scales, width: float) -> float:
    """d_e of turned tokens: q_i^T G_K q_i/d_k, the variance of a row's logits, has the law chi^2_(d_e)/d_e.

    The Gram matrix G_K of all turned keys has lost anisotropy, that of query i has not: with E tau^4 = 1 + 2 c eta,
    c = d_k/width, 1/d_e = (1 + c + c eta)/d_k, less 1/D on a sphere of D dimensions (derived); `Scales.effective_dimension` of
    the scales, which has 2 c eta for c + c eta, would put the column effect of A 15 % too low at width = 4 d_k.
    """
    head_dim = scales.squares.size
    lost = (float(np.mean(scales.squares**2)) - 1) / 2
    return 1 / ((1 + head_dim / width + lost) / head_dim - (1 / scales.sphere if scales.sphere else 0.0))

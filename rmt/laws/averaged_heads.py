"""The average of several attention heads, (1/h) sum_h A_h."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.laws.harmonics import monomials
from rmt.laws.heavy_entries import excess_kurtosis, with_heavy_entries
from rmt.laws.law import Array
from rmt.laws.lognormal_softmax import effective_variance
from rmt.laws.piece_law import PieceLaw
from rmt.laws.pieces import Pieces
from rmt.laws.shared_tokens import DEGREES, conditional_energies, degree_weights, sphere_tail
from rmt.laws.token_scales import Scales, scales_of, typical_scales
from rmt.laws.types import chi_square_types

_BINS = 32


@dataclass(frozen=True, eq=False)
class HeadSet:
    """What h heads share.

    single: scales of one head; joint: scales of the average of their bilinear forms, a single head of inner width up to
    h d_k, with types of rows and columns narrower than those of one head; its mean is that of the heads.
    """

    heads: int
    single: Scales
    joint: Scales


def independent_heads(heads: int, head_dim: int) -> HeadSet:
    """Heads whose queries and keys are all independent, iid N(0, 1)."""
    return HeadSet(heads, Scales(np.ones(head_dim), 1.0), Scales(np.ones(heads * head_dim), 1.0))


def typical_heads(heads: int, head_dim: int, width: float, *, sphere: float | None = None) -> HeadSet:
    """Heads that look at the same tokens, weights iid of variance 1/width; needs heads * head_dim <= width."""
    single, joint = (typical_scales(width, inner, sphere=sphere) for inner in (head_dim, heads * head_dim))
    return HeadSet(heads, single, joint)


def heads_of(queries: Array, keys: Array, *, covariance: Array | None = None, sphere: float | None = None) -> HeadSet:
    """Heads of given weights, both (heads, width, head_dim), over shared tokens of the given covariance."""
    heads, width, head_dim = queries.shape
    middle = np.eye(width) if covariance is None else covariance
    mixed = sum(q @ k.T for q, k in zip(queries, keys, strict=True))
    squares = np.linalg.eigvals(middle @ mixed @ middle @ mixed.T).real
    squares = np.sort(squares)[::-1][: min(width, heads * head_dim)]
    singles = [scales_of(q, k, covariance=middle, sphere=sphere) for q, k in zip(queries, keys, strict=True)]
    mean = float(np.mean([one.mean for one in singles]))
    typical = min(singles, key=lambda scales: abs(scales.mean - mean))
    return HeadSet(heads, typical, Scales(np.maximum(squares / squares.mean(), 0.0), mean, sphere))


def averaged_heads_law(n: int, beta: float, heads: HeadSet) -> PieceLaw:
    """Law of the singular values of sqrt(n) (I - 11^T/n) (1/h) sum_h A_h over n tokens, logit deviation beta per head.

    Derivation (heuristic): independent features add variances over h^2 and, from degree 2 on, ranks times h. Degree 1 is that of
    one head of inner width h d_k, (1/h) sum_h W_Q^h W_K^hT: its types, its scales and the tilt of a row of large r towards
    directions of large scale are those of `rmt.laws.shared_tokens`; higher degrees are given the same types. Heavy entries
    are h times rarer.

    Kolmogorov distance at n = 1500, d_k = 64, mean of 2-3 draws: independent, beta = 1, h = 4: .010, 8: .008, .5, 4: .006; layer
    norm, beta = 1: d = 256, h = 4: .007; d = 512, h = 8: .005 (.5: .005); d = 768, h = 12: .005, at n = 512 .006. Published
    without the tilt, with the narrower types of the average row variance: .022, .016, .011, .012, .015; one head scaled by
    h^(-1/2): .06-.14. Leading values within 1.5 % (independent), 3 % (shared, low). Range: head_dim >= 32, beta <= 1, n >= 500.
    """
    if not (n >= 2 and 0 < beta <= 6):
        raise ValueError(f"n = {n}, beta = {beta}: needs n >= 2 and 0 < beta <= 6")
    h, sphere, b = heads.heads, heads.single.sphere, beta**2 * heads.joint.mean
    single = chi_square_types(heads.single.effective_dimension, n)
    weights, total = degree_weights(b * single.values, sphere)
    weights = np.vstack([weights, np.maximum(total - weights.sum(axis=0), 0.0)])
    weights = weights * effective_variance(b * single.values, n) / np.expm1(b * single.values)
    means = single.mean(weights) / h
    types = chi_square_types(heads.joint.effective_dimension, n)
    key_factor = np.exp(b * (types.values - 1))
    along = heads.joint.squares[:, None] * conditional_energies(heads.joint, types.values) / heads.joint.squares.size
    parts = np.array_split(np.argsort(heads.joint.squares), min(_BINS, along.shape[0]))
    profiles = [along[part].sum(axis=0) for part in parts]
    f = [means[0] * profile / types.mean(along.sum(axis=0)) for profile in profiles]
    g = [profile * key_factor for profile in profiles]
    ranks = [part.size / n for part in parts]
    for degree in range(2, DEGREES + 2):
        row = types.values**degree
        f.append(means[degree - 1] * row / types.mean(row))
        g.append(row * key_factor)
        last = degree == DEGREES + 1
        ranks.append(np.inf if last else h * monomials(degree, heads.single.squares.size) / n)
    columns = [profile / types.mean(profile) for profile in g]
    pieces = Pieces(np.array(f), np.array(columns), np.array(ranks), types.weights, types.weights)
    kappa = excess_kurtosis(b * types.values, n, sphere_tail(b * types.values, sphere))
    return PieceLaw(with_heavy_entries(pieces, kappa, kappa, n=h * n, linear=len(parts)), n)

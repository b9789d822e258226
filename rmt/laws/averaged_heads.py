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
from rmt.laws.shared_tokens import DEGREES, degree_weights, sphere_tail
from rmt.laws.token_scales import Scales, scales_of, typical_scales
from rmt.laws.types import chi_square_types

_BINS = 32


@dataclass(frozen=True, eq=False)
class HeadSet:
    """What h heads share.

    single: scales of one head; joint: scales of the average of their bilinear forms, a single head of inner width up to
    h d_k; degrees: the types of rows and columns have the law chi^2_k/k, k = degrees, narrower than those of one head.
    """

    heads: int
    single: Scales
    joint: Scales
    degrees: float


def independent_heads(heads: int, head_dim: int) -> HeadSet:
    """Heads whose queries and keys are all independent, iid N(0, 1)."""
    return HeadSet(
        heads, Scales(np.ones(head_dim), 1.0), Scales(np.ones(heads * head_dim), 1.0), float(heads * head_dim)
    )


def typical_heads(heads: int, head_dim: int, width: float, *, sphere: float | None = None) -> HeadSet:
    """Heads that look at the same tokens, weights iid of variance 1/width; needs heads * head_dim <= width.

    Row variance r = x^T B x, B = (1/h) sum_h W_Q W_K^T W_K W_Q^T/d_k, tr B = 1, and for free heads
    tr B^2 = (1 + 2 d_k/d)/(h d_k) + (1 - 1/h)/d: r has variance 2 (tr B^2 - 1/D), D = infinity for Gaussian tokens.
    """
    joint = typical_scales(width, heads * head_dim, sphere=sphere)
    square = (1 + 2 * head_dim / width) / (heads * head_dim) + (1 - 1 / heads) / width
    single = typical_scales(width, head_dim, sphere=sphere)
    return HeadSet(heads, single, joint, 1 / (square - (1 / sphere if sphere else 0.0)))


def heads_of(queries: Array, keys: Array, *, covariance: Array | None = None, sphere: float | None = None) -> HeadSet:
    """Heads of given weights, both (heads, width, head_dim), over shared tokens of the given covariance."""
    heads, width, head_dim = queries.shape
    middle = np.eye(width) if covariance is None else covariance
    forms = [q @ k.T for q, k in zip(queries, keys, strict=True)]
    rows = sum(form @ middle @ form.T for form in forms) / (heads * head_dim)
    square, total = float(np.sum((middle @ rows) * (middle @ rows).T)), float(np.trace(middle @ rows))
    degrees = total**2 / (square - (total**2 / sphere if sphere else 0.0))
    mixed = sum(forms)
    squares = np.linalg.eigvals(middle @ mixed @ middle @ mixed.T).real
    squares = np.sort(squares)[::-1][: min(width, heads * head_dim)]
    singles = [scales_of(q, k, covariance=middle, sphere=sphere) for q, k in zip(queries, keys, strict=True)]
    typical = min(singles, key=lambda scales: abs(scales.mean - np.mean([one.mean for one in singles])))
    return HeadSet(heads, typical, Scales(np.maximum(squares / squares.mean(), 0.0), total, sphere), degrees)


def averaged_heads_law(n: int, beta: float, heads: HeadSet) -> PieceLaw:
    """Law of the singular values of sqrt(n) (I - 11^T/n) (1/h) sum_h A_h over n tokens, logit deviation beta per head.

    Derivation (heuristic): independent features add variances over h^2 and, from degree 2 on, ranks times h; degree 1 is one
    head of inner width h d_k; types average over heads, and heavy entries are h times rarer. Types and directions of
    degree one are not coupled here. Kolmogorov distance at n = 1500: independent, d_k = 64, beta = 1, h = 4: .012, 8: .009;
    layer norm, d = 256, h = 4, beta = 1: .022; d = 512, h = 8: .016 (.5: .011); d = 768, h = 12: .012, at n = 512 .015 (one head
    scaled by h^(-1/2): .06-.14). Leading values within 1.5 % (independent), 5 % (shared, low). Range: head_dim >= 32,
    beta <= 1, n >= 500.
    """
    if not (n >= 2 and 0 < beta <= 6):
        raise ValueError(f"n = {n}, beta = {beta}: needs n >= 2 and 0 < beta <= 6")
    h, sphere, b = heads.heads, heads.single.sphere, beta**2 * heads.joint.mean
    single = chi_square_types(heads.single.effective_dimension, n)
    weights, total = degree_weights(b * single.values, sphere)
    weights = np.vstack([weights, np.maximum(total - weights.sum(axis=0), 0.0)])
    weights = weights * effective_variance(b * single.values, n) / np.expm1(b * single.values)
    means = single.mean(weights) / h
    types = chi_square_types(heads.degrees, n)
    squares = np.sort(heads.joint.squares)
    f, g, ranks = [], [], []
    for degree in range(1, DEGREES + 2):
        row = types.values**degree
        column = row * np.exp(b * (types.values - 1))
        row, column = means[degree - 1] * row / types.mean(row), column / types.mean(column)
        if degree == 1:
            for part in np.array_split(squares, min(_BINS, squares.size)):
                f.append(row * part.sum() / squares.size)
                g.append(column)
                ranks.append(part.size / n)
        else:
            f.append(row)
            g.append(column)
            last = degree == DEGREES + 1
            ranks.append(np.inf if last else h * monomials(degree, heads.single.squares.size) / n)
    pieces = Pieces(np.array(f), np.array(g), np.array(ranks), types.weights, types.weights)
    kappa = excess_kurtosis(b * types.values, n, sphere_tail(b * types.values, sphere))
    return PieceLaw(with_heavy_entries(pieces, kappa, kappa, n=h * n, linear=len(f) - DEGREES), n)

"""Limits: what the numbers of one attention layer tend to as n grows, how fast, and how that is seen.

Every other prediction is for a finite n; these are the statements they rest on. A measured quantity, scaled by a power of
n, tends to a value and |mean - value| ~ size^-exponent (`Limit`), where the size is n or a logarithm. Widths grow in
proportion to n. Exponent 1 comes from the normaliser of a row or from a trace, 2/3 from the Tracy-Widom mean of an edge,
1/2 from the largest of d_k eigenvalues that fluctuate like n^-1/2, 2 along ln n from a phase that is quantised.

Exponents fitted to the measured deviations at 5 to 9 sizes between 16 and 2048, next term included, 95 % intervals:

    iid, sigma = 1 (lognormal; tokens, edge: light weights)    ||A||_F^2 0.92-1.08, n (s_1^2 - 1) 0.79-1.04,
        sqrt(n) s_2 0.50-0.67, rank/n removed 0.53-0.71, cosine 0.76-1.00, stable rank of tokens 0.78-1.10
    key-query, d_k = 8, 16     s_1^2 0.91-1.17, s_2 0.44-0.57, ||A||_F^2 0.88-1.07, stable rank of A 0.82-1.03
    QK-norm, d_k = 8           s_1^2 0.90-1.12, s_2 0.48-0.64
    causal mean                1/s_1^2 - 1/4 1.77-2.27 along ln n, rows normalised 0.99-1.01, cosine 0.97-1.02

Not resolved: the kept excess n (rank - 1), whose terms of order 1/n nearly cancel (0.7-3.2), and the largest eigenvalue
modulus, whose logarithms hide its power (slopes 0.1-0.4 between 16 and 256).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmt.laws.averages import bessel_ladder
from rmt.laws.hermite import mehler_singular_values
from rmt.laws.normalised_heads import funk_hecke_values
from rmt.theorems.causal_depth import mean_causal_cosine
from rmt.theorems.layer import layer
from rmt.theorems.prediction import Limit
from rmt.theorems.width import OneLayer

SOURCE = "nait-saada2024; derived, see rmt.theorems.limits"
LADDER_SHIFT = float(np.euler_gamma) + 6 * math.log(2)
OF_TOKENS = {"token_cosine", "token_stable_rank", "gram_stable_rank_excess", "gram_stable_rank"}
OF_EDGES = {"second_singular_value", "second_eigenvalue_modulus", "gram_stable_rank"}
LIGHT_VARIANCE = {"exponential": 1.0, "gamma": 0.5, "uniform": 1 / 3}


@dataclass(frozen=True)
class Tends:
    """A measured quantity, its scaled form, and the limit of that.

    name: of the scaled form, in symbols. scaled(n, draws): from draws of `quantity` to draws of what tends.
    size(n): what the deviation is a power of, the size that `limit.along` names.
    """

    name: str
    quantity: str
    limit: Limit
    scaled: Callable[[int, Any], Any] = lambda n, x: x
    size: Callable[[int], float] = float


def iid_limits(variance: float) -> tuple[Tends, ...]:
    """A of iid weights with (sd/mean)^2 = sigma^2 = `variance`, and tokens A V, V Gaussian, independent of A.

    sigma_n^2 = n E sum_j A_ij^2 - 1 = sigma^2 + O(1/n), exact by the row (`rmt.laws.lognormal_softmax`), so
        ||A||_F^2 - 1 -> sigma^2,  n (s_1^2 - 1) -> sigma^2 (E |A^T u|^2 = 1 + sigma_n^2/n),  cosine -> 1/(1 + sigma^2).
    In units of the mean row the tokens have s_1^2 -> 1 and sum s^2 -> 1 + sigma^2: the stable rank of A V tends to
    1 + sigma^2, not to one. The edge comes from below by the mean of Tracy-Widom, 0.76 sigma n^(-2/3), with a next term
    O(1/n) that grows with the kurtosis of the weights (`rmt.theorems.edge_fluctuations`). Eigenvalues: circular law, from
    above like sqrt(ln n/(4 n)) (Rider and Sinclair), which is no power at any size that can be computed.
    """
    usual = "iid weights with four moments; lognormal: sizes at which the largest entry stays inside the bulk"
    return (
        Tends("||A||_F^2 - 1", "frobenius_norm_squared", _limit(variance, 1, usual), lambda n, x: x - 1),
        Tends("n (s_1^2 - 1)", "top_singular_value", _limit(variance, 1, usual), lambda n, x: n * (x**2 - 1)),
        Tends(
            "sqrt(n) s_2",
            "second_singular_value",
            _limit(2 * math.sqrt(variance), 2 / 3, usual, correction=1 / 3),
            lambda n, x: math.sqrt(n) * x,
        ),
        Tends(
            "sqrt(n) |lambda_2|",
            "second_eigenvalue_modulus",
            _limit(math.sqrt(variance), 0.5, f"{usual}; rate up to logarithms", source="bordenave2012, rider2014"),
            lambda n, x: math.sqrt(n) * x,
        ),
        Tends("cosine of tokens", "token_cosine", _limit(1 / (1 + variance), 1, usual)),
        Tends("stable rank of tokens", "token_stable_rank", _limit(1 + variance, 1, usual)),
    )


def rank_limits(variance: float, *, layers: int = 1, ratio: float = 1.0) -> tuple[Tends, ...]:
    """Gram stable rank after `layers` iid layers, orthonormal tokens of width n/ratio: excess kept, share of n removed.

    Kept: n^(2l-1) (rank - 1) -> sigma^(4l) (1 + l (1 + ratio)). Removed: rank/n -> (1 + l (1 + ratio))/lambda_+^2, with
    lambda_+ the edge of the product of l square and l rectangular Gaussian factors, approached like Tracy-Widom.
    """
    power = "n" if layers == 1 else f"n^{2 * layers - 1}"
    fourth, usual = 1 + layers * (1 + ratio), "iid weights with four moments, orthonormal tokens, linear network"
    kept = _limit(variance ** (2 * layers) * fourth, 1, usual)
    removed = _limit(fourth / product_edge(layers, ratio) ** 2, 2 / 3, usual, correction=1 / 3)
    return (
        Tends(f"{power} (rank - 1)", "gram_stable_rank_excess", kept, lambda n, x: float(n) ** (2 * layers - 1) * x),
        Tends("rank/n without the outlier", "gram_stable_rank", removed, lambda n, x: x / n),
    )


def product_edge(layers: int, ratio: float) -> float:
    """lambda_+ of `layers` square Gaussian factors and as many of width n/ratio: S-transform (1+s)^-l (1 + ratio s)^-l.

    (1+s)^(l+1) (1 + ratio s)^l/s at the positive root of 2 l ratio s^2 + (l + (l-1) ratio) s = 1. ratio 1: Fuss-Catalan of
    order 2l; ratio 0: of order l. Range: layers >= 1, ratio >= 0.
    """
    if not (layers >= 1 and ratio >= 0):
        raise ValueError(f"layers = {layers}, ratio = {ratio}: needs at least one layer and a ratio >= 0")
    linear = layers + (layers - 1) * ratio
    s = 2 / (linear + math.sqrt(linear**2 + 8 * layers * ratio))
    return (1 + s) ** (layers + 1) * (1 + ratio * s) ** layers / s


def keyquery_limits(beta: float, head_dim: int) -> tuple[Tends, ...]:
    """A of independent Gaussian queries and keys of fixed width d_k: the integral operator with kernel e^(q.k) (Mehler).

    s = beta^2/d_k < 1/2, r = (1 - sqrt(1 - 4 s^2))/(2 s), lambda_0 = (1 - r)/sqrt(1 - 2 s): s_1 -> lambda_0^(d_k/2),
    s_2 -> s_1 sqrt(r), d_k times: the gap does not open. ||A||_F^2 -> (1 - 2 s)^(-d_k/2), so the stable rank of A tends to
    (1 - r)^-d_k (and that of A A^T to (1 - r^2)^-d_k). s_2 is the largest of d_k values spread by the sampling of the
    d_k x d_k Gram matrices of queries and keys, hence n^-1/2; the others are traces. Seen for n >> d_k.
    """
    first, second = mehler_singular_values(beta, head_dim, 2)
    norm = _norm(beta, head_dim)
    usual = "independent Gaussian queries and keys of fixed width, beta^2/d_k < 1/2, n >> d_k"
    return (
        Tends("s_1^2", "top_singular_value", _limit(first**2, 1, usual), lambda n, x: x**2),
        Tends("s_2", "second_singular_value", _limit(second, 0.5, usual, correction=0.5)),
        Tends("||A||_F^2", "frobenius_norm_squared", _limit(norm, 1, usual)),
        Tends("stable rank of A", "attention_stable_rank", _limit(norm / first**2, 1, usual)),
    )


def qk_norm_limits(beta: float, head_dim: int) -> tuple[Tends, ...]:
    """Queries and keys on the sphere, logits beta sqrt(d_k) cos: s_1 -> 1, s_2 -> I_(d_k/2)/I_(d_k/2-1) (Funk-Hecke)."""
    second = float(funk_hecke_values(head_dim, beta, 2)[1])
    usual = "independent isotropic queries and keys on the sphere of fixed dimension, n >> d_k"
    return (
        Tends("s_1^2", "top_singular_value", _limit(1.0, 1, usual), lambda n, x: x**2),
        Tends("s_2", "second_singular_value", _limit(second, 0.5, usual, correction=0.5)),
    )


def causal_limits(rank: int = 1) -> tuple[Tends, ...]:
    """The causal mean C (beta = 0): its ladder, the same with normalised rows, and the cosine of averaged tokens.

    s_k -> 2, with w_k^2 = 1/s_k^2 - 1/4 ~ (k pi)^2/(ln n + gamma_E + 6 ln 2)^2: the phase condition of `rmt.laws.averages`
    at small w, next term smaller by the cube of that length. So s_k = 2 - 4 (k pi)^2/(ln n + 4.74)^2: logarithmic.
    Normalised rows (layer norm after attention): s_k/sqrt(n) -> 2/j_(0,k), a kernel on [0, 1] sampled at n points. Mean
    cosine over pairs of positions: 2/3 + 1/(3 n) + O(n^-3/2) (Euler and Maclaurin). Noise divides the last two by powers of
    1 + sigma^2 and lengthens the first (`rmt.theorems.causal_ladder`).
    """
    long = Limit(
        value=0.0,
        along="ln n + 4.74",
        exponent=2.0,
        correction=3.0,
        source="derived, see rmt.laws.averages",
        validity="uniform causal attention; iid noise adds .75 beta^2 + .25 beta^4 to the length",
    )
    bessel, usual = float(bessel_ladder(rank)[-1]), "uniform causal attention"
    return (
        Tends(
            f"1/s_{rank}^2 - 1/4",
            "singular_value",
            long,
            lambda n, x: x[..., rank - 1] ** -2.0 - 0.25,
            lambda n: math.log(n) + LADDER_SHIFT,
        ),
        Tends(
            f"s_{rank}/sqrt(n), rows normalised",
            "normalised_singular_value",
            _limit(bessel, 1, usual),
            lambda n, x: x[..., rank - 1] / math.sqrt(n),
        ),
        Tends("cosine of tokens", "token_cosine", _limit(mean_causal_cosine(1), 1, usual, correction=0.5)),
    )


def layer_limits(one: OneLayer) -> tuple[Tends, ...]:
    """The limits of what width_collapse measures of this layer, as n grows from its n; empty where none is stated.

    Left out is what is not on its way yet at this n: everything where sigma_n^2 is more than 10 % away from its limit,
    the edge of iid logits as long as single entries stand outside the bulk, tokens whose width does not grow with n.
    """
    if one.mask == "causal" and one.beta == 0 and one.variant == "plain" and not one.options:
        return causal_limits(1)[:1]
    unusual = one.unknown() or one.options or one.shared or one.position != "none" or one.attention != "softmax"
    if unusual or one.mask != "none" or one.variant not in ("plain", "outlier_removed") or one.n < 2:
        return ()
    beta = 0.0 if one.light else float(one.beta or 0)
    model = layer(one.n, beta, one.keys, one.light)
    if one.model == "keyquery":
        keys = one.keys or 64
        known = one.variant == "plain" and 0 < beta**2 < keys / 2
        return keyquery_limits(beta, keys) if known and _near(model.variance, _norm(beta, keys) - 1) else ()
    variance = LIGHT_VARIANCE[one.light.name] if one.light else math.expm1(beta**2)
    if not _near(model.variance, variance):
        return ()
    found = rank_limits(variance, ratio=one.n / one.value_width) if one.tokens == "orthonormal" else ()
    found = (*iid_limits(variance), *found[:1]) if one.variant == "plain" else found[1:]
    growing = one.unknown_tokens() is None and one.heads == 1 and min(one.widths) >= one.n
    inside = model.largest_entry < math.sqrt(variance)
    left_out = (set() if growing else OF_TOKENS) | (set() if inside else OF_EDGES)
    return tuple(tends for tends in found if tends.quantity not in left_out)


def _near(variance: float, limit: float) -> bool:
    return abs(variance - limit) < 0.1 * limit


def _norm(beta: float, head_dim: int) -> float:
    """The limit of ||A||_F^2 with key-query logits."""
    return (1 - 2 * beta**2 / head_dim) ** (-head_dim / 2)


def _limit(
    value: float, exponent: float, validity: str, *, correction: float | None = 1.0, source: str = SOURCE
) -> Limit:
    return Limit(value=value, exponent=exponent, correction=correction, validity=validity, source=source)

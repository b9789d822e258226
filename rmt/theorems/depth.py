"""Predictions along depth: ranks, cosine and residual of tokens after 1, 2, ... layers of softmax attention."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.special

from rmt.laws.hermite import TW1_MEAN
from rmt.theorems.causal_depth import causal_cosines
from rmt.theorems.cosines import cosines_along_depth
from rmt.theorems.layer import Layer, layer
from rmt.theorems.moments import moments_along_depth
from rmt.theorems.prediction import Approximation, Prediction, absolute_band, out_of_range, relative_band
from rmt.theorems.tail_moments import TailMoments, tail_along_depth

__all__ = ["Along", "depth_predictions"]

Along = dict[str, Any]  # {quantity: {layer: Prediction}}, or a Prediction of the whole depth
SOURCE = "nait-saada2024; derived, see rmt.theorems.depth"
SMALLEST = 1e-300
VALIDITY = "iid logits, n >= 100, width >= 64, beta <= 0.9, 8 depth/width <= 1/4"


def depth_predictions(
    *,
    model: str,
    n: int,
    width: int,
    value_width: int,
    beta: float,
    head_dim: int | None,
    depth: int,
    variant: str,
    heads: int = 1,
    mask: str = "none",
    tokens: str = "orthonormal",
    skip: float | None = None,
    norm: str = "none",
    exact: bool = True,
    eta: float = 0.0,
) -> Along:
    """Predictions by quantity and layer (collapse_depth_bf16: one for all layers), {} where there is no theory.

    exact: tokens are not rounded between layers. variant: "plain", "outlier_removed", or "outlier_scaled", A - (1 - eta)
    11^T/n, of which the two are the ends.

    Kept (variant "plain"), no skip, no norm (derived). s_1^2 = n |m|^2 is |P^T u|^2 prod chi^2_d/d, |P^T u|^2 = 1 +
    sigma_n^2/n + column effect, and the tail has the moments of `tail_moments`, so with inverse moments of chi^2
        E gram excess = E t_2 prod d^2/((d - 2)(d - 4)) / |P^T u|^4 ~ sigma^(4l) n^(1-2l) (1 + l (1 + n/d)),
    a lognormal-like variable of relative deviation sqrt(8 l/d). The layer-1 exponent is -1, then -3, -5, ...
    With a share eta of the outlier left, every factor of s_1^2 but the noise sigma_n^2/n carries eta^2: the excess grows
    like eta^(-4l), as long as the outlier leads.
    Removed ("outlier_removed"): l attention and l value factors, so z^2 of the quarter circle is multiplied by
    (1 + g R)^(l-1) (1 + (n/d) g R)^l; its end, moved by Tracy-Widom, is s_1^2, and sum s^4 the same moments:
        gram stable rank/n -> (1 + l (1 + n/d))/lambda_+^2,  for n = d: .0658 .0336 .0225 .0169 (l = 1 ... 4).
    Cosine: `cosines`, with skips and norms, and `causal_depth` under a causal mask. Residual: exact second moments
    (`moments`), as a ratio of expectations.

    Measured over predicted, iid, beta = 0.8326, n = d, layers 1 to 4, 32 draws (standard errors 0.02 to 0.06): excess,
    n = 400 1.02 1.00 1.02 1.07; removed Gram rank, n = 200 0.97 0.93 0.98 0.99, n = 400 0.95 0.97 0.98 0.98; token rank
    0.97 to 0.99; effective rank 0.96 to 0.99. Key-query logits (d_k = 64, n = 200, 48 draws): excess 1.04 1.00 1.05 0.98.
    Narrow values, beta = .3, 96 draws, removed Gram rank of layers 1 and 2: width 64, n = 100 to 200 1.08 to 1.10 and 1.15 to
    1.18; width 100 and 128, n = 100 to 256 1.04 to 1.06 and 1.04 to 1.10 (errors 0.015).
    Bands: 15 % (excess) and 10 % (removed rank; 25 % below width 100) at layers 1 and 2, beyond them at least sqrt(8 l/d).
    """
    shares = {"plain": 1.0, "outlier_removed": 0.0, "outlier_scaled": eta}
    if variant not in shares or n < 3 or model == "own" or tokens not in ("orthonormal", "gaussian"):
        return {}
    if mask == "causal" and norm == "none" and skip is None and variant == "plain":
        return dict(causal_cosines(n, depth, math.expm1(beta**2))) if beta <= 1 else {}
    if mask != "none" or beta == 0:
        return {}
    share = shares[variant]
    gaussian = tokens == "gaussian"
    names = ["token_cosine", *(["rank_one_residual"] if norm == "none" and exact else [])]
    linear = skip is None and norm == "none" and heads == 1 and value_width == width and exact
    if linear and share > 0:
        names += ["gram_stable_rank", "gram_stable_rank_excess", "log_gram_stable_rank_excess", "token_stable_rank"]
    if linear and share == 0:
        names += ["gram_stable_rank", "token_stable_rank", "effective_rank"]
    one = layer(n, float(beta), head_dim if model == "keyquery" else None)
    reason = _limits(one, width)
    if reason:
        gone = out_of_range(reason, source=SOURCE)
        return {name: dict.fromkeys(range(1, depth + 1), gone) for name in names}
    found: Along = {"token_cosine": _cosines(one, width, depth, skip, norm, 1 - share)}
    found |= _collapse(found["token_cosine"])
    if "rank_one_residual" in names:
        states = moments_along_depth(n, one.variance, depth, skip=skip, removed=1 - share)
        apart = {number: _about(math.sqrt(max(state.residual, 0.0)), 0.05) for number, state in enumerate(states)}
        found["rank_one_residual"] = {number: apart[number] for number in range(1, depth + 1)}
    if linear and share > 0:
        found |= _kept(one, width, depth, gaussian, share)
    if linear and share == 0:
        found |= _removed(one, width, depth, gaussian)
    return found


def _limits(one: Layer, width: int) -> str | None:
    if one.n < 100 or width < 64:
        return f"n = {one.n}, width = {width}: calibrated for n >= 100, width >= 64"
    if one.beta > 0.9:
        return f"beta = {one.beta:g}: above 0.9 single entries carry the rank of the rest; lower beta"
    return one.limits() if one.n >= 200 or one.head_dim is not None else None


def _too_deep(number: int, width: int) -> str | None:
    if 8 * number / width > 0.25:
        return f"layer {number} of width {width}: ranks scatter by sqrt(8 l/d) > 1/2 and their means are not seen"
    return None


def _kept(one: Layer, width: int, depth: int, gaussian: bool, eta: float) -> Along:
    tails = tail_along_depth(one.n, width, one.variance, one.fourth_moment, depth, gaussian=gaussian)
    edge = math.sqrt(one.law.edge(factors=[one.n / width]).square / one.n)
    names = ("gram_stable_rank", "gram_stable_rank_excess", "log_gram_stable_rank_excess", "token_stable_rank")
    found: Along = {name: {} for name in names}
    inverse = width / (width - 2)
    inverse_square = width**2 / ((width - 2) * (width - 4))
    log_length = float(scipy.special.digamma(width / 2) - math.log(width / 2))
    for number, tail in enumerate(tails, start=1):
        lengths = number + gaussian  # factors chi^2_d/d of s_1^2
        scatter = math.sqrt(8 * lengths / width)
        share = 0.15 if number <= 2 else max(0.15, scatter)
        reason = _too_deep(number, width)
        if eta < 2 * edge:
            reason = f"eta = {eta:g}: the outlier leads only where it is twice the edge {edge:.2g} of the bulk"
        length = eta**2 + one.mean_row_squared - 1 + _added(one, width, number)
        log_top = 2 * (number - 1) * math.log(eta) + math.log(length)
        excess = tail.second * inverse_square**lengths * math.exp(-2 * log_top)
        log = _log_second(one, width, number, gaussian)
        said: dict[str, Prediction] = {}
        if reason or excess < SMALLEST:
            small = f"the excess {excess:.3g} is below {SMALLEST:g}: see its logarithm"
            said["gram_stable_rank_excess"] = out_of_range(reason or small, source=SOURCE)
        else:
            said["gram_stable_rank_excess"] = _about(excess, share)
        if log is None or reason:
            too_small = "the moments leave the range of a double"
            said["log_gram_stable_rank_excess"] = out_of_range(reason or too_small, source=SOURCE)
        else:
            centre = log - 2 * lengths * log_length - 2 * log_top
            band = absolute_band(centre, math.log1p(share))
            said["log_gram_stable_rank_excess"] = Approximation(
                value=centre, band=band, source=SOURCE, validity=VALIDITY
            )
        if number == 1:  # later they are one to many digits: the excess says more
            stable = tail.first * inverse**lengths * math.exp(-log_top)
            said["gram_stable_rank"] = _about(1 + excess, share * excess / (1 + excess))
            said["token_stable_rank"] = _about(1 + stable, 0.05)
            if reason:
                said |= dict.fromkeys(("gram_stable_rank", "token_stable_rank"), out_of_range(reason, source=SOURCE))
        for name, prediction in said.items():
            found[name][number] = prediction
    return found


def _added(one: Layer, width: int, number: int) -> float:
    """What the rest adds to s_1^2: sigma^2/d after one layer, nothing that shows after more."""
    return one.variance / width if number == 1 else 0.0


def _log_second(one: Layer, width: int, number: int, gaussian: bool) -> float | None:
    """ln E t_2 after `number` layers, from layers of unit size so that nothing underflows."""
    value = _unit_tails(one, width, number, gaussian)[-1].second
    return math.log(value) + 2 * number * math.log(one.variance / one.n) if value > 0 else None


def _unit_tails(one: Layer, width: int, depth: int, gaussian: bool) -> list[TailMoments]:
    """The tail moments for attention factors that keep the energy: the variance taken as n."""
    fourth = one.fourth_moment / one.variance**2 * one.n**2
    return tail_along_depth(one.n, width, float(one.n), fourth, depth, gaussian=gaussian)


def _removed(one: Layer, width: int, depth: int, gaussian: bool) -> Along:
    found: Along = {"gram_stable_rank": {}, "token_stable_rank": {}, "effective_rank": {}}
    ratio = one.n / width
    tails = _unit_tails(one, width, depth, gaussian)
    for number, tail in enumerate(tails, start=1):
        reason = _too_deep(number, width)
        if one.head_dim is not None and number > 1:
            reason = "products of key-query matrices have another edge: predicted after layer 1 only"
        if reason:
            for name in found:
                found[name][number] = out_of_range(reason, source=SOURCE)
            continue
        share = 0.10 if number <= 2 else max(0.10, math.sqrt(8 * number / width))
        factors = [ratio] * (number + gaussian) + [1.0] * (number - 1)
        squares = np.array(_tops(one, number, tuple(factors))) / one.variance
        wide = max(share, 0.25 if width < 100 else 0.0)
        found["gram_stable_rank"][number] = _about(tail.second * float(np.mean(squares**-2)), wide)
        found["token_stable_rank"][number] = _about(one.n * float(np.mean(1 / squares)), max(0.05, share / 2))
        rank = (one.n - 1) * math.exp(-one.law.log_moment(factors=factors))
        found["effective_rank"][number] = _about(rank, 0.05 if number == 1 else 0.10)
    return found


@functools.lru_cache(maxsize=256)
def _tops(one: Layer, number: int, factors: tuple[float, ...]) -> list[float]:
    """Largest squared singular value at eight quantiles of the largest entry of `number` attention matrices.

    The law of the largest entry is what a mean over draws averages: some draws have an entry outside the bulk.
    """
    found = []
    for which in range(8):
        above = -math.log((which + 0.5) / 8)  # expected entries above it
        edge = one.law.edge(factors=factors, entry=one.entry_beyond(above / (number * one.n**2)))
        found.append(edge.square if edge.detached else edge.shifted(TW1_MEAN))
    return found


def _cosines(
    one: Layer, width: int, depth: int, skip: float | None, norm: str, removed: float
) -> dict[int, Prediction]:
    """Mean cosines. Band: 5 %, of 1 - cosine where that is less, plus half of 1/n."""
    values = cosines_along_depth(one.n, one.variance, depth, width=width, skip=skip, norm=norm, removed=removed)
    found: dict[int, Prediction] = {}
    for number, cosine in enumerate(values, start=1):
        band = absolute_band(cosine, 0.05 * min(abs(cosine), 1 - cosine) + 0.5 / one.n)
        found[number] = Approximation(value=cosine, band=band, source=SOURCE, validity=VALIDITY)
    return found


def _collapse(cosines: dict[int, Prediction]) -> dict[str, Any]:
    """The layer from which bfloat16 cannot tell two tokens apart, 1 - cosine < 2^-8; within one layer."""
    values = {number: cosine.value for number, cosine in cosines.items() if cosine.value is not None}
    layer_number = collapse_depth(values)
    if layer_number is None:
        return {}
    band = absolute_band(layer_number, 1.0)
    said = Approximation(value=layer_number, band=band, source=SOURCE, validity=VALIDITY, statistic="median")
    return {"collapse_depth_bf16": said}


def _about(value: float, share: float) -> Prediction:
    return Approximation(value=value, band=relative_band(value, share), source=SOURCE, validity=VALIDITY)


def collapse_depth(cosines: Mapping[int, float], level: float = 2.0**-8) -> int | None:
    """First layer whose mean cosine is within `level` of one."""
    deep = [number for number, cosine in sorted(cosines.items()) if 1 - cosine < level]
    return deep[0] if deep else None

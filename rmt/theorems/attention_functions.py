"""Predictions for attention without softmax, A_ij = f(l_ij)/n, and for softmax of capped logits: the gap follows the mean.

f(l) of normal logits is its mean, an outlier of size |mu|, plus Hermite degrees that are noise (iid logits) or pieces of low
rank (key-query logits), exactly as for the exponential. Nothing about the gap is special to softmax but that its mean is
one: f with a positive mean (sigmoid, ReLU) has the gap, f with mean zero (linear, tanh) has none.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from rmt.laws.hermite import HermiteLaw
from rmt.theorems.layer import Layer
from rmt.theorems.outlier_and_bulk import Errors, OutlierAndBulk, Predictions
from rmt.theorems.prediction import MOST_RANKS, values_out_of_range

SOURCE = "derived, see rmt.theorems.attention_functions"
VALIDITY = "n >= 200, beta <= 1, head_dim >= 32"
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(0.5 * x),
    "relu": lambda x: np.maximum(x, 0.0),
    "linear": lambda x: x,
    "tanh": np.tanh,
}
_NODES = np.linspace(
    -9.0, 9.0, 3601
)  # standard deviations; the trapezoid rule is exact to 1e-7 even at the kink of ReLU
_WEIGHTS = np.exp(-(_NODES**2) / 2) / math.sqrt(2 * math.pi) * (_NODES[1] - _NODES[0])
_DEGREES = 12


@dataclasses.dataclass(frozen=True)
class Moments:
    """Of f(sqrt(v) z), z standard normal: mean, E f^2, and the variances of its Hermite degrees 1, 2, ..., 12."""

    mean: float
    square: float
    degrees: tuple[float, ...]


def moments(f: Callable[[np.ndarray], np.ndarray], variance: float) -> Moments:
    """Of a function of a normal logit."""
    values = f(math.sqrt(variance) * _NODES) * _WEIGHTS
    previous, current, degrees = np.ones_like(_NODES), _NODES, []
    for degree in range(1, _DEGREES + 1):  # orthonormal Hermite polynomials
        degrees.append(float(values @ current) ** 2)
        step = (_NODES * current - math.sqrt(degree) * previous) / math.sqrt(degree + 1)
        previous, current = current, step
    square = float((f(math.sqrt(variance) * _NODES) ** 2) @ _WEIGHTS)
    return Moments(float(values.sum()), square, tuple(degrees))


def function_predictions(
    n: int, beta: float, *, function: str, head_dim: int | None, removed: bool, widths: tuple[int, ...] = ()
) -> Predictions:
    """What to expect of A_ij = f(l_ij)/n over all n keys, or of A centred, (I - 11^T/n) A, where `removed`.

    Rows and columns of key-query logits have scales of their own, sqrt(r) and sqrt(c), chi^2_{d_k}/d_k: they spread the
    mean of f, and lengthen s_1 by Var(mu_r)/mu^2 for either side. widths: of independent value tokens, for those after A.
    Bands: mu 0.2 %, variance 4 %, s_1^2 - mu^2 15 %, values of the bulk 4 %. Medians of 8 draws, n = 250 and 1000, beta .5, 1,
    iid and d_k = 64: all within them.
    """
    reason = _limits(n, beta, head_dim)
    if reason:
        return _refused(reason, removed)
    f = FUNCTIONS[function]
    at_one, rows = moments(f, beta**2), _over_rows(f, n, beta, head_dim)
    mean, square = float(rows.weights @ rows.means), float(rows.weights @ rows.squares)
    spread = float(rows.weights @ rows.means**2) - mean**2
    leads = abs(mean) > 1e-9
    scale = mean**2 if leads else 1.0
    degrees = tuple(value / scale for value in at_one.degrees)
    law = HermiteLaw(n, (square - mean**2) / scale, beta, head_dim, degrees if head_dim else None)
    effect = 2 * spread / scale if leads else 0.0
    return _predictions(law, n, level=mean, effect=effect, centred=False, removed=removed, widths=widths)


def capped_predictions(
    n: int, beta: float, *, cap: float, head_dim: int | None, removed: bool, widths: tuple[int, ...] = ()
) -> Predictions:
    """What to expect of softmax attention with logits cap tanh(l/cap), or of A - 11^T/n where `removed`.

    As for the exponential, with F = exp(cap tanh(l/cap)) over its mean: sigma^2 = E F^2 - 1 with the first correction of
    the normaliser, and the degrees of F; the second value of key-query logits tends to a_1/sqrt(d_k). A cap bounds the
    weights, so that no single entry leaves the bulk. Column effect: the variance of degree two, over d_k. widths: of
    independent value tokens, for those after A.
    Bands: variance 4 %, s_1^2 - 1 15 %, values of the bulk 4 %. Medians of 8 draws, n = 300 and 1000, cap .5, 2, 5, beta .5, 1,
    2, iid, d_k = 16, 64: all within them.
    """
    reason = _limits(n, beta, head_dim, largest=2.0)
    if not reason and cap < 1e-3:
        reason = f"cap = {cap:g}: below 1e-3 the weights are uniform to rounding; raise cap"
    if reason:
        return _refused(reason, removed)

    def f(x: np.ndarray) -> np.ndarray:
        return np.exp(cap * np.tanh(x / cap))

    rows = _over_rows(f, n, beta, head_dim)
    second, third = rows.squares / rows.means**2, rows.cubes / rows.means**3
    normalised = second - 1 + (3 * second * (second - 1) - 2 * (third - second)) / n
    at_one = moments(f, beta**2)
    degrees = tuple(value / at_one.mean**2 for value in at_one.degrees)
    law = HermiteLaw(n, float(rows.weights @ normalised), beta, head_dim, degrees if head_dim else None)
    effect = degrees[1] / head_dim if head_dim else 0.0
    return _predictions(law, n, level=1.0, effect=effect, centred=True, removed=removed, widths=widths)


def _predictions(
    law: HermiteLaw, n: int, *, level: float, effect: float, centred: bool, removed: bool, widths: tuple[int, ...]
) -> Predictions:
    scale = abs(level) if abs(level) > 1e-9 else 1.0
    model = OutlierAndBulk(
        n=n,
        variance=law.variance,
        effect=effect,
        level=abs(level) if abs(level) > 1e-9 else 0.0,
        bulk=tuple(scale * float(value) / math.sqrt(n) for value in law.largest(MOST_RANKS)),
        errors=Errors(variance=0.04, top=0.15, bulk=0.04, level=0.0 if centred else 0.002),
        centred=centred,
        source=SOURCE,
        validity=VALIDITY,
    )
    if removed or model.level == 0:
        return model.removed()
    return model.kept() | (model.tokens(widths) if widths else {})


@dataclasses.dataclass(frozen=True, eq=False)
class _Rows:
    """Moments of f over the row types, and the weights of these."""

    means: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray
    weights: np.ndarray


def _over_rows(f: Callable[[np.ndarray], np.ndarray], n: int, beta: float, head_dim: int | None) -> _Rows:
    types, weights = Layer(n, beta, head_dim).temperatures
    values = f(beta * np.sqrt(types)[:, None] * _NODES)
    return _Rows(values @ _WEIGHTS, values**2 @ _WEIGHTS, values**3 @ _WEIGHTS, weights)


def _limits(n: int, beta: float, head_dim: int | None, *, largest: float = 1.0) -> str:
    if n < 200:
        return f"n = {n}: calibrated for n >= 200"
    if beta > largest:
        return f"beta = {beta:g}: calibrated for beta <= {largest:g}"
    if head_dim is not None and head_dim < 16:
        return f"head_dim = {head_dim}: calibrated for head_dim >= 16"
    return ""


def _refused(reason: str, removed: bool) -> Predictions:
    names = [
        "frobenius_norm_squared",
        "top_singular_value",
        "second_singular_value",
        "gap_ratio",
        "attention_stable_rank",
    ]
    return values_out_of_range(names if removed else [*names, "spectral_gap"], reason, source=SOURCE)

"""One transformer layer, forwards with what it must remember, and backwards.

Derived by hand: with P = softmax(c Q K^T) by rows, dS = P * (dP - rowsum(P * dP)); a normalised token y = (x - mean)/sd
has dx = (dy - mean(dy) - y mean(dy y))/sd. Weights may be complex, and no conjugate is ever taken: a step of size 1e-30
along i gives directional derivatives to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from rmt.regression.transformer_model import Layer, Transformer

_EPSILON = 1e-5  # added to the variance of a token before its root
_ROOT_TWO_PI = np.sqrt(2 * np.pi)
Array = Any


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """What a layer saw: tokens X, attention P (batch, heads, n, n), output Z of attention and H of the layer.

    `entered` and `activated` are what attention and the hidden units received, `units` and `slopes` phi and phi' there;
    `scales` holds the standard deviations of the tokens where they were normalised.
    """

    X: Array
    entered: Array
    queries: Array
    keys: Array
    values: Array
    P: Array
    Z: Array
    activated: Array
    units: Array
    slopes: Array
    H: Array
    scales: tuple[Array, Array]


def forward(model: Transformer, layer: Layer, X: Array) -> LayerTrace:
    """One layer, X (batch, n, width)."""
    entered, first = _normalise(X) if model.norm == "pre" else (X, None)
    queries, keys, values = (_split(entered @ W, model.heads) for W in (layer.query, layer.key, layer.value))
    scores = model.score_factor * (queries @ _transpose(keys))
    weights = np.exp(scores - scores.real.max(axis=-1, keepdims=True))
    P = weights / weights.sum(axis=-1, keepdims=True)
    Z = _join(P @ values) + model.skip_scale * X
    if model.norm == "post":
        Z, first = _normalise(Z)
    activated, second = _normalise(Z) if model.norm == "pre" else (Z, None)
    units, slopes = activate(model.activation, activated @ layer.inner)
    H = Z + units @ layer.outer
    if model.norm == "post":
        H, second = _normalise(H)
    return LayerTrace(X, entered, queries, keys, values, P, Z, activated, units, slopes, H, (first, second))


def backward(model: Transformer, layer: Layer, seen: LayerTrace, dH: Array) -> tuple[Array, list[Array]]:
    """Pull a cotangent dH (..., batch, n, width) back to the layer's tokens and matrices (each with the leading axes)."""
    first, second = seen.scales
    if model.norm == "post":
        dH = _pull_norm(dH, seen.H, second)
    outer = _pull_matrix(seen.units, dH)
    dhidden = (dH @ layer.outer.T) * seen.slopes
    inner = _pull_matrix(seen.activated, dhidden)
    dactivated = dhidden @ layer.inner.T
    dZ = dH + (_pull_norm(dactivated, seen.activated, second) if model.norm == "pre" else dactivated)
    if model.norm == "post":
        dZ = _pull_norm(dZ, seen.Z, first)
    dO = _split(dZ, model.heads)
    dvalues = _transpose(seen.P) @ dO
    dP = dO @ _transpose(seen.values)
    dS = model.score_factor * seen.P * (dP - (seen.P * dP).sum(axis=-1, keepdims=True))
    pulled = [_join(dS @ seen.keys), _join(_transpose(dS) @ seen.queries), _join(dvalues)]
    matrices = [_pull_matrix(seen.entered, d) for d in pulled]
    dentered = sum(d @ W.T for d, W in zip(pulled, (layer.query, layer.key, layer.value), strict=True))
    dX = _pull_norm(dentered, seen.entered, first) if model.norm == "pre" else dentered
    return dX + model.skip_scale * dZ, [*matrices, inner, outer]


def _transpose(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def _split(x: Array, heads: int) -> Array:
    """(..., n, heads e) -> (..., heads, n, e)."""
    return np.swapaxes(x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads), -2, -3)


def _join(x: Array) -> Array:
    """The inverse of `_split`."""
    back = np.swapaxes(x, -2, -3)
    return back.reshape(*back.shape[:-2], back.shape[-2] * back.shape[-1])


def _pull_matrix(inputs: Array, d: Array) -> Array:
    """Gradient of a matrix W in inputs @ W: summed over batch and tokens, leading axes kept."""
    rows = inputs.reshape(-1, inputs.shape[-1])
    return rows.T @ d.reshape(*d.shape[: d.ndim - inputs.ndim], len(rows), d.shape[-1])


def _normalise(x: Array) -> tuple[Array, Array]:
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
    return centred / scale, scale


def _pull_norm(dy: Array, y: Array, scale: Array) -> Array:
    return (dy - dy.mean(axis=-1, keepdims=True) - y * (dy * y).mean(axis=-1, keepdims=True)) / scale


def activate(name: str, x: Array) -> tuple[Array, Array]:
    """(phi, phi') entry by entry; of complex x to first order in its imaginary part, which is all a complex step needs."""
    real = x.real
    if name == "relu":
        on = real > 0
        return x * on, on.astype(float)
    if name == "tanh":
        value = np.tanh(real)
        slope = 1 - value * value
    else:
        cdf, pdf = special.ndtr(real), np.exp(-real * real / 2) / _ROOT_TWO_PI
        value, slope = real * cdf, cdf + real * pdf
    if not np.iscomplexobj(x):
        return value, slope
    bend = -2 * value * slope if name == "tanh" else pdf * (2 - real * real)
    shift = 1j * x.imag
    return value + slope * shift, slope + bend * shift

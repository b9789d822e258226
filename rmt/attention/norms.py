"""Layer norms of tokens, and what they do to a gradient.

"rms":   y_i = x_i / sqrt(|x_i|^2/d + eps).     "layer":   the same after each row's mean over its d entries is taken off.
No gain and no bias: at initialisation they are one and zero.
"""

from __future__ import annotations

import numpy as np

from rmt.attention.split import SplitTokens, moved

__all__ = ["EPS", "KINDS", "normed", "normed_backward"]

KINDS = ("rms", "layer")
EPS = 1e-12
"""Added to the mean square of a row: only a row of zeros (the first row of A - C) notices."""


def normed(X: SplitTokens, kind: str, eps: float = EPS) -> SplitTokens:
    """The normalised tokens.

    Where the mean leads, 1/|m + r| = (1 + g)/|m| with g = (1 + delta)^(-1/2) - 1 and delta = (2 m.r + |r|^2)/|m|^2 of
    any size, so that the rest keeps its digits however small it is.
    """
    mean, rest = X.mean, X.rest
    if kind == "layer":
        mean, rest = mean - mean.mean(), rest - rest.mean(axis=1, keepdims=True)
    d = mean.size
    eps = eps * np.exp(-2 * X.log_scale)
    level = mean @ mean / d + eps
    change = (2 * rest @ mean + np.sum(rest * rest, axis=1)) / d
    if change.mean() > level:
        dense = mean + rest
        return moved(np.zeros(d), dense / np.sqrt(np.sum(dense * dense, axis=1, keepdims=True) / d + eps))
    stretch = np.expm1(-0.5 * np.log1p(change / level))[:, None]
    return moved(mean / np.sqrt(level), (rest + stretch * rest + stretch * mean) / np.sqrt(level))


def normed_backward(X: np.ndarray, G: np.ndarray, kind: str, eps: float = EPS) -> np.ndarray:
    """The cotangent of X (n, d), given that of the normalised tokens, G (n, d)."""
    if kind == "layer":
        X = X - X.mean(axis=1, keepdims=True)
    d = X.shape[1]
    inverse = 1 / np.sqrt(np.sum(X * X, axis=1, keepdims=True) / d + eps)
    Y = X * inverse
    back = inverse * (G - Y * np.sum(Y * G, axis=1, keepdims=True) / d)
    return back - back.mean(axis=1, keepdims=True) if kind == "layer" else back

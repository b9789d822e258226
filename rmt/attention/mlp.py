"""The two-layer perceptron of a block: Y = phi(Z W_1) W_2, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from rmt.attention.split import SplitTokens, moved

__all__ = ["ACTIVATIONS", "Activation", "mlp", "mlp_backward"]


@dataclass(frozen=True)
class Activation:
    """phi, its derivative, and E phi(z)^2 for a standard normal z (exact; gelu by quadrature to 1e-12)."""

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    energy: float


def _below(x: np.ndarray) -> np.ndarray:
    """The standard normal distribution function."""
    return (1 + erf(x / np.sqrt(2))) / 2


def _gelu_slope(x: np.ndarray) -> np.ndarray:
    return _below(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


ACTIVATIONS = {
    "relu": Activation(lambda x: np.maximum(x, 0.0), lambda x: (x > 0).astype(float), 0.5),
    "gelu": Activation(lambda x: x * _below(x), _gelu_slope, 0.425221482570),
}


def mlp(Z: SplitTokens, inner: np.ndarray, outer: np.ndarray, activation: str) -> SplitTokens:
    """Tokens behind the perceptron. The rest keeps 16 digits of phi of the mean, no more."""
    phi, size = ACTIVATIONS[activation].value, np.exp(Z.log_scale)
    mean, rest = size * (Z.mean @ inner), size * (Z.rest @ inner)
    level = phi(mean)
    return moved(level, phi(mean + rest) - level).times(outer)


def mlp_backward(
    Z: SplitTokens, inner: np.ndarray, outer: np.ndarray, activation: str, G: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(gradients of the weights, cotangent of Z), given the cotangent G of the output."""
    dense, phi = Z.dense(), ACTIVATIONS[activation]
    hidden = dense @ inner
    back = (G @ outer.T) * phi.slope(hidden)
    return {"inner": dense.T @ back, "outer": phi.value(hidden).T @ G}, back @ inner.T

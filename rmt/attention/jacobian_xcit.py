"""Cross-covariance attention (XCiT) linearised at a point: channels attend to channels.

With columns of Q and K (n, d) scaled to unit length, A = softmax(scale Q^T K) (d, d) row by row and Z = V A^T, V (n, d).
Scaling a column of W_Q or W_K changes nothing: 2 d known null directions of the Jacobian per head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rmt.attention.jacobian_softmax import Head, Triple, softmax, softmax_slope

__all__ = ["xcit_head"]


def xcit_head(Q: np.ndarray, K: np.ndarray, V: np.ndarray, *, scale: float = 1.0) -> Head:
    """Cross-covariance attention of one head; `scale` is its temperature factor. Needs as many values as channels."""
    if V.shape[-1] != Q.shape[-1]:
        raise ValueError(f"{V.shape[-1]} value channels, {Q.shape[-1]} query channels: xcit needs them equal")
    (q, unit_q), (k, unit_k) = _unit_columns(Q), _unit_columns(K)
    A = softmax(scale * (q.T @ k))

    def push(dQ: Any, dK: Any, dV: Any) -> np.ndarray:
        moved = scale * (np.swapaxes(unit_q(dQ), -1, -2) @ k + q.T @ unit_k(dK))
        return dV @ A.T + V @ np.swapaxes(softmax_slope(A, moved), -1, -2)

    def pull(dZ: Any) -> Triple:
        moved = scale * softmax_slope(A, np.swapaxes(dZ, -1, -2) @ V)
        return unit_q(k @ np.swapaxes(moved, -1, -2)), unit_k(q @ moved), dZ @ A

    return Head(V @ A.T, None, push, pull)


def _unit_columns(Q: np.ndarray) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
    """The columns at unit length, and the derivative of that scaling: symmetric, so it is its own transpose."""
    length = np.linalg.norm(Q, axis=0)
    if not np.all(length > 0):
        raise ValueError("a channel is zero on every token, so it has no direction; change the weights")
    unit = Q / length

    def derivative(dQ: Any) -> np.ndarray:
        return (dQ - unit * np.sum(unit * dQ, axis=-2, keepdims=True)) / length

    return unit, derivative

"""Nystrom attention linearised at a point: softmax attention through m landmarks (means of segments of tokens).

F = softmax(scale Q K'^T), A = softmax(scale Q' K'^T), B = softmax(scale Q' K^T), Q' = L Q and K' = L K the segment means;
Z = F A^-1 B V. Nystromformer iterates towards the pseudo-inverse; here A is inverted exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rmt.attention.jacobian_softmax import Head, Triple, softmax, softmax_slope

__all__ = ["nystrom_head", "segment_means"]


def segment_means(n: int, landmarks: int) -> np.ndarray:
    """L (landmarks, n): row a averages the a-th of `landmarks` segments of nearly equal length."""
    if not 1 <= landmarks <= n:
        raise ValueError(f"{landmarks} landmarks of {n} tokens: needs 1 <= landmarks <= n")
    segment = np.arange(n) * landmarks // n
    member = (segment == np.arange(landmarks)[:, None]).astype(float)
    return member / member.sum(axis=1, keepdims=True)


def nystrom_head(Q: np.ndarray, K: np.ndarray, V: np.ndarray, *, scale: float, landmarks: int) -> Head:
    """Nystrom attention of one head. Raises ValueError where the landmark matrix cannot be inverted."""
    L = segment_means(Q.shape[0], landmarks)
    q, k = L @ Q, L @ K
    F, A, B = softmax(scale * (Q @ k.T)), softmax(scale * (q @ k.T)), softmax(scale * (q @ K.T))
    if np.linalg.cond(A) > 1e12:
        raise ValueError(f"{landmarks} landmarks attend alike: their matrix is singular; use fewer landmarks")
    inverse = np.linalg.inv(A)
    left, right = F @ inverse, inverse @ (B @ V)
    left_t = left.T

    def push(dQ: Any, dK: Any, dV: Any) -> np.ndarray:
        dq, dk = L @ dQ, L @ dK
        dF = softmax_slope(F, scale * (dQ @ k.T + Q @ np.swapaxes(dk, -1, -2)))
        dA = softmax_slope(A, scale * (dq @ k.T + q @ np.swapaxes(dk, -1, -2)))
        dB = softmax_slope(B, scale * (dq @ K.T + q @ np.swapaxes(dK, -1, -2)))
        return dF @ right - left @ (dA @ right) + left @ (dB @ V) + left @ (B @ dV)

    def pull(dZ: Any) -> Triple:
        through = left_t @ dZ
        dF = scale * softmax_slope(F, dZ @ right.T)
        dA = -scale * softmax_slope(A, through @ right.T)
        dB = scale * softmax_slope(B, through @ V.T)
        dF_t, dA_t, dB_t = (np.swapaxes(moved, -1, -2) for moved in (dF, dA, dB))
        dQ = dF @ k + L.T @ (dA @ k + dB @ K)
        dK = dB_t @ q + L.T @ (dF_t @ Q + dA_t @ q)
        return dQ, dK, B.T @ through

    return Head(left @ (B @ V), left @ B, push, pull)

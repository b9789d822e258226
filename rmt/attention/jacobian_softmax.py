"""One softmax head linearised at a point: P = softmax(scale Q K^T) row by row on the keys a mask allows, Z = P V."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["MASKS", "Head", "mask_matrix", "softmax", "softmax_head", "softmax_slope"]

MASKS = ("none", "causal", "window")

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Head:
    """A head at (Q, K, V): queries and keys (n, d), values (n, e), output (n, e), and its derivative both ways.

    push(dQ, dK, dV) -> dZ and its transpose pull(dZ) -> (dQ, dK, dV) take any leading axes.
    attention: the matrix P with Z = P V, or None where there is none (cross-covariance attention).
    """

    output: np.ndarray
    attention: np.ndarray | None
    push: Callable[[Any, Any, Any], np.ndarray]
    pull: Callable[[Any], Triple]


def mask_matrix(n: int, mask: str, *, window: int | None = None) -> np.ndarray | None:
    """Allowed (query, key) pairs (n, n), or None for all of them. window: blocks of that many neighbouring tokens."""
    if mask not in MASKS:
        raise ValueError(f"mask {mask!r} is unknown; choose from {', '.join(MASKS)}")
    if mask == "none":
        return None
    place = np.arange(n)
    if mask == "causal":
        return place[:, None] >= place
    if window is None or window < 1:
        raise ValueError(f"window {window} is no block size; give a whole number of tokens, at least 1")
    return place[:, None] // window == place // window


def softmax(scores: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """Rows of weights that sum to 1, exactly 0 where not allowed; every row must allow one key."""
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def softmax_slope(P: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """(diag p - p p^T) applied to each row of `moved` (..., n, m): symmetric, so it is its own transpose."""
    weighted = P * moved
    return weighted - P * weighted.sum(axis=-1, keepdims=True)


def softmax_head(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, *, scale: float, allowed: np.ndarray | None = None
) -> Head:
    """Softmax attention of one head, `allowed` as given by `mask_matrix`."""
    P = softmax(scale * (Q @ K.T), allowed)

    def push(dQ: Any, dK: Any, dV: Any) -> np.ndarray:
        moved = softmax_slope(P, scale * (dQ @ K.T + Q @ np.swapaxes(dK, -1, -2)))
        return moved @ V + P @ dV

    def pull(dZ: Any) -> Triple:
        moved = scale * softmax_slope(P, dZ @ V.T)
        return moved @ K, np.swapaxes(moved, -1, -2) @ Q, P.T @ dZ

    return Head(P @ V, P, push, pull)

"""Positions: how the place of a token enters the logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from rmt.arrays import Array

POSITIONS = ("none", "rope", "alibi")
ROPE_BASE = 10000.0


def rotated(X: Array, *, base: float = ROPE_BASE, back: bool = False) -> Array:
    """RoPE: row i of X (n, d), d even, with its pairs (k, k + d/2) turned by the angles i base^(-2k/d), or `back`.

    Queries and keys turned alike give q_i^T R_(i-j) k_j: the logit depends on the distance of the two tokens only.
    """
    n, d = X.shape
    if d % 2:
        raise ValueError(f"head_dim {d}: RoPE turns pairs of coordinates; choose an even head_dim")
    host = np.asarray(X, dtype=np.float64)
    angle = (-1 if back else 1) * np.arange(n)[:, None] * base ** (-2 * np.arange(d // 2) / d)
    first, second = host[:, : d // 2], host[:, d // 2 :]
    turned = [first * np.cos(angle) - second * np.sin(angle), first * np.sin(angle) + second * np.cos(angle)]
    return np.concatenate(turned, axis=1).astype(X.dtype)


def alibi(start: int, rows: int, n: int, slope: float, *, xp: Any) -> Array:
    """ALiBi: the bias -slope |i - j| of logits (rows, n), float64."""
    query, key = xp.arange(start, start + rows)[:, None], xp.arange(n)[None, :]
    return -slope * xp.abs(query - key).astype(np.float64)

"""The vector-Jacobian product of softmax attention, a few rows at a time: exact, memory O(n d).

Y = P V with P = softmax(Q K^T) by rows. For a cotangent U of Y (derived, textbook):
    dV = P^T U,   dP = U V^T,   dS_ij = P_ij (dP_ij - sum_k P_ik dP_ik),   dQ = dS K,   dK = dS^T Q.
Rows are made again from Q and K, so that no n x n array is held.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.attention.mixing import Mixing
from rmt.attention.scores import ProductLogits, ScoredRows
from rmt.ensembles.attention import KeyQueryRows
from rmt.ensembles.walk import STRIP, in_order, one_blas_thread, strips, tiles

__all__ = ["AttentionCotangents", "attention_backward"]

TILE = 64  # rows at a time


@dataclass(frozen=True, eq=False)
class AttentionCotangents:
    """Cotangents of the scaled queries (n, d_k), the keys (n, d_k) and the values (n, d_v)."""

    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray


def attention_backward(attention: Mixing, V: np.ndarray, U: np.ndarray) -> AttentionCotangents:
    """Cotangents behind Y = A V, given that of Y; A a `Mixing` over key-query rows. float64.

    Sums over rows are closed strip by strip and added in order: the number of workers changes no bit.
    """
    Q, K, causal = _parts(attention)
    n = attention.n
    dQ, dK, dV = np.empty(Q.shape), np.zeros(K.shape), np.zeros(V.shape)

    def strip(at: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        keys, values = np.zeros(K.shape), np.zeros(V.shape)
        for start, stop in tiles(*at, min(TILE, STRIP)):
            seen = stop if causal else n
            P = attention.rows(start, stop)[:, :seen]
            S = U[start:stop] @ V[:seen].T
            S -= np.sum(P * S, axis=1, keepdims=True)
            S *= P
            dQ[start:stop] = S @ K[:seen]
            keys[:seen] += S.T @ Q[start:stop]
            values[:seen] += P.T @ U[start:stop]
        return keys, values

    with one_blas_thread():
        for keys, values in in_order(strip, strips(n), attention.workers):
            dK += keys
            dV += values
    return AttentionCotangents(dQ, dK, dV)


def _parts(attention: Mixing) -> tuple[np.ndarray, np.ndarray, bool]:
    """Scaled queries and keys in float64, and whether later keys can be left out."""
    rows = attention.source
    if isinstance(rows, KeyQueryRows):
        return rows.queries.astype(np.float64), rows.keys.astype(np.float64), rows.mask == "causal"
    if isinstance(rows, ScoredRows) and isinstance(rows.logits, ProductLogits) and rows.score.cap is None:
        return rows.logits.queries.astype(np.float64), rows.logits.keys.astype(np.float64), False
    raise TypeError("attention that does not come from queries and keys has no cotangents for them")

"""Softmax attention and its vector-Jacobian product in one sweep over a few rows at a time: exact, memory O(n d).

Y = P V with P = softmax(Q K^T) by rows. For a cotangent U of Y (derived, textbook):
    dV = P^T U,   dP = U V^T,   dS_ij = P_ij (dP_ij - sum_k P_ik dP_ik),   dQ = dS K,   dK = dS^T Q,
and the sum in dS is row i of U times row i of Y. Rows are made again from Q and K, so that no n x n array is held: 12 n^2 d
operations, forward pass included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from rmt.attention.mixing import Mixing
from rmt.attention.scores import ProductLogits, ScoredRows
from rmt.ensembles.attention import KeyQueryRows
from rmt.ensembles.walk import STRIP, in_order, strips, tiles
from rmt.linalg.blas_threads import one_blas_thread

__all__ = ["AttentionCotangents", "attention_backward"]

ENTRIES = 2**20  # of P at a time: measured fastest at n = 4096


@dataclass(frozen=True, eq=False)
class AttentionCotangents:
    """The output Y (n, d_v), and cotangents of the scaled queries, the keys (n, d_k) and the values (n, d_v)."""

    output: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray


def attention_backward(
    attention: Mixing, V: np.ndarray, U: np.ndarray, *, dtype: np.dtype | type = np.float64
) -> AttentionCotangents:
    """Y = A V and the cotangents behind it, given that of Y; A a `Mixing` over key-query rows.

    dtype: of all products; sums over strips of 256 rows are float64, added in order, so that the number of workers
    changes no bit. Raises TypeError for attention without queries and keys, or whose logits are capped.
    """
    Q, K, causal = _parts(attention, dtype)
    V, U = (np.ascontiguousarray(x, dtype=dtype) for x in (V, U))
    n = attention.n
    output, dQ = np.empty(U.shape, dtype), np.empty(Q.shape, dtype)
    dK, dV = np.zeros(K.shape), np.zeros(V.shape)
    tile = min(max(8, ENTRIES // n), STRIP, n)

    spare: list[tuple[np.ndarray, np.ndarray]] = []  # tiles for the next strip: fresh memory costs more than its use
    gemm = blas.sgemm if np.dtype(dtype) == np.float32 else blas.dgemm

    def strip(at: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        keys, values = np.zeros(K.shape, dtype), np.zeros(V.shape, dtype)
        try:
            products, rows = spare.pop()
        except IndexError:  # another thread may have taken the last pair
            products, rows = np.empty((tile, n), dtype), np.empty((tile, n), dtype)
        for start, stop in tiles(*at, tile):
            seen = stop if causal else n
            P = attention.rows(start, stop, out=rows)[:, :seen]
            cotangent, S = U[start:stop], products.reshape(-1)[: (stop - start) * seen].reshape(stop - start, seen)
            np.matmul(P, V[:seen], out=output[start:stop])
            np.matmul(cotangent, V[:seen].T, out=S)
            S -= np.sum(cotangent * output[start:stop], axis=1, keepdims=True)
            S *= P
            np.matmul(S, K[:seen], out=dQ[start:stop])
            _accumulate(gemm, S, Q[start:stop], keys[:seen])
            _accumulate(gemm, P, cotangent, values[:seen])
        spare.append((products, rows))
        return keys, values

    with one_blas_thread():
        for keys, values in in_order(strip, strips(n), attention.workers):
            dK += keys
            dV += values
    return AttentionCotangents(output, dQ, dK, dV)


def _accumulate(gemm: Callable[..., np.ndarray], S: np.ndarray, X: np.ndarray, total: np.ndarray) -> None:
    """total += S^T X in place, S (r, n), X (r, d), total (n, d): NumPy would make the product first and add it then."""
    if S.flags.c_contiguous and total.flags.c_contiguous:
        gemm(1.0, X.T, S.T, 1.0, total.T, trans_b=True, overwrite_c=True)
    else:
        total += S.T @ X


def _parts(attention: Mixing, dtype: np.dtype | type) -> tuple[np.ndarray, np.ndarray, bool]:
    """Scaled queries and keys, and whether later keys can be left out."""
    rows = attention.source
    if isinstance(rows, KeyQueryRows):
        return rows.queries.astype(dtype), rows.keys.astype(dtype), rows.mask == "causal"
    if isinstance(rows, ScoredRows) and isinstance(rows.logits, ProductLogits) and rows.score.cap is None:
        return rows.logits.queries.astype(dtype), rows.logits.keys.astype(dtype), False
    raise TypeError("attention that does not come from queries and keys has no cotangents for them")

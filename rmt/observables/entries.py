"""What the entries of attention matrices say. Arrays (..., n, n) -> (...), accumulated in float64, any array library.

Sums run over slabs of rows: a float32 matrix is never copied to float64 whole, nor summed in float32 (a float32 sum
over n^2 entries can be wrong in the second digit).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

__all__ = ["attention_entropy", "frobenius_norm_squared"]

SLAB = 1 << 22  # entries converted at a time


def frobenius_norm_squared(A: Any) -> Any:
    """Sum of the squared entries."""
    return _sum(A, lambda xp, rows: rows * rows)


def attention_entropy(A: Any) -> Any:
    """Mean over the rows of -sum_j a_ij ln a_ij, in nats, with 0 ln 0 = 0. From 0 (one key each) to ln n (uniform)."""

    def terms(xp: Any, rows: Any) -> Any:
        positive = rows > 0
        return xp.where(positive, -rows * xp.log(xp.where(positive, rows, 1.0)), 0.0)

    return _sum(A, terms) / A.shape[-2]


def _sum(A: Any, terms: Callable[[Any, Any], Any]) -> Any:
    xp = array_namespace(A)
    batch = 1
    for size in A.shape[:-2]:
        batch *= size
    step = max(1, SLAB // max(batch * A.shape[-1], 1))
    total = xp.zeros(A.shape[:-2], dtype=xp.float64)
    for start in range(0, A.shape[-2], step):
        rows = xp.astype(A[..., start : min(start + step, A.shape[-2]), :], xp.float64)
        total = total + xp.sum(terms(xp, rows), axis=(-2, -1))
    return total

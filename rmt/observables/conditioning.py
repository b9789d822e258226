"""Condition numbers, and how soft or frozen a row of attention is. Arrays (..., m, k) -> (...), in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

__all__ = [
    "condition_number",
    "diagonal_attention",
    "largest_singular_value",
    "pseudo_condition_number",
    "smallest_singular_value",
    "softmax_pseudo_condition",
    "softmax_sensitivity",
]


def _values(A: Any) -> tuple[Any, Any]:
    xp = array_namespace(A)
    return xp, xp.linalg.svdvals(xp.astype(A, xp.float64))


def largest_singular_value(A: Any) -> Any:
    """s_max."""
    return _values(A)[1][..., 0]


def smallest_singular_value(A: Any) -> Any:
    """s_min, the min(m, k)-th singular value: 0 for a matrix that has not full rank."""
    return _values(A)[1][..., -1]


def condition_number(A: Any) -> Any:
    """kappa = s_max/s_min, infinite where s_min is exactly 0 and nan for a zero matrix."""
    xp, values = _values(A)
    first, last = values[..., 0], values[..., -1]
    ratio = first / xp.where(last > 0, last, 1.0)
    return xp.where(last > 0, ratio, xp.where(first > 0, xp.inf, xp.nan))


def pseudo_condition_number(A: Any, *, null: int = 0) -> Any:
    """s_max over the smallest singular value after the `null` smallest, which are known to be zero, are left out."""
    _, values = _values(A)
    if not 0 <= null < values.shape[-1]:
        raise ValueError(f"null = {null} of {values.shape[-1]} singular values leaves none; name fewer")
    return values[..., 0] / values[..., -1 - null]


def diagonal_attention(P: Any) -> Any:
    """Mean over the rows of P_ii: 1/n for uniform attention, 1 where every token attends to itself alone."""
    xp = array_namespace(P)
    return xp.mean(xp.astype(xp.linalg.diagonal(P), xp.float64), axis=-1)


def softmax_sensitivity(P: Any) -> Any:
    """Mean over the rows of tr(diag p - p p^T) = 1 - sum_j p_j^2: what a logit can still move. 0 where it is frozen."""
    xp = array_namespace(P)
    rows = xp.astype(P, xp.float64)
    return xp.mean(1 - xp.sum(rows * rows, axis=-1), axis=-1)


def softmax_pseudo_condition(P: Any) -> float:
    """kappa of blockdiag(diag p_i - p_i p_i^T), P (n, n), over its non-zero singular values: all but one of each row.

    Infinite where more than one vanishes, as on masked rows. kappa over all singular values is always infinite.
    """
    values = np.stack([np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)) for p in np.asarray(P, dtype=float)])
    smallest = float(values[:, 1].min())
    return float(values[:, -1].max()) / smallest if smallest > 0 else float("inf")

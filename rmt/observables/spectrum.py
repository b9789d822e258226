"""What the singular values of attention matrices say. Arrays (..., n, n) -> (...), in float64, any array library.

These take every singular value, O(n^3) per matrix: use them up to n of a few thousand, and `rmt.linalg` beyond.
Where a quantity is 0/0 (no second value at n = 1, ratios of a zero matrix) the result is nan; tables print null.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from rmt.observables.entries import frobenius_norm_squared

__all__ = [
    "attention_stable_rank",
    "gap_ratio",
    "outlier_count",
    "second_singular_value",
    "spectral_gap",
    "top_singular_value",
]


def _values(A: Any) -> tuple[Any, Any]:
    xp = array_namespace(A)
    return xp, xp.linalg.svdvals(xp.astype(A, xp.float64))


def _second(xp: Any, values: Any) -> Any:
    return values[..., 1] if values.shape[-1] > 1 else xp.full_like(values[..., 0], xp.nan)


def _ratio(xp: Any, above: Any, below: Any) -> Any:
    return xp.where(below > 0, above / xp.where(below > 0, below, 1.0), xp.nan)


def top_singular_value(A: Any) -> Any:
    """s1, the operator norm. At least 1 for a row-stochastic matrix, equal to 1 if and only if it is doubly stochastic."""
    return _values(A)[1][..., 0]


def second_singular_value(A: Any) -> Any:
    """s2."""
    return _second(*_values(A))


def spectral_gap(A: Any) -> Any:
    """s1 - s2."""
    xp, values = _values(A)
    return values[..., 0] - _second(xp, values)


def gap_ratio(A: Any) -> Any:
    """s2 / s1, in [0, 1]."""
    xp, values = _values(A)
    return _ratio(xp, _second(xp, values), values[..., 0])


def attention_stable_rank(A: Any) -> Any:
    """||A||_F^2 / s1^2, in [1, n]."""
    xp, values = _values(A)
    return _ratio(xp, frobenius_norm_squared(A), values[..., 0] ** 2)


def outlier_count(values: Any, threshold: Any) -> Any:
    """How many of the singular values (..., k) exceed `threshold` (a number, or (...)), for instance a bulk edge."""
    xp = array_namespace(values)
    return xp.count_nonzero(values > xp.asarray(threshold, dtype=values.dtype)[..., None], axis=-1)

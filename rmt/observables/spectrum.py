"""Spectral observables, from singular values or from attention matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special

Array = Any


def top_singular_value(values: Array) -> Array:
    """s_1 of singular values (..., k), largest first."""
    return values[..., 0]


def second_singular_value(values: Array) -> Array:
    """s_2; NaN where there is only one."""
    return values[..., 1] if values.shape[-1] > 1 else np.full(values.shape[:-1], math.nan)


def spectral_gap(values: Array) -> Array:
    """s_1 - s_2."""
    return top_singular_value(values) - second_singular_value(values)


def gap_ratio(values: Array) -> Array:
    """s_2/s_1; NaN for a zero matrix."""
    top = top_singular_value(values)
    return np.divide(
        second_singular_value(values), top, out=np.full(np.shape(top), math.nan), where=np.asarray(top) > 0
    )


def attention_stable_rank(frobenius_norm_squared: Array, top: Array) -> Array:
    """||A||_F^2/s_1^2; NaN for a zero matrix."""
    squared = np.square(np.asarray(top, dtype=float))
    return np.divide(frobenius_norm_squared, squared, out=np.full(squared.shape, math.nan), where=squared > 0)


def frobenius_norm_squared(A: Array) -> Array:
    """||A||_F^2 of matrices (..., m, n); float64 sums (a float32 sum loses a percent at n = 16384)."""
    return np.sum(np.square(A, dtype=np.float64), axis=(-2, -1))


def attention_entropy(A: Array) -> Array:
    """Mean over rows of -sum_j a_ij ln a_ij, nats, for row-stochastic matrices (..., n, n); 0 ln 0 = 0."""
    return np.mean(np.sum(scipy.special.entr(np.asarray(A, dtype=np.float64)), axis=-1), axis=-1)


def outlier_count(values: Array, threshold: Array) -> Array:
    """How many singular values (..., k) exceed a threshold."""
    return np.sum(values > np.asarray(threshold)[..., None], axis=-1)

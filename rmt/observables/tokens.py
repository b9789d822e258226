"""Token observables: ranks and alignment of a token matrix X (n, d), rows are tokens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

_TILE = 512
_SMALLEST = 1e-300  # below this an excess is reported as unknown: its logarithm goes on


def token_observables(X: Any) -> dict[str, float]:
    """Every token observable of X (n, d), from one Gram matrix; float64 accumulation whatever the dtype of X.

    token_stable_rank ||X||_F^2/s_1^2; gram_stable_rank sum s_i^4/s_1^4 (the stable rank of X X^T); gram_stable_rank_excess,
    the same minus 1 as the sum over i >= 2; log_gram_stable_rank_excess; effective_rank, the exponential of the entropy
    of s_i^2/sum s^2; token_cosine, the mean cosine over pairs of different tokens; rank_one_residual
    ||(I - J) X||_F/||X||_F. NaN where a quantity is undefined: X = 0, no pair of non-zero tokens.
    """
    X = np.asarray(X)
    squares = token_spectrum(X)
    return {
        "token_stable_rank": stable_rank(squares),
        "gram_stable_rank": gram_stable_rank(squares),
        "gram_stable_rank_excess": gram_stable_rank_excess(squares),
        "log_gram_stable_rank_excess": log_gram_stable_rank_excess(squares),
        "effective_rank": effective_rank(squares),
        "token_cosine": token_cosine(X),
        "rank_one_residual": rank_one_residual(X),
    }


def token_spectrum(X: Any) -> np.ndarray:
    """Squared singular values of X (n, d), largest first, (min(n, d),) float64, from a Gram matrix of the smaller side.

    The largest singular direction is split off first, so that the rounding error of the others is relative to the second
    one: an excess as small as 1e-14 keeps its digits. With v the top eigenvector of the Gram matrix, X (I - v v^T) has
    the remaining values up to r^2/s_1^2, r the residual of v.
    """
    X = np.asarray(X)
    if X.shape[0] < X.shape[1]:
        X = X.T
    width = X.shape[1]
    if width == 1:
        return np.array([_frobenius_squared(X)])
    gram = _gram(X)
    if not gram.any():
        return np.zeros(width)
    _, top = scipy.linalg.eigh(gram, subset_by_index=(width - 1, width - 1), check_finite=False)
    v = top[:, 0]
    rest = _gram(X, without=v)
    largest = max(float(v @ (gram @ v)), 0.0)
    others = scipy.linalg.eigvalsh(rest, check_finite=False)[::-1][: width - 1]
    return np.concatenate([[largest], np.clip(others, 0.0, largest)])


def stable_rank(squares: np.ndarray) -> float:
    """sum s^2 / s_1^2 from squared singular values, largest first; NaN for a zero matrix."""
    return float(squares.sum() / squares[0]) if squares[0] > 0 else math.nan


def gram_stable_rank(squares: np.ndarray) -> float:
    """sum s^4 / s_1^4."""
    return 1.0 + gram_stable_rank_excess(squares)


def gram_stable_rank_excess(squares: np.ndarray) -> float:
    """sum over i >= 2 of (s_i/s_1)^4: the Gram stable rank minus one, without cancellation; NaN below 1e-300."""
    if not squares[0] > 0:
        return math.nan
    excess = float(np.sum((squares[1:] / squares[0]) ** 2))
    return excess if excess >= _SMALLEST else math.nan


def log_gram_stable_rank_excess(squares: np.ndarray) -> float:
    """Natural logarithm of the excess, also where the excess itself underflows; NaN for rank one."""
    positive = squares[1:][squares[1:] > 0]
    if not positive.size:
        return math.nan
    logs = 2 * (np.log(positive) - math.log(squares[0]))
    return float(np.logaddexp.reduce(logs))


def effective_rank(squares: np.ndarray) -> float:
    """exp of the entropy of s_i^2 / sum s^2."""
    total = squares.sum()
    if not total > 0:
        return math.nan
    shares = squares[squares > 0] / total
    return float(np.exp(-np.sum(shares * np.log(shares))))


def token_cosine(X: Any) -> float:
    """Mean cosine over ordered pairs of different tokens, in O(n d): (|sum of unit rows|^2 - n)/(n (n - 1)).

    Zero tokens have no direction and are left out; NaN with fewer than two others.
    """
    X = np.asarray(X)
    total, count = np.zeros(X.shape[1]), 0
    for rows in _tiles(X):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        kept = lengths > 0
        total += (rows[kept] / lengths[kept, None]).sum(axis=0)
        count += int(kept.sum())
    return float((total @ total - count) / (count * (count - 1))) if count > 1 else math.nan


def rank_one_residual(X: Any) -> float:
    """||X - 1 x^T||_F/||X||_F with x the mean token: the relative distance to equal tokens."""
    X = np.asarray(X)
    mean = sum((rows.sum(axis=0) for rows in _tiles(X)), np.zeros(X.shape[1])) / X.shape[0]
    apart = sum(float(np.sum((rows - mean) ** 2)) for rows in _tiles(X))
    total = _frobenius_squared(X)
    return math.sqrt(apart / total) if total > 0 else math.nan


def _tiles(X: np.ndarray) -> list[np.ndarray]:
    return [np.asarray(X[at : at + _TILE], dtype=np.float64) for at in range(0, X.shape[0], _TILE)]


def _frobenius_squared(X: np.ndarray) -> float:
    return sum(float(np.vdot(rows, rows)) for rows in _tiles(X))


def _gram(X: np.ndarray, without: np.ndarray | None = None) -> np.ndarray:
    """X^T X in float64, or that of X (I - v v^T)."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows in _tiles(X):
        if without is not None:
            rows = rows - np.outer(rows @ without, without)
        total += scipy.linalg.blas.dsyrk(1.0, rows.T, lower=0)
    return np.triu(total) + np.triu(total, 1).T

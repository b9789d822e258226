"""The two largest singular values and the smallest one of a dense matrix, without its whole spectrum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from scipy.linalg import blas

SMALL = 512  # up to here the whole spectrum costs no more
CONDITION = 1e5  # beyond it the Gram matrix has lost too many digits of the smallest value
TOLERANCE = 1e-9
_BASIS = 48


@dataclass(frozen=True)
class Extremes:
    """s_1, s_2 (0 where there is none) and s_k, k = min(m, n)."""

    largest: float
    second: float
    smallest: float


def extreme_singular_values(Z: np.ndarray) -> Extremes:
    """Extremes of Z (m, n), float64.

    Up to 512 on the shorter side from the whole spectrum. Beyond, Lanczos on the Gram matrix for the top, and on its
    inverse through a Cholesky factor for the bottom: relative errors below 1e-6 for condition numbers below 1e5; worse
    conditioned matrices are decomposed whole.
    """
    Z = np.asarray(Z, dtype=np.float64)
    if min(Z.shape) <= SMALL:
        return _from_spectrum(Z)
    short = Z if Z.shape[0] <= Z.shape[1] else Z.T
    gram = blas.dsyrk(1.0, short, lower=1) if short.flags.f_contiguous else blas.dsyrk(1.0, short.T, trans=1, lower=1)
    size = len(gram)
    start = np.cos(np.arange(size))

    def times(v: np.ndarray) -> np.ndarray:
        return blas.dsymv(1.0, gram, v.ravel(), lower=1)

    top = _lanczos(size, times, start, count=2)
    try:
        factor = scipy.linalg.cho_factor(gram, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return _from_spectrum(Z)
    inverse = _lanczos(size, lambda v: scipy.linalg.cho_solve(factor, v, check_finite=False), start, count=1)
    smallest = float(inverse[0]) ** -0.5
    if not smallest * CONDITION > top[0] ** 0.5:
        return _from_spectrum(Z)
    return Extremes(float(top[0]) ** 0.5, float(top[1]) ** 0.5, smallest)


def _lanczos(size: int, product, start: np.ndarray, *, count: int) -> np.ndarray:
    """The largest eigenvalues, descending."""
    operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=product, dtype=np.float64)
    found = scipy.sparse.linalg.eigsh(
        operator, k=count, which="LA", v0=start, tol=TOLERANCE, ncv=_BASIS, return_eigenvectors=False
    )
    return np.sort(found)[::-1]


def _from_spectrum(Z: np.ndarray) -> Extremes:
    """By the singular value decomposition: every value to a few eps of the largest."""
    values = scipy.linalg.svdvals(Z, check_finite=False)
    return Extremes(float(values[0]), float(values[1]) if len(values) > 1 else 0.0, float(values[-1]))

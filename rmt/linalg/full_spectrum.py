"""All singular values of a dense matrix, by the float64 Gram matrix where its error is provably small, else by an SVD.

The Gram route costs about a third of an SVD. Its known weakness is squaring: an absolute error delta in an eigenvalue
sigma^2 is an error delta / (2 sigma) in sigma, and delta scales with the *largest* eigenvalue. An attention matrix has
one singular value near 1 above a bulk near 2/sqrt(n), so that value is split off first and delta scales with the bulk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg import blas

__all__ = ["SingularValues", "singular_values"]

EPS = float(np.finfo(np.float64).eps)
LEADING_STEPS = 12
LEADING_RESIDUAL = 1e-12


@dataclass(frozen=True)
class SingularValues:
    """Singular values in descending order, each with a bound on its error.

    values, error_bound: (k,) float64, k = min of the two sides. method: "gram" or "svd".
    """

    values: np.ndarray
    error_bound: np.ndarray
    method: str


def singular_values(A, *, tolerance: float = 1e-9) -> SingularValues:
    """Every singular value of A (m, n), in float64 whatever the input dtype.

    `tolerance` is relative to the second singular value: the Gram route is kept only if the error bound of every value,
    the smallest included, is at most tolerance * s2. Otherwise (very small values: causal masks, condensed rows, rank
    deficiency) a bidiagonalising SVD runs and `method` says so. tolerance=0 asks for the SVD outright.

    Gram route (derived). With v close to the top right singular vector, s = |Av| and residual r = |A^T A v - s^2 v|,
    the values of A(I - vv^T) and s together are those of A up to r^2 / (s^2 - s2^2) in the squares (quadratic bound
    for a 2 x 2 block matrix). Rounding in the Gram matrix and in the eigenvalue solver adds
    eps (sqrt(min(m, n)) + 8) s2^2: the growth of rounding of dot products when its signs are random, not a worst case;
    the tests compare it with an SVD of the split matrix and find at most 0.2 of it.
    """
    A = np.asarray(A)
    if A.ndim != 2 or A.size == 0:
        raise ValueError(f"singular_values needs one non-empty matrix, got shape {A.shape}: pass one draw at a time")
    if not np.isfinite(A).all():
        raise ValueError("singular_values needs finite entries: found NaN or infinity in the matrix")
    work = np.array(A if A.shape[0] >= A.shape[1] else A.T, dtype=np.float64, order="C")
    if tolerance > 0 and work.shape[1] > 2:
        found = _by_gram(work)
        if found is not None and found.error_bound.max() <= tolerance * found.values[1]:
            return found
    return _by_svd(A)


def _by_svd(A: np.ndarray) -> SingularValues:
    """LAPACK gesdd without vectors: backward stable, so every value is within a few sqrt(n) eps of s1."""
    values = scipy.linalg.svdvals(np.asarray(A, dtype=np.float64), check_finite=False)
    bound = EPS * (np.sqrt(len(values)) + 8) * values[0]
    return SingularValues(values, np.full(len(values), bound), "svd")


def _by_gram(B: np.ndarray) -> SingularValues | None:
    """Split the top value off B (overwritten), then solve the Gram matrix; None if the top is unclear."""
    k = B.shape[1]
    top, v, w, residual = _leading(B)
    if not residual <= 1e-6 * top:
        return None
    split = blas.dger(-1.0, v, w, a=B.T, overwrite_a=1)  # (B - w v^T)^T, in Fortran order without a copy
    gram = blas.dsyrk(1.0, split, lower=1)
    squares = scipy.linalg.eigh(gram, lower=True, eigvals_only=True, driver="evd", overwrite_a=True, check_finite=False)
    rest = np.sqrt(np.maximum(squares[:0:-1], 0.0))  # ascending; the lowest is the null direction v itself
    gap = top**2 - rest[0] ** 2
    if gap <= 0:
        return None
    coupling = (top * residual) ** 2 / gap
    entries = EPS * (top + np.sqrt(np.maximum(squares.sum(), 0.0)))  # rounding of w v^T and of the subtraction
    delta = EPS * (np.sqrt(k) + 8) * rest[0] ** 2 + coupling
    bound = entries + _root_error(rest, delta)
    top_bound = EPS * (np.sqrt(k) + 8) * top + coupling / top
    return SingularValues(np.concatenate(([top], rest)), np.concatenate(([top_bound], bound)), "gram")


def _root_error(root: np.ndarray, delta: float) -> np.ndarray:
    """Largest |sqrt(t) - root| over t >= 0 with |t - root^2| <= delta."""
    return (
        root - np.sqrt(np.maximum(root**2 - delta, 0.0))
        if delta == 0
        else np.maximum(
            delta / (root + np.sqrt(np.maximum(root**2 - delta, 0.0)) + (root**2 < delta) * np.sqrt(delta)),
            np.sqrt(root**2 + delta) - root,
        )
    )


def _leading(B: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Power steps from the column sums: (s, v, Bv, |B^T B v / s - s v|). Few are needed when one value leads."""
    v = B.sum(axis=0)
    norm = np.linalg.norm(v)
    v = v / norm if norm > 0 else np.full(B.shape[1], B.shape[1] ** -0.5)
    previous = np.inf
    for _ in range(LEADING_STEPS):
        w = B @ v
        top = float(np.linalg.norm(w))
        if top == 0:
            return 0.0, v, w, np.inf
        image = w @ B / top
        residual = float(np.linalg.norm(image - top * v))
        if residual <= LEADING_RESIDUAL * top or residual > 0.5 * previous:
            break
        previous = residual
        v = image / np.linalg.norm(image)
    return top, v, w, residual

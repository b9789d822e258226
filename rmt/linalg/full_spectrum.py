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
POWER_STEPS = 12
POWER_RESIDUAL = 1e-12
SPLIT_RESIDUAL = 1e-6


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

    Gram route (derived). If power steps find a unit v with residual r = |A^T A v / s - s v| <= 1e-6 s, A v = s u,
    then the values of (I - u u^T) A and s together are those of A up to a relative r^2 / (s^2 - s2^2) (Schur complement
    of the first row and column). Rounding in the Gram matrix and in the eigenvalue solver changes the square l by at
    most eps (16 l_max + 4 sqrt(k) l), k = min(m, n). These constants are measured, not worst cases (which grow like n
    and are never seen): on permutations, Gaussian, softmax and prescribed spectra up to n = 2048 the error reached half
    of that; the tests repeat it.
    """
    A = np.asarray(A)
    if A.ndim != 2 or A.size == 0:
        raise ValueError(f"singular_values needs one non-empty matrix, got shape {A.shape}: pass one draw at a time")
    if not np.isfinite(A).all():
        raise ValueError("singular_values needs finite entries: found NaN or infinity in the matrix")
    work = np.array(A if A.shape[0] >= A.shape[1] else A.T, dtype=np.float64, order="C")
    if tolerance > 0 and work.shape[1] > 2:
        found = _by_gram(work)
        if found.error_bound.max() <= tolerance * found.values[1]:
            return found
    return _by_svd(A)


def _by_svd(A: np.ndarray) -> SingularValues:
    """LAPACK gesdd without vectors: backward stable, so every value is within a few sqrt(n) eps of s1."""
    values = scipy.linalg.svdvals(np.asarray(A, dtype=np.float64), check_finite=False)
    bound = EPS * (np.sqrt(len(values)) + 8) * values[0]
    return SingularValues(values, np.full(len(values), bound), "svd")


def _by_gram(B: np.ndarray) -> SingularValues:
    """Values of B (m, k), m >= k; B is overwritten."""
    k = B.shape[1]
    top, w, residual = _leading(B)
    if residual > SPLIT_RESIDUAL * top:
        squares = np.maximum(_gram_eigenvalues(B.T)[::-1], 0.0)
        return SingularValues(np.sqrt(squares), _root_error(squares, _rounding(squares)), "gram")
    left = w / top
    split = blas.dger(-1.0, left @ B, left, a=B.T, overwrite_a=1)  # ((I - u u^T) B)^T, Fortran order, no copy
    squares = np.maximum(_gram_eigenvalues(split)[:0:-1], 0.0)  # the lowest one belongs to v
    rest = np.sqrt(squares)
    gap = top**2 - squares[0]
    if gap <= 0.5 * top**2:  # v converged to something that does not lead
        return SingularValues(np.append(top, rest), np.full(k, np.inf), "gram")
    coupling = residual**2 / gap
    entries = EPS * (top + np.sqrt(squares.sum()))  # rounding of u u^T B and of the subtraction, in Frobenius norm
    bound = entries + coupling * rest + _root_error(squares, _rounding(squares))
    return SingularValues(np.append(top, rest), np.append((EPS * np.sqrt(k) + coupling) * top, bound), "gram")


def _gram_eigenvalues(transposed: np.ndarray) -> np.ndarray:
    """Eigenvalues, ascending, of T T^T for T (k, m) in Fortran order."""
    gram = blas.dsyrk(1.0, transposed, lower=1)
    return scipy.linalg.eigh(gram, lower=True, eigvals_only=True, driver="evd", overwrite_a=True, check_finite=False)


def _rounding(squares: np.ndarray) -> np.ndarray:
    """Error of computed eigenvalues (k,), descending, of a Gram matrix (k, k)."""
    return EPS * (16 * squares[0] + 4 * np.sqrt(len(squares)) * squares)


def _root_error(squares: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Largest |sqrt(t) - sqrt(squares)| over t >= 0 with |t - squares| <= delta."""
    root, inside = np.sqrt(squares), squares - delta
    below = root.copy()
    above = inside > 0
    below[above] = delta[above] / (root[above] + np.sqrt(inside[above]))
    return np.maximum(below, np.sqrt(squares + delta) - root)


def _leading(B: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Power steps from the column sums: (s, Bv, |B^T B v / s - s v|), s = |Bv|. Few are needed when one value leads."""
    v = B.sum(axis=0)
    norm = np.linalg.norm(v)
    v = v / norm if norm > 0 else np.full(B.shape[1], B.shape[1] ** -0.5)
    previous = np.inf
    for _ in range(POWER_STEPS):
        w = B @ v
        top = float(np.linalg.norm(w))
        if top == 0:
            return 0.0, w, np.inf
        image = w @ B / top
        residual = float(np.linalg.norm(image - top * v))
        if residual <= POWER_RESIDUAL * top or residual > 0.5 * previous:
            break
        previous = residual
        v = image / np.linalg.norm(image)
    return top, w, residual

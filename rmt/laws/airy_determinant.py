"""Fredholm determinants of the Airy operator: the Tracy-Widom laws from their definition (Bornemann 2010).

B_s is the integral operator on (0, inf) with kernel Ai(x + y + s). Then F_1(s) = det(1 - B_s) (Ferrari and Spohn 2005),
F_2(s) = det(1 - B_s^2), and the third of the family is (det(1 - B_s) + det(1 + B_s)) / 2. On Gauss-Legendre nodes the
operator is a symmetric matrix; the kernel is entire, so the error falls exponentially with the number of nodes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from rmt.laws.law import Array

Beta = Literal[1, 2, 4]

_NODES = 45  # 30 give 14 digits for s >= -4; 60 and 90 give the same numbers


def airy_eigenvalues(s: ArrayLike) -> Array:
    """Eigenvalues of B_s, shape (..., 45), for s in about [-8, 100]: absolute error 1e-16, small ones also relative."""
    s = np.asarray(s, dtype=float)
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    half = np.maximum(16 - s, 8.0)[..., None] / 2  # beyond twice it the kernel is below 1e-17 of its largest value
    row, column = np.tril_indices(_NODES)  # Airy functions are the cost, and the kernel is symmetric
    kernel = np.zeros((*s.shape, _NODES, _NODES))
    kernel[..., row, column] = special.airy((node[row] + node[column] + 2) * half + s[..., None])[0]
    kernel[..., row, column] *= np.sqrt(weight[row] * weight[column]) * half
    return np.linalg.eigvalsh(kernel, UPLO="L")


def log_cdf_by_determinant(beta: Beta, s: ArrayLike) -> Array:
    """log F(s) of the determinants above, beta = 1, 2, 4; for s >= -4 to 1e-12 or better, relative.

    To the left the determinant is a small number found by cancellation, with an absolute error of 1e-16. To the right
    log F itself is small and keeps its digits, so that survival probabilities down to 1e-300 are right.
    """
    return log_cdf_of(beta, airy_eigenvalues(s))


def log_cdf_of(beta: Beta, eigenvalues: Array) -> Array:
    """The same from the eigenvalues (..., m) of B_s."""
    if beta == 1:
        return np.log1p(-eigenvalues).sum(axis=-1)
    if beta == 2:
        return np.log1p(-(eigenvalues**2)).sum(axis=-1)
    # the even elementary symmetric functions of the eigenvalues; the tenth is below 1e-16 for s >= -4
    symmetric = np.zeros((9, *eigenvalues.shape[:-1]))
    symmetric[0] = 1.0
    for value in np.moveaxis(eigenvalues, -1, 0):
        symmetric[1:] += value * symmetric[:-1]
    return np.log1p(symmetric[2::2].sum(axis=0))


def density_ratio(s: float) -> tuple[float, float]:
    """d log F_1 / ds and d log F_2 / ds at one s, from the derivative of the kernel: -tr (1 - B)^-1 B' and so on."""
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    length = max(16 - s, 8.0)
    x, root = (node + 1) * length / 2, np.sqrt(weight * length / 2)
    ai, slope, _, _ = special.airy(x[:, None] + x + s)
    b, change = (root[:, None] * k * root for k in (ai, slope))
    eye = np.eye(_NODES)
    minus, plus = np.trace(np.linalg.solve(eye - b, change)), np.trace(np.linalg.solve(eye + b, change))
    return float(-minus), float(plus - minus)

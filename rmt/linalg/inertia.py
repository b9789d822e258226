"""An exact count of the singular values above a level (Sylvester's law of inertia), and the certificate it gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import blas, lapack

from rmt.linalg.top_singular import TopSingularValues

__all__ = ["certify_by_count", "count_above"]


def count_above(A, level: float) -> int:
    """How many singular values of A (m, n) exceed `level` >= 0.

    Counts the negative eigenvalues of level^2 I - A^T A from its factors L D L^T (Bunch-Kaufman), in float64. Exact
    unless a singular value lies within about n eps s1^2 / (2 level) of the level. Costs one Gram matrix and n^3/3.
    """
    A = np.asarray(A)
    if A.ndim != 2 or not level >= 0:
        raise ValueError(f"count_above needs one matrix and a level >= 0, got shape {A.shape} and level {level}")
    work = np.array(A if A.shape[0] >= A.shape[1] else A.T, dtype=np.float64, order="C")
    shifted = blas.dsyrk(-1.0, work.T, lower=1)
    shifted[np.diag_indices_from(shifted)] += level**2
    factor, pivots, info = lapack.dsytrf(shifted, lower=1, overwrite_a=1)
    if info < 0:
        raise ArithmeticError(f"dsytrf refused argument {-info}: check the matrix for NaN")
    return _negative_blocks(factor, pivots)


def _negative_blocks(factor: np.ndarray, pivots: np.ndarray) -> int:
    """Negative eigenvalues of D: a 1 x 1 block by its sign; a 2 x 2 block (two negative pivots) has one of each sign."""
    negative, k = 0, 0
    while k < len(pivots):
        if pivots[k] >= 0:
            negative += int(factor[k, k] < 0)
            k += 1
        else:
            negative += int(np.sum(np.linalg.eigvalsh(factor[k : k + 2, k : k + 2]) < 0))
            k += 2
    return negative


def certify_by_count(found: TopSingularValues, A) -> TopSingularValues:
    """`found` with the probabilistic bound replaced by an exact count, for the dense matrix A it was computed from.

    Raises ArithmeticError if more singular values exceed the last one's upper end than `found` lists.
    """
    level = float(found.upper[-1]) * (1 + 1e-9)
    count, listed = count_above(A, level), len(found.values) - 1
    if count > listed:
        raise ArithmeticError(
            f"{count} singular values exceed {level:.9g}, but only {listed} were found there: "
            "repeat top_singular_values with a new probe or more columns"
        )
    words = f"residual intervals; exactly {count} singular values above {level:.6g} (Sylvester count)"
    return replace(found, missed_above=level, failure_probability=0.0, certificate=words)

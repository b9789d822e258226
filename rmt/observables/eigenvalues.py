"""What the eigenvalues of attention matrices say. One matrix (n, n) at a time, complex128, O(25 n^3): n to about 2048."""

from __future__ import annotations

import numpy as np
import scipy.linalg

__all__ = ["eigenvalues", "second_eigenvalue_modulus"]


def eigenvalues(A: np.ndarray) -> np.ndarray:
    """All eigenvalues (n,) of A, by falling modulus.

    A row-stochastic A has the eigenvalue 1, and A - 11^T/n has 0 in its place and the others as they were (any 1 v^T with
    v^T 1 = 1 does it: Brauer). Under a causal mask they are the diagonal entries: real, and no sign of what A does to
    tokens. They are read off there, because the eigenvalues of a triangular matrix are lost to rounding.
    """
    A = np.asarray(A, dtype=np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not np.isfinite(A).all():
        raise ValueError(f"eigenvalues need one finite square matrix, got shape {A.shape}: pass one draw at a time")
    triangular = not np.any(np.triu(A, 1))
    found = np.diagonal(A).astype(complex) if triangular else scipy.linalg.eigvals(A, check_finite=False)
    return found[np.argsort(-np.abs(found), kind="stable")]


def second_eigenvalue_modulus(values: np.ndarray) -> float:
    """|lambda_2| of eigenvalues (n,) by falling modulus; nan for n = 1."""
    return float(abs(values[1])) if values.size > 1 else float("nan")

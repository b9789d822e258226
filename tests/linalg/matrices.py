"""Matrices with known or typical singular values, shared by the tests of this folder and of the observables."""

from __future__ import annotations

import numpy as np


def gram(A):
    """V -> A^T A V in the dtype of A, as an attention matrix gives it."""

    def product(V):
        return (A.T @ (A @ V.astype(A.dtype))).astype(np.float64)

    return product


def normalised(weights, dtype=np.float32):
    return (weights / weights.sum(axis=1, keepdims=True)).astype(dtype)


def lognormal(n, beta, rng, dtype=np.float32):
    return normalised(np.exp(beta * rng.standard_normal((n, n))), dtype)


def key_query(n, head_dim, beta, rng, dtype=np.float32):
    logits = beta / np.sqrt(head_dim) * rng.standard_normal((n, head_dim)) @ rng.standard_normal((head_dim, n))
    return normalised(np.exp(logits - logits.max(axis=1, keepdims=True)), dtype)


def causal(n, beta, rng, dtype=np.float32):
    return normalised(np.tril(np.exp(beta * rng.standard_normal((n, n)))), dtype)


def cesaro(n):
    """C_ij = 1/i for j <= i: uniform causal attention."""
    return np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]


def cesaro_values(n):
    """Its singular values, from the tridiagonal inverse of C C^T: diagonal i^2 + (i-1)^2, off-diagonal -i^2."""
    import scipy.linalg

    i = np.arange(1.0, n + 1)
    inverse = scipy.linalg.eigh_tridiagonal(i**2 + (i - 1) ** 2, -(i[:-1] ** 2), eigvals_only=True)
    return 1 / np.sqrt(inverse)


def with_values(values, rng, rows=None):
    """Haar U diag(values) V^T, (rows, k)."""
    k = len(values)
    U = np.linalg.qr(rng.standard_normal((rows or k, k)))[0]
    V = np.linalg.qr(rng.standard_normal((k, k)))[0]
    return (U * values) @ V.T

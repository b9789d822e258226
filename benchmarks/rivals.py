"""What a user would write with NumPy and SciPy instead: the other side of the races, also as a script.

python -m benchmarks.rivals svd|arpack N DRAWS
"""

from __future__ import annotations

import sys

import numpy as np


def softmax_matrix(n: int, beta: float, generator: np.random.Generator, dtype: type = np.float64) -> np.ndarray:
    """Row softmax of iid normal logits."""
    logits = beta * generator.standard_normal((n, n), dtype=dtype)
    logits = logits.astype(dtype, copy=False)
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits


def by_svd(n: int, beta: float, generator: np.random.Generator) -> tuple[float, float, float]:
    """s1, s2 and the stable rank through float64 softmax and a full SVD."""
    A = softmax_matrix(n, beta, generator)
    values = np.linalg.svd(A, compute_uv=False)
    return float(values[0]), float(values[1]), float((values**2).sum() / values[0] ** 2)


def by_arpack(n: int, beta: float, generator: np.random.Generator) -> tuple[float, float, float]:
    """The same through float32 softmax and ARPACK at 1e-3."""
    from scipy.sparse.linalg import svds

    A = softmax_matrix(n, beta, generator, np.float32)
    values = np.sort(svds(A, k=2, tol=1e-3, return_singular_vectors=False))[::-1]
    return float(values[0]), float(values[1]), float(np.square(A, dtype=np.float64).sum() / values[0] ** 2)


if __name__ == "__main__":
    method = {"svd": by_svd, "arpack": by_arpack}[sys.argv[1]]
    source = np.random.default_rng(0)
    for _ in range(int(sys.argv[3])):
        print(*method(int(sys.argv[2]), 0.8326, source))

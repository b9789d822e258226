"""Left singular directions that a repair takes off: those of the causal mean, or the outliers of a matrix itself."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from rmt.attention.mixing import Mixing
from rmt.attention.running_mean import running_mean, running_mean_transposed

__all__ = ["ladder_directions", "leading_directions"]

MODES = 4
MOST = 12  # outliers that are looked for
STEP = 1.25  # ratio of neighbouring singular values that separates outliers from the bulk


@functools.lru_cache(maxsize=8)
def ladder_directions(n: int, modes: int = MODES) -> np.ndarray:
    """The leading left singular vectors of C, (n, modes): the modes that any causal attention shares."""
    return _top(n, min(modes, n), lambda V: running_mean(running_mean_transposed(V)))[0]


def leading_directions(A: Mixing) -> np.ndarray:
    """Left singular vectors of the outliers of A, (n, k) with 1 <= k <= 12.

    The outliers are the singular values down to the last one, of the first 12, that exceeds the next by a quarter; the
    bulk ends in a square root, so neighbours there differ by far less (n >= 100). Found by subspace iteration.
    """
    vectors, values = _top(A.n, min(MOST + 1, A.n), lambda V: A.apply(A.transposed(V)))
    steps = np.flatnonzero(values[:-1] > STEP**2 * values[1:])
    return vectors[:, : int(steps[-1]) + 1 if steps.size else 1]


def _top(n: int, count: int, product: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvectors and eigenvalues of a positive matrix by block iteration with a fixed start, in float64."""
    width = min(2 * count + 4, n)
    place = np.arange(n)[:, None] + 0.5
    basis = np.cos(np.pi / n * place * np.arange(width))  # a smooth start, and the same at every call
    for _ in range(12):
        basis, _ = np.linalg.qr(product(basis))
    values, turn = np.linalg.eigh(basis.T @ product(basis))
    order = np.argsort(values)[::-1][:count]
    return basis @ turn[:, order], values[order]

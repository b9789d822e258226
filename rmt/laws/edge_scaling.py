"""Where the largest eigenvalue of a Gaussian matrix sits and how far it moves, in the units of `TracyWidom`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.law import Array, positive


@dataclass(frozen=True)
class EdgeScaling:
    """largest eigenvalue = centre + scale * X, with X close to `TracyWidom(beta)`."""

    centre: float
    scale: float

    def standardise(self, largest: ArrayLike) -> Array:
        """(largest - centre) / scale: compare this with TracyWidom(beta)."""
        return (np.asarray(largest, dtype=float) - self.centre) / self.scale

    def place(self, x: ArrayLike) -> Array:
        """centre + scale x: the largest eigenvalue at a Tracy-Widom value x."""
        return self.centre + self.scale * np.asarray(x, dtype=float)


def wigner_edge(n: int, *, beta: Literal[1, 2] = 1, variance: float = 1.0) -> EdgeScaling:
    """Symmetric (beta = 1) or Hermitian (2) Gaussian n x n matrix, off-diagonal entries of variance E|h|^2 = `variance`.

    Centre 2 sqrt(n variance), scale sqrt(variance) n^(-1/6); with n - 1/2 for n when beta = 1, which leaves an error of
    order n^(-2/3) instead of n^(-1/3) (Johnstone and Ma 2012). Diagonal entries have variance (2 / beta) `variance`.
    """
    _size(n, beta)
    positive("variance", variance)
    m = n - 0.5 if beta == 1 else float(n)
    return EdgeScaling(2 * math.sqrt(m * variance), math.sqrt(variance) * m ** (-1 / 6))


def wishart_edge(
    rows: int,
    columns: int,
    *,
    beta: Literal[1, 2] = 1,
    variance: float = 1.0,
    correction: Literal["ma", "johnstone", "none"] = "ma",
) -> EdgeScaling:
    """Largest eigenvalue of X^T X (or X X^T), X of shape (rows, columns) with Gaussian entries of this variance.

    Centre (sqrt n + sqrt p)^2, scale (sqrt n + sqrt p)(1/sqrt n + 1/sqrt p)^(1/3), times the variance, where for
    beta = 1 n and p are the sizes less 1/2 each ("ma", error of order min(n, p)^(-2/3): Ma 2012), or the larger one less
    1 ("johnstone", 2001), and for beta = 2 the sizes themselves. Square the singular values before you compare.
    """
    _size(min(rows, columns), beta)
    positive("variance", variance)
    if correction not in ("ma", "johnstone", "none"):
        raise ValueError(f"correction {correction}: must be ma, johnstone or none")
    n, p = float(max(rows, columns)), float(min(rows, columns))
    if beta == 1 and correction == "ma":
        n, p = n - 0.5, p - 0.5
    elif beta == 1 and correction == "johnstone":
        n -= 1
    total = math.sqrt(n) + math.sqrt(p)
    scale = total * (1 / math.sqrt(n) + 1 / math.sqrt(p)) ** (1 / 3)
    return EdgeScaling(variance * total**2, variance * scale)


def _size(n: int, beta: int) -> None:
    if n < 2:
        raise ValueError(f"size {n}: must be at least 2")
    if beta not in (1, 2):
        raise ValueError(f"beta {beta}: must be 1 or 2")

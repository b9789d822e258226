"""Tokens as a common mean and what is left, so that a collapse can be followed far below rounding.

Collapsed tokens are one vector plus a remainder that soon is smaller than the rounding of the vector. Attention that
keeps constants (A 1 = 1) moves the two apart from each other: A (1 m^T + R) = 1 m^T + A R. Kept in two arrays, neither
is ever subtracted from the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["SplitTokens", "split"]


@dataclass(frozen=True, eq=False)
class SplitTokens:
    """X = e^log_scale (1 mean^T + rest): mean (d,), rest (n, d) with column means zero, float64.

    rest may be smaller than mean by any factor a double can hold (1e-150, so that its square is a number).
    """

    mean: np.ndarray
    rest: np.ndarray
    log_scale: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        return self.rest.shape[0], self.rest.shape[1]

    def dense(self) -> np.ndarray:
        """X (n, d), where the rest drowns in the rounding of the mean if it is smaller than that."""
        return math.exp(self.log_scale) * (self.mean + self.rest)

    def times(self, weights: np.ndarray) -> SplitTokens:
        """X W."""
        return SplitTokens(self.mean @ weights, self.rest @ weights, self.log_scale)

    def scaled(self, factor: float) -> SplitTokens:
        """factor X."""
        return SplitTokens(factor * self.mean, factor * self.rest, self.log_scale)

    def plus(self, other: SplitTokens) -> SplitTokens:
        """The sum of two token matrices, in the scale of the first."""
        factor = math.exp(other.log_scale - self.log_scale)
        return SplitTokens(self.mean + factor * other.mean, self.rest + factor * other.rest, self.log_scale)

    def levelled(self) -> SplitTokens:
        """The same X with entries of order one and the rest in log_scale: deep linear networks neither overflow nor vanish."""
        size = max(float(np.abs(self.mean).max()), float(np.abs(self.rest).max()))
        if not 0 < size < math.inf:
            return self
        return SplitTokens(self.mean / size, self.rest / size, self.log_scale + math.log(size))


def split(X: np.ndarray) -> SplitTokens:
    """X (n, d) as its mean over tokens and the rest."""
    return moved(np.zeros(X.shape[1]), np.asarray(X, dtype=np.float64))


def moved(mean: np.ndarray, rest: np.ndarray, log_scale: float = 0.0) -> SplitTokens:
    """1 mean^T + rest with the column means of rest moved into the mean."""
    extra = rest.mean(axis=0)
    rest = rest - extra
    return SplitTokens(mean + extra, rest - rest.mean(axis=0), log_scale)

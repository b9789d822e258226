"""The two matrices of a softmax head, as a vector space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Weights:
    """A head `f(x_i) = A sum_j softmax_j(x_i^T B x_j) x_j`: `value` is A (p, d), `score` is B (d, d).

    Rows of `score` belong to the query, columns to the key. Gradients, directions and optimiser
    moments are weights too, so sums, multiples and inner products are defined here once.
    """

    value: np.ndarray
    score: np.ndarray

    def __add__(self, other: Weights) -> Weights:
        return Weights(self.value + other.value, self.score + other.score)

    def __sub__(self, other: Weights) -> Weights:
        return Weights(self.value - other.value, self.score - other.score)

    def __rmul__(self, factor: float) -> Weights:
        return Weights(factor * self.value, factor * self.score)

    def dot(self, other: Weights) -> float:
        """Euclidean inner product over both matrices."""
        return float(np.vdot(self.value, other.value) + np.vdot(self.score, other.score))

    @property
    def norm(self) -> float:
        """Euclidean norm over both matrices."""
        return float(np.hypot(np.linalg.norm(self.value), np.linalg.norm(self.score)))

    @property
    def is_finite(self) -> bool:
        """False as soon as one entry is infinite or not a number."""
        return bool(np.isfinite(self.value).all() and np.isfinite(self.score).all())

    def vector(self) -> np.ndarray:
        """All entries, (p d + d d,), value first, rows before columns."""
        return np.concatenate([self.value.ravel(), self.score.ravel()])

    def like(self, vector: np.ndarray) -> Weights:
        """Weights of this shape with the entries of `vector` (the inverse of `vector()`)."""
        split = self.value.size
        return Weights(vector[:split].reshape(self.value.shape), vector[split:].reshape(self.score.shape))

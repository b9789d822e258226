"""Empirical risk of a softmax head: loss, gradient and Hessian products in O(n d) memory.

Rows of the n x n attention matrix are made, used and dropped in tiles that fit a core's cache; per entry the
gradient costs its four products of size n x n x d, one exponential and four cheap passes. Tiles depend on n alone,
so results do not change with threads or memory.

With r_i = y_i - A m_i, m_i = sum_j P_ij x_j, v_i = A^T r_i and C_i the covariance of the tokens under row i of P,

    dA = -(1/n) sum_i r_i m_i^T,      dB = -(1/n) sum_i x_i (C_i v_i)^T

(derived by differentiating the softmax; the tests compare with finite differences).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rmt.regression.softmax_problem import Contexts
from rmt.regression.softmax_weights import Weights

_TILE_ENTRIES = (
    2**15
)  # 256 KiB of float64: such arrays stay in a core's cache and are handed out again without a page fault
_TILE_ROWS = 32  # never thinner, or the matrix products lose their speed


@dataclass(frozen=True, eq=False)
class EmpiricalRisk:
    """1/(2 N) sum |y_i - f(x_i)|^2 over the N queries of all contexts.

    `rows` (m,) picks queries by flat index and averages over those alone; their contexts stay whole, so over
    random rows the gradient is unbiased.
    """

    contexts: Contexts
    rows: np.ndarray | None = None

    def value(self, weights: Weights) -> float:
        """Risk without derivatives (two products instead of four)."""
        total = 0.0
        for tile in self._tiles(weights):
            total += float(np.vdot(tile.residuals, tile.residuals))
        return 0.5 * total / self._count

    def value_and_gradient(self, weights: Weights) -> tuple[float, Weights]:
        """Risk and gradient in one sweep over the attention matrix."""
        total, value, score = 0.0, np.zeros_like(weights.value), np.zeros_like(weights.score)
        for tile in self._tiles(weights):
            total += float(np.vdot(tile.residuals, tile.residuals))
            value -= tile.residuals.T @ tile.means
            pull = tile.residuals @ weights.value
            moved = tile.covariance_product(pull)
            score -= tile.queries.T @ moved
        return 0.5 * total / self._count, (1.0 / self._count) * Weights(value, score)

    def hessian_product(self, weights: Weights, direction: Weights) -> Weights:
        """Second derivative at `weights` applied to `direction`, also in one sweep.

        The change of C_i v_i is the third cumulant of the tokens under row i, contracted with v_i and with the
        change u_i = dB^T x_i of the tilt, plus C_i times the change of v_i.
        """
        value, score = np.zeros_like(weights.value), np.zeros_like(weights.score)
        for tile in self._tiles(weights):
            pull = tile.residuals @ weights.value
            tilt = tile.centred(tile.queries @ direction.score)
            drift = tile.average(tilt)
            residual_change = -(tile.means @ direction.value.T + drift @ weights.value.T)
            pull_change = tile.residuals @ direction.value + residual_change @ weights.value
            value -= residual_change.T @ tile.means + tile.residuals.T @ drift
            tilt *= tile.centred(pull)
            tilt += tile.centred(pull_change)
            moved = tile.average(tilt) - tile.total(tilt)[:, None] * tile.means
            score -= tile.queries.T @ moved
        return (1.0 / self._count) * Weights(value, score)

    @property
    def _count(self) -> int:
        return self.contexts.queries if self.rows is None else len(self.rows)

    def _tiles(self, weights: Weights) -> Iterator[_Tile]:
        length = self.contexts.tokens.shape[1]
        height = max(_TILE_ROWS, _TILE_ENTRIES // length)
        for context, (tokens, labels) in enumerate(zip(self.contexts.tokens, self.contexts.labels, strict=True)):
            if self.rows is not None:
                mine = self.rows[self.rows // length == context] % length
                asked, answers = tokens[mine], labels[mine]
            else:
                asked, answers = tokens, labels
            for start in range(0, len(asked), height):
                part = slice(start, start + height)
                yield _tile(tokens, asked[part], answers[part], weights)


@dataclass(frozen=True, eq=False)
class _Tile:
    """Some rows of the attention matrix: unnormalised shares (r, n) and what follows from them."""

    tokens: np.ndarray
    queries: np.ndarray
    shares: np.ndarray
    totals: np.ndarray
    means: np.ndarray
    residuals: np.ndarray

    def average(self, factors: np.ndarray) -> np.ndarray:
        """sum_j P_ij factors_ij x_j, (r, d)."""
        return (self.shares * factors) @ self.tokens / self.totals[:, None]

    def total(self, factors: np.ndarray) -> np.ndarray:
        """sum_j P_ij factors_ij, (r,)."""
        return np.einsum("ij,ij->i", self.shares, factors) / self.totals

    def centred(self, directions: np.ndarray) -> np.ndarray:
        """directions_i . (x_j - m_i), (r, n)."""
        return directions @ self.tokens.T - np.einsum("id,id->i", directions, self.means)[:, None]

    def covariance_product(self, directions: np.ndarray) -> np.ndarray:
        """C_i directions_i, (r, d), with two products."""
        along = directions @ self.tokens.T
        along *= self.shares
        mean_along = np.einsum("id,id->i", directions, self.means)
        return along @ self.tokens / self.totals[:, None] - mean_along[:, None] * self.means


def _tile(tokens: np.ndarray, queries: np.ndarray, labels: np.ndarray, weights: Weights) -> _Tile:
    shares = (queries @ weights.score) @ tokens.T
    shares -= shares.max(axis=1, keepdims=True)
    np.exp(shares, out=shares)
    totals = shares.sum(axis=1)
    means = shares @ tokens / totals[:, None]
    return _Tile(tokens, queries, shares, totals, means, labels - means @ weights.value.T)

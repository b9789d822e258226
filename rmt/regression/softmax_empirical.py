"""Empirical risk of a softmax head: loss, gradient and Hessian products in O(n d) memory.

The n x n attention matrix is made, used and dropped a few rows at a time, and those rows block by block of keys that
fit a core's cache; per entry the gradient costs its four products of size n x n x d, one exponential and two cheap passes
(four where a logit might overflow, so that its row's maximum has to come off). Tiles depend on n alone, so results do
not change with threads or memory.

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

_KEYS = 512  # of a block, at most
_ENTRIES = 2**15  # of a block: 256 KiB of float64, which stay in cache and are handed out again without a page fault
_SAFE_LOGIT = 300.0  # sums of n exponentials of at most this, and their quotients, are far from overflow and underflow


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
            pull, turn = tile.residuals @ weights.value, tile.queries @ direction.score
            drift = tile.covariance_product(turn)
            residual_change = -(tile.means @ direction.value.T + drift @ weights.value.T)
            pull_change = tile.residuals @ direction.value + residual_change @ weights.value
            value -= residual_change.T @ tile.means + tile.residuals.T @ drift
            score -= tile.queries.T @ tile.covariance_change(turn, pull, pull_change)
        return (1.0 / self._count) * Weights(value, score)

    @property
    def _count(self) -> int:
        return self.contexts.queries if self.rows is None else len(self.rows)

    def _tiles(self, weights: Weights) -> Iterator[_Tile]:
        """Tiles in order of contexts and queries; each is valid until the next is made."""
        length = self.contexts.tokens.shape[1]
        height = _ENTRIES // min(length, _KEYS)
        for context, (tokens, labels) in enumerate(zip(self.contexts.tokens, self.contexts.labels, strict=True)):
            if self.rows is not None:
                mine = self.rows[self.rows // length == context] % length
                asked, answers = tokens[mine], labels[mine]
            else:
                asked, answers = tokens, labels
            keys = _keys(tokens)
            rows = min(height, len(asked))
            room = [np.empty((rows, len(block))) for block in (*keys.tokens, keys.tokens[0])]
            for start in range(0, len(asked), height):
                part = slice(start, start + height)
                yield _tile(keys, room, asked[part], answers[part], weights)


@dataclass(frozen=True, eq=False)
class _Keys:
    """The tokens of a context in blocks (k, d), their transposes (d, k), and the largest norm of a token."""

    tokens: list[np.ndarray]
    across: list[np.ndarray]
    longest: float


def _keys(tokens: np.ndarray) -> _Keys:
    blocks = [tokens[start : start + _KEYS] for start in range(0, len(tokens), _KEYS)]
    longest = float(np.sqrt(np.einsum("jd,jd->j", tokens, tokens).max()))
    return _Keys(blocks, [np.ascontiguousarray(block.T) for block in blocks], longest)


@dataclass(frozen=True, eq=False)
class _Tile:
    """Some rows of the attention matrix: unnormalised shares, in blocks (r, k), and what follows from them.

    `spare` is room for one more block, so that none has to be asked for and paged in again and again.
    Under row i keys have the law P_i, with `means` m_i (r, d) and covariance C_i.
    """

    keys: _Keys
    queries: np.ndarray
    shares: list[np.ndarray]
    spare: np.ndarray
    totals: np.ndarray
    means: np.ndarray
    residuals: np.ndarray

    def covariance_product(self, directions: np.ndarray) -> np.ndarray:
        """C_i directions_i, (r, d), with two products."""
        found = np.zeros_like(self.means)
        for tokens, across, shares in zip(self.keys.tokens, self.keys.across, self.shares, strict=True):
            along = np.matmul(directions, across, out=self.spare[:, : len(tokens)])
            along *= shares
            found += along @ tokens
        return found / self.totals[:, None] - _dot(directions, self.means)[:, None] * self.means

    def covariance_change(self, turn: np.ndarray, directions: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Derivative of C_i directions_i, (r, d), as the tilts of the softmax move by `turn` and directions by `change`.

        sum_j P_ij (x_j - m_i) [turn_i.(x_j - m_i) directions_i.(x_j - m_i) + change_i.x_j]: the third cumulant, and C_i change_i.
        """
        found, total = np.zeros_like(self.means), np.zeros_like(self.totals)
        at_mean, sideways = _dot(turn, self.means)[:, None], _dot(directions, self.means)[:, None]
        for tokens, across, shares in zip(self.keys.tokens, self.keys.across, self.shares, strict=True):
            along = (turn @ across - at_mean) * (directions @ across - sideways)
            along += change @ across
            along *= shares
            found += along @ tokens
            total += along.sum(axis=1)
        return (found - total[:, None] * self.means) / self.totals[:, None]


def _dot(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.einsum("id,id->i", first, second)


def _tile(keys: _Keys, room: list[np.ndarray], queries: np.ndarray, labels: np.ndarray, weights: Weights) -> _Tile:
    """The logits of a tile are bounded before they are made (Cauchy-Schwarz), so that most need no maximum."""
    tilts = queries @ weights.score
    *shares, spare = (space[: len(queries)] for space in room)
    safe = float(np.linalg.norm(tilts, axis=1).max()) * keys.longest <= _SAFE_LOGIT
    largest = np.zeros(1)
    if not safe:
        largest = np.max([(tilts @ across).max(axis=1) for across in keys.across], axis=0)
    totals, sums, ones = np.zeros(len(queries)), np.zeros_like(queries), np.ones(len(keys.tokens[0]))
    for tokens, across, share in zip(keys.tokens, keys.across, shares, strict=True):
        np.matmul(tilts, across, out=share)
        if not safe:
            share -= largest[:, None]
        np.exp(share, out=share)
        totals += share @ ones[: len(tokens)]
        sums += share @ tokens
    means = sums / totals[:, None]
    return _Tile(keys, queries, shares, spare, totals, means, labels - means @ weights.value.T)

"""Rules of descent: how weights move when they see a gradient. One frozen dataclass per named method.

Every rule has a `step`, says what it remembers (`begin`) and how it moves (`move`): memory is a tuple of weights,
never hidden state, so a descent can stop and resume anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from rmt.regression.softmax_problem import SoftmaxRegression
from rmt.regression.softmax_weights import Weights

Memory = tuple[Weights, ...]


class Rule(Protocol):
    """A way to move."""

    def begin(self, weights: Weights) -> Memory:
        """What is remembered before the first step."""
        ...

    def move(self, weights: Weights, gradient: Weights, memory: Memory, count: int) -> tuple[Weights, Memory]:
        """The next weights and memory; `count` steps have been taken before."""
        ...


@dataclass(frozen=True, eq=False)
class Preconditioned:
    """Algorithm 1: descent in whitened, balanced coordinates.

    A -= step tau dA C^-1 and B -= (step / tau) C^-1 dB C^-1 with C the covariance of `data` (the problem as the data
    show it). `score_norm` asks for the renormalised variant: after each step (A, B) -> (c A, B/c) so that the
    spectral norm of Bt is `score_norm`, and tau is |At|_F / |Bt|_F at every step.
    """

    data: SoftmaxRegression
    step: float
    tau: float = 1.0
    score_norm: float | None = None

    def begin(self, weights: Weights) -> Memory:
        return ()

    def move(self, weights: Weights, gradient: Weights, memory: Memory, count: int) -> tuple[Weights, Memory]:
        tau = self.tau
        if self.score_norm is not None:
            whitened = self.data.whiten(weights)
            tau = float(np.linalg.norm(whitened.value) / np.linalg.norm(whitened.score))
        inverse = self.data.inverse_root @ self.data.inverse_root
        moved = Weights(
            weights.value - self.step * tau * gradient.value @ inverse,
            weights.score - (self.step / tau) * inverse @ gradient.score @ inverse,
        )
        if self.score_norm is not None and moved.is_finite:
            moved = renormalised(self.data, moved, self.score_norm)
        return moved, ()


def renormalised(problem: SoftmaxRegression, weights: Weights, score_norm: float) -> Weights:
    """(c A, B/c) with the spectral norm of Bt equal to `score_norm`: the population risk does not change."""
    ratio = float(np.linalg.norm(problem.whiten(weights).score, 2)) / score_norm
    return Weights(ratio * weights.value, weights.score / ratio)


@dataclass(frozen=True)
class GradientDescent:
    """weights -= step * gradient. On mini-batches it is stochastic gradient descent."""

    step: float

    def begin(self, weights: Weights) -> Memory:
        return ()

    def move(self, weights: Weights, gradient: Weights, memory: Memory, count: int) -> tuple[Weights, Memory]:
        return weights - self.step * gradient, ()


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba (2015), with bias correction."""

    step: float
    first: float = 0.9
    second: float = 0.999
    epsilon: float = 1e-8

    def begin(self, weights: Weights) -> Memory:
        return 0.0 * weights, 0.0 * weights

    def move(self, weights: Weights, gradient: Weights, memory: Memory, count: int) -> tuple[Weights, Memory]:
        mean = self.first * memory[0] + (1 - self.first) * gradient
        square = self.second * memory[1] + (1 - self.second) * gradient.like(gradient.vector() ** 2)
        scale = np.sqrt(square.vector() / (1 - self.second ** (count + 1))) + self.epsilon
        move = mean.like(mean.vector() / (1 - self.first ** (count + 1)) / scale)
        return weights - self.step * move, (mean, square)


@dataclass(frozen=True)
class Shampoo:
    """Gupta, Koren and Singer (2018): L^(-1/4) G R^(-1/4) per matrix, L and R the summed G G^T and G^T G."""

    step: float
    epsilon: float = 1e-6

    def begin(self, weights: Weights) -> Memory:
        p, d = weights.value.shape
        return (
            Weights(self.epsilon * np.eye(p), self.epsilon * np.eye(d)),
            Weights(self.epsilon * np.eye(d), self.epsilon * np.eye(d)),
        )

    def move(self, weights: Weights, gradient: Weights, memory: Memory, count: int) -> tuple[Weights, Memory]:
        G, H = gradient.value, gradient.score
        left = memory[0] + Weights(G @ G.T, H @ H.T)
        right = memory[1] + Weights(G.T @ G, H.T @ H)
        move = Weights(
            _inverse_fourth_root(left.value) @ G @ _inverse_fourth_root(right.value),
            _inverse_fourth_root(left.score) @ H @ _inverse_fourth_root(right.score),
        )
        return weights - self.step * move, (left, right)


@dataclass(frozen=True)
class Muon:
    """Jordan et al. (2024): Nesterov momentum, then the polar factor of each matrix (exact, by its SVD)."""

    step: float
    momentum: float = 0.95

    def begin(self, weights: Weights) -> Memory:
        return (0.0 * weights,)

    def move(self, weights: Weights, gradient: Weights, memory: Memory, count: int) -> tuple[Weights, Memory]:
        velocity = self.momentum * memory[0] + gradient
        ahead = self.momentum * velocity + gradient
        return weights - self.step * Weights(_polar(ahead.value), _polar(ahead.score)), (velocity,)


@dataclass(frozen=True)
class Decayed:
    """Another rule whose step falls linearly to zero over `horizon` steps: for rules that never stand still."""

    rule: Any
    horizon: int

    def begin(self, weights: Weights) -> Memory:
        return self.rule.begin(weights)

    def move(self, weights: Weights, gradient: Weights, memory: Memory, count: int) -> tuple[Weights, Memory]:
        step = self.rule.step * max(0.0, 1.0 - count / self.horizon)
        return replace(self.rule, step=step).move(weights, gradient, memory, count)


def _inverse_fourth_root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 1e-30) ** -0.25) @ vectors.T


def _polar(matrix: np.ndarray) -> np.ndarray:
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ right

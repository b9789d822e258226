"""What a descent needs to know of a loss."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rmt.regression.softmax_problem import SoftmaxRegression
from rmt.regression.softmax_weights import Weights


class Objective(Protocol):
    """A smooth function of the weights with its first and second derivative."""

    def value_and_gradient(self, weights: Weights) -> tuple[float, Weights]:
        """Value and gradient at `weights`."""
        ...

    def hessian_product(self, weights: Weights, direction: Weights) -> Weights:
        """Second derivative at `weights` applied to `direction`."""
        ...


def hessian(objective: Objective, weights: Weights) -> np.ndarray:
    """The whole second derivative, (p d + d d, p d + d d), one product per column: for small d."""
    columns = [
        objective.hessian_product(weights, weights.like(unit)).vector() for unit in np.eye(weights.vector().size)
    ]
    return np.array(columns).T


def whitened_hessian(
    objective: Objective, problem: SoftmaxRegression, weights: Weights, *, tau: float = 1.0
) -> np.ndarray:
    """Second derivative in the coordinates (At / sqrt(tau), sqrt(tau) Bt), where Algorithm 1 is plain descent."""
    columns = []
    for unit in np.eye(weights.vector().size):
        step = problem.unwhiten(_scaled(weights.like(unit), np.sqrt(tau)))
        product = objective.hessian_product(weights, step)
        columns.append(whitened_gradient(problem, product, tau=tau).vector())
    return np.array(columns).T


def whitened_gradient(problem: SoftmaxRegression, gradient: Weights, *, tau: float = 1.0) -> Weights:
    """A gradient in those coordinates: the same for every covariance."""
    pulled = Weights(
        gradient.value @ problem.inverse_root, problem.inverse_root @ gradient.score @ problem.inverse_root
    )
    return _scaled(pulled, np.sqrt(tau))


def _scaled(weights: Weights, factor: float) -> Weights:
    return Weights(factor * weights.value, weights.score / factor)

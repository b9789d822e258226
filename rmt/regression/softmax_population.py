"""The population risk of a softmax head in closed form: plain matrix factorisation.

For a Gaussian context the softmax average is an exponential tilt, E[x e^{b.x}] / E[e^{b.x}] = C b, so that
with infinitely many tokens f(x) = A C B^T x and

    risk - least risk = 1/2 |A C B^T C^(1/2) - M C^(1/2)|_F^2 = 1/2 |At Bt^T - T|_F^2

in whitened coordinates (derived by Gaussian tilting). A context of n tokens obeys it up to 1/n as long as
|Bt|_op < 1/sqrt 2; measured against Monte Carlo at n = 20,000 it is within 0.3 % for |Bt| <= 0.7, 1 % off at 1
and 14 % off at 2, where single tokens dominate the average.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.regression.softmax_problem import SoftmaxRegression
from rmt.regression.softmax_weights import Weights


@dataclass(frozen=True, eq=False)
class PopulationRisk:
    """Excess population risk (the least risk, noise^2 p / 2, taken off) with gradient and Hessian products."""

    problem: SoftmaxRegression

    def value_and_gradient(self, weights: Weights) -> tuple[float, Weights]:
        """Excess risk and its gradient: dA = E C B C and dB = C E^T A C with E = A C B^T - M."""
        covariance = self.problem.covariance
        error = weights.value @ covariance @ weights.score.T - self.problem.target
        gradient = Weights(
            error @ covariance @ weights.score @ covariance, covariance @ error.T @ weights.value @ covariance
        )
        return 0.5 * float(np.linalg.norm(error @ self.problem.root) ** 2), gradient

    def hessian_product(self, weights: Weights, direction: Weights) -> Weights:
        """Second derivative at `weights` applied to `direction`."""
        covariance, A, B = self.problem.covariance, weights.value, weights.score
        error = A @ covariance @ B.T - self.problem.target
        change = direction.value @ covariance @ B.T + A @ covariance @ direction.score.T
        return Weights(
            (change @ covariance @ B + error @ covariance @ direction.score) @ covariance,
            covariance @ (change.T @ A + error.T @ direction.value) @ covariance,
        )


def excess_risk(problem: SoftmaxRegression, weights: Weights) -> float:
    """Excess population risk of a head, by the closed form."""
    return PopulationRisk(problem).value_and_gradient(weights)[0]


def minimiser(problem: SoftmaxRegression, *, tau: float = 1.0, rotation: np.ndarray | None = None) -> Weights:
    """A minimiser of risk plus regulariser: At = sqrt(tau) U S^(1/2) O, Bt = V S^(1/2) O / sqrt(tau).

    `rotation` is O: the first p rows of it, (p, d) with orthonormal rows; without it coordinates are padded
    with zeros. Over all O these are all the minima of risk + regulariser.
    """
    if not (np.isfinite(tau) and tau > 0):
        raise ValueError(f"tau = {tau}; the balance of the two factors must be positive: choose about 4 s_1")
    left, values, right = problem.factors
    gauge = np.eye(problem.outputs, problem.width) if rotation is None else rotation[: problem.outputs]
    half = np.sqrt(values)[:, None] * gauge
    return problem.unwhiten(Weights(np.sqrt(tau) * left @ half, right.T @ half / np.sqrt(tau)))


def nearest_minimiser(problem: SoftmaxRegression, weights: Weights, *, tau: float = 1.0) -> Weights:
    """The minimiser closest to `weights` in the norm |At|^2/tau + tau |Bt|^2 (an orthogonal Procrustes problem)."""
    left, values, right = problem.factors
    whitened = problem.whiten(weights)
    overlap = left.T @ whitened.value / np.sqrt(tau) + np.sqrt(tau) * right @ whitened.score
    U, _, Vt = np.linalg.svd(np.sqrt(values)[:, None] * overlap, full_matrices=False)
    return minimiser(problem, tau=tau, rotation=U @ Vt)


def weighted_norm(problem: SoftmaxRegression, direction: Weights, *, tau: float = 1.0) -> float:
    """Norm sqrt(|At|^2/tau + tau |Bt|^2) in which the preconditioned descent is plain gradient descent."""
    whitened = problem.whiten(direction)
    return float(np.hypot(np.linalg.norm(whitened.value) / np.sqrt(tau), np.sqrt(tau) * np.linalg.norm(whitened.score)))


def distance_to_minima(problem: SoftmaxRegression, weights: Weights, *, tau: float = 1.0) -> float:
    """Weighted distance to the manifold of minima."""
    return weighted_norm(problem, weights - nearest_minimiser(problem, weights, tau=tau), tau=tau)


def sampled_risk(problem: SoftmaxRegression, weights: Weights, contexts: np.ndarray, queries: np.ndarray) -> float:
    """Excess risk of fresh queries (contexts, m, d) in given contexts (contexts, n, d), by Monte Carlo.

    The label noise is left out: this is 1/2 E|M x - f(x)|^2.
    """
    total = 0.0
    for context, asked in zip(contexts, queries, strict=True):
        logits = asked @ weights.score @ context.T
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        answers = share @ context @ weights.value.T / share.sum(axis=1, keepdims=True)
        total += float(np.linalg.norm(asked @ problem.target.T - answers) ** 2)
    return 0.5 * total / (queries.shape[0] * queries.shape[1])

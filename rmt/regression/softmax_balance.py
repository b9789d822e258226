"""The scale-aware regulariser: it fixes how the product At Bt^T is shared between its factors.

    R = (rho/4) |At^T At / tau - tau Bt^T Bt|_F^2 = (rho/4) tr(C G C G),    G = A^T A / tau - tau B^T C B.

The minima of risk + R are At = sqrt(tau) U S^(1/2) O, Bt = V S^(1/2) O / sqrt(tau). With rho = 1/2 its modes have
the same curvatures s_i + s_j as the risk, so it costs no conditioning (derived from the Hessian at a minimiser).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.regression.softmax_objective import Objective
from rmt.regression.softmax_weights import Weights


@dataclass(frozen=True, eq=False)
class Balanced:
    """An objective plus the regulariser; `tau` = None takes |At|_F / |Bt|_F, held constant in the gradient.

    `covariance` is the token covariance, (d, d): the true one for the population, the sample's for the data.
    With `tau` = None the value does not change under (A, B) -> (c A, B/c).
    """

    objective: Objective
    covariance: np.ndarray
    tau: float | None = 1.0
    rho: float = 0.5

    def __post_init__(self) -> None:
        if self.tau is not None and not (np.isfinite(self.tau) and self.tau > 0):
            raise ValueError(f"tau = {self.tau}; the balance of the two factors must be positive: choose about 4 s_1")
        if not (np.isfinite(self.rho) and self.rho >= 0):
            raise ValueError(f"rho = {self.rho}; the weight of the regulariser must be >= 0: choose 0.5")

    def value_and_gradient(self, weights: Weights) -> tuple[float, Weights]:
        """Value and gradient of objective + R."""
        value, gradient = self.objective.value_and_gradient(weights)
        tau, gap = self._gap(weights)
        push = self.covariance @ gap @ self.covariance
        balance = Weights(
            (self.rho / tau) * weights.value @ push, (-self.rho * tau) * self.covariance @ weights.score @ push
        )
        return value + 0.25 * self.rho * float(np.vdot(push, gap)), gradient + balance

    def hessian_product(self, weights: Weights, direction: Weights) -> Weights:
        """Second derivative of objective + R at `weights`, applied to `direction`."""
        C, A, B = self.covariance, weights.value, weights.score
        tau, gap = self._gap(weights)
        change = (direction.value.T @ A) / tau - tau * direction.score.T @ C @ B
        push, shift = C @ gap @ C, C @ (change + change.T) @ C
        return self.objective.hessian_product(weights, direction) + Weights(
            (self.rho / tau) * (direction.value @ push + A @ shift),
            (-self.rho * tau) * C @ (direction.score @ push + B @ shift),
        )

    def _gap(self, weights: Weights) -> tuple[float, np.ndarray]:
        keys, queries = weights.value.T @ weights.value, weights.score.T @ self.covariance @ weights.score
        tau = self.tau
        if tau is None:
            tau = float(np.sqrt(np.vdot(keys, self.covariance) / np.vdot(queries, self.covariance)))
        return tau, keys / tau - tau * queries

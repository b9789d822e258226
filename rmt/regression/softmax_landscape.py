"""The landscape of softmax regression: constants around the minima, and why a run stands still."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.regression.softmax_objective import Objective, whitened_gradient, whitened_hessian
from rmt.regression.softmax_population import nearest_minimiser
from rmt.regression.softmax_problem import SoftmaxRegression
from rmt.regression.softmax_weights import Weights

VERDICTS = ("converged", "slow", "saddle", "spurious minimum")

_PLAIN_SLOPE = 0.1  # of the gradient that a slow approach along the least curvature would still have
_NEGATIVE = 0.01  # of the least curvature: below minus this a direction leads down
_STATIONARY = 1e-6  # of s_1^(3/2): below this a gradient is zero


@dataclass(frozen=True)
class OnePoint:
    """Constants found at `radius` from the manifold of minima, in the weighted norm.

    `convexity` is the least <grad, w - w*> / |w - w*|^2 and `smoothness` the largest |grad| / |w - w*| that the search
    met; w* is the nearest minimum.
    """

    convexity: float
    smoothness: float
    radius: float


def one_point_constants(
    objective: Objective,
    problem: SoftmaxRegression,
    normals: np.ndarray,
    *,
    radius: float,
    tau: float = 1.0,
    rounds: int = 400,
) -> OnePoint:
    """Search for both constants at a distance `radius` from the minima, from gradients alone.

    `normals` (p d + d d,) starts the search. The gradient map, applied again and again to a displacement of fixed length
    that is kept normal to the manifold, turns towards the largest curvature; the complementary map towards the least.
    """
    high = _extreme(objective, problem, normals, radius, tau, rounds, shift=None)
    low = _extreme(objective, problem, normals, radius, tau, rounds, shift=high[1])
    return OnePoint(convexity=low[0], smoothness=high[1], radius=radius)


def _extreme(
    objective: Objective,
    problem: SoftmaxRegression,
    normals: np.ndarray,
    radius: float,
    tau: float,
    rounds: int,
    *,
    shift: float | None,
) -> tuple[float, float]:
    """(convexity, smoothness) at the direction reached; `shift` None climbs, a number descends."""
    scale = np.sqrt(tau)
    point = nearest_minimiser(problem, problem.unwhiten(_template(problem, normals)), tau=tau)
    direction = _template(problem, normals)
    found = (np.inf, 0.0)
    for _ in range(rounds):
        moved = Weights(scale * direction.value, direction.score / scale)
        there = point + (radius / direction.norm) * problem.unwhiten(moved)
        point = nearest_minimiser(problem, there, tau=tau)
        gap = problem.whiten(there - point)
        gap = Weights(gap.value / scale, scale * gap.score)
        slope = whitened_gradient(problem, objective.value_and_gradient(there)[1], tau=tau)
        found = slope.dot(gap) / gap.dot(gap), slope.norm / gap.norm
        direction = slope if shift is None else gap - (1 / shift) * slope
    return found


def _template(problem: SoftmaxRegression, vector: np.ndarray) -> Weights:
    split = problem.outputs * problem.width
    return Weights(
        vector[:split].reshape(problem.outputs, problem.width), vector[split:].reshape(problem.width, problem.width)
    )


@dataclass(frozen=True)
class Standstill:
    """Why a run is where it is: `verdict` is one of VERDICTS.

    `gradient_norm` and `least_curvature` are in whitened balanced coordinates, `gap` is the excess over the goal.
    """

    verdict: str
    gradient_norm: float
    least_curvature: float
    gap: float


def standstill(
    objective: Objective, problem: SoftmaxRegression, weights: Weights, *, excess: float, goal: float, tau: float = 1.0
) -> Standstill:
    """Classify the end of a run by its gradient and its least Hessian eigenvalue.

    `excess` is where the run stands, `goal` what the data allow; within twice the goal it has converged. Else let m be
    the least curvature of the problem at its minima. Near them the gradient is at least sqrt(2 m gap): a run with more
    than a tenth of that is slow. Below, a curvature under -m/100 says saddle. Without one, a gradient under 1e-6 s_1^(3/2)
    says spurious minimum, and a larger one says slow (a plateau).
    Costs p d + d^2 Hessian products: for small d.
    """
    values = problem.singular_values
    least = float(values[-1] * (2 if problem.outputs == problem.width else 1))
    slope = whitened_gradient(problem, objective.value_and_gradient(weights)[1], tau=tau).norm
    second = whitened_hessian(objective, problem, weights, tau=tau)
    curvature = float(np.linalg.eigvalsh(0.5 * (second + second.T))[0])
    gap = excess - goal
    if excess <= 2 * goal:
        verdict = "converged"
    elif slope > _PLAIN_SLOPE * np.sqrt(2 * least * gap):
        verdict = "slow"
    elif curvature < -_NEGATIVE * least:
        verdict = "saddle"
    else:
        verdict = "spurious minimum" if slope < _STATIONARY * values[0] ** 1.5 else "slow"
    return Standstill(verdict, slope, curvature, gap)

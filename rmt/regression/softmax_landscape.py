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
_FLAT = 1e-9  # of s_1: smallest curvature that is told from none
_FREE_SIZE = 256  # parameters up to which a Hessian is always affordable
_PLAIN_GAIN = 0.1  # of the missing risk that a place on the way down still promises


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
class Fit:
    """How well a head does: its population `excess` and its empirical `risk`."""

    excess: float
    risk: float


@dataclass(frozen=True)
class Standstill:
    """Why a run is where it is: `verdict` is one of VERDICTS.

    `gradient_norm` and `least_curvature` are in whitened balanced coordinates, `gap` is the excess over the goal.
    """

    verdict: str
    gradient_norm: float
    least_curvature: float | None
    gap: float


def standstill(
    objective: Objective, problem: SoftmaxRegression, weights: Weights, *, end: Fit, goal: Fit, tau: float = 1.0
) -> Standstill:
    """Classify the end of a run by its gradient and its least Hessian eigenvalue.

    `end` is what the run reached on the `objective` it descended, `goal` what the same data allow. Converged: the excess
    is within twice the goal, or the risk is down to the goal's, so that what is left is sampling error. Otherwise let m be
    the least curvature of the problem at its minima. Near them the gradient is at least sqrt(2 m gap): a run with more
    than a tenth of that is slow. Below, a curvature under -m/100 says saddle. Without one the quadratic model of the
    objective says how much can still be gained; less than a tenth of the missing risk says spurious minimum, more says
    slow (a plateau).
    The eigenvalues cost p d + d^2 Hessian products; above 256 of them they are spent only where the gradient does not
    decide, and `least_curvature` is None elsewhere.
    """
    values = problem.singular_values
    least = float(values[-1] * (2 if problem.outputs == problem.width else 1))
    slope = whitened_gradient(problem, objective.value_and_gradient(weights)[1], tau=tau)
    gap = end.excess - goal.excess
    verdict = ""
    if end.excess <= 2 * goal.excess or end.risk <= goal.risk:
        verdict = "converged"
    elif slope.norm > _PLAIN_SLOPE * np.sqrt(2 * least * gap):
        verdict = "slow"
    if verdict and slope.vector().size > _FREE_SIZE:
        return Standstill(verdict, slope.norm, None, gap)
    second = whitened_hessian(objective, problem, weights, tau=tau)
    curvatures, directions = np.linalg.eigh(0.5 * (second + second.T))
    if not verdict and curvatures[0] < -_NEGATIVE * least:
        verdict = "saddle"
    if not verdict:
        # a direction flatter than this counts as that flat, so that a plateau promises much
        gain = 0.5 * float(np.sum((directions.T @ slope.vector()) ** 2 / np.maximum(curvatures, _FLAT * values[0])))
        verdict = "spurious minimum" if gain < _PLAIN_GAIN * (end.risk - goal.risk) else "slow"
    return Standstill(verdict, slope.norm, float(curvatures[0]), gap)

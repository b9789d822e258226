"""The descent with infinitely many tokens, from a small displacement off a minimum, beside its linearised law."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.regression.softmax_balance import Balanced
from rmt.regression.softmax_descent import descent, full_batch
from rmt.regression.softmax_draws import draw_weights
from rmt.regression.softmax_landscape import one_point_constants
from rmt.regression.softmax_objective import hessian, whitened_hessian
from rmt.regression.softmax_population import PopulationRisk, minimiser
from rmt.regression.softmax_problem import SoftmaxRegression
from rmt.regression.softmax_rules import GradientDescent, Preconditioned
from rmt.regression.softmax_weights import Weights
from rmt.streams import Stream
from rmt.theorems.softmax_regression import linear_descent

if TYPE_CHECKING:
    from simulations.softmax_regression import Setting

DISPLACEMENT = 3e-3  # of sqrt(s_1): start of the descent, per entry
TOLERANCE = 1e-10  # excess at which its steps are counted
LONGEST = 40_000  # steps before giving up
SETTLED = 1e-26  # excess where the slowest mode leads, even from a start that hardly holds it, and rounding is far
LATE = 5  # steps over which the late rate is averaged
FLAT = 1e-9  # of the largest curvature: below this a direction is flat
CURVE_STEPS = np.unique(np.geomspace(1, LONGEST, 60).round().astype(int))  # where the curve is kept

Record = dict[str, Any]


def population_record(setting: Setting, problem: SoftmaxRegression, draw: int, stream: Stream) -> Record:
    """Steps to 1e-10 over their law, the condition number met, and for Algorithm 1 its late rate and one-point constants."""
    own, tau, size = setting.optimizer == "preconditioned", setting.balance, DISPLACEMENT * np.sqrt(setting.largest)
    normals = draw_weights(stream, draw, setting.width, setting.outputs, name="displacement").vector()
    point = minimiser(problem, tau=tau)
    objective = Balanced(PopulationRisk(problem), problem.covariance, tau, setting.rho)
    curvatures = _curvatures(objective, problem, point, tau, own=own)
    rule: Any = Preconditioned(problem, 1 / curvatures[-1], tau) if own else GradientDescent(1 / curvatures[-1])
    moved = point.like(size * normals)
    start = point + problem.unwhiten(Weights(np.sqrt(tau) * moved.value, moved.score / np.sqrt(tau)))
    excess = _excess(descent(rule, full_batch(objective), start, problem=problem), patient=own)
    law = linear_descent(
        problem.covariance, problem.target, preconditioned=own, displacement=size * normals, tau=tau, rho=setting.rho
    )
    predicted = law.steps_to(TOLERANCE, limit=LONGEST)
    reached = np.flatnonzero(excess <= TOLERANCE)
    steps = float(reached[0]) if reached.size else np.nan
    kept = CURVE_STEPS[CURVE_STEPS < len(excess)]
    record = {
        "population_steps": steps,
        "given_draw:population_steps": np.nan if predicted is None else float(predicted),
        "population_steps_over_law": steps / predicted if predicted else np.nan,
        "restricted_condition": curvatures[-1] / curvatures[0],
        "_population_curve": _padded(excess[kept]),
        "_population_law": _padded(np.array([law.excess(step) for step in kept])),
    }
    if own:
        constants = one_point_constants(objective, problem, normals, radius=size, tau=tau)
        record |= {
            "population_rate": _late_rate(excess),
            "one_point_convexity": constants.convexity,
            "one_point_smoothness": constants.smoothness,
        }
    return record


def _curvatures(
    objective: Balanced, problem: SoftmaxRegression, point: Weights, tau: float, *, own: bool
) -> np.ndarray:
    """Curvatures off the flat directions, ascending, in the coordinates that are descended."""
    matrix = whitened_hessian(objective, problem, point, tau=tau) if own else hessian(objective, point)
    values = np.linalg.eigvalsh(matrix)
    return values[values > FLAT * values[-1]]


def _excess(states: Any, *, patient: bool) -> np.ndarray:
    """The excess after 0, 1, 2, ... steps, down to the tolerance, or to where the late rate shows if `patient`."""
    found = []
    for state in islice(states, LONGEST + 1):
        found.append(state.excess)
        if state.excess <= (SETTLED if patient else TOLERANCE):
            break
    return np.array(found)


def _late_rate(excess: np.ndarray) -> float:
    """Factor per step over the last steps; NaN where so few were needed that no rate settled."""
    return float((excess[-1] / excess[-1 - LATE]) ** (1 / LATE)) if len(excess) > 2 * LATE else np.nan


def _padded(values: np.ndarray) -> np.ndarray:
    return np.pad(values, (0, len(CURVE_STEPS) - len(values)), constant_values=np.nan)

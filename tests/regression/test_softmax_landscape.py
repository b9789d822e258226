"""The landscape: constants around the minima, and the classification of runs that stand still."""

import numpy as np
import pytest

from rmt.regression.softmax_balance import Balanced
from rmt.regression.softmax_landscape import Fit, one_point_constants, standstill
from rmt.regression.softmax_objective import whitened_hessian
from rmt.regression.softmax_population import PopulationRisk, excess_risk, minimiser
from rmt.regression.softmax_problem import covariance_matrix, regression_problem
from rmt.regression.softmax_weights import Weights


def balanced(values, width=4, tau=1.0, condition=10.0):
    problem = regression_problem(covariance_matrix(width, "geometric", condition), values)
    return problem, Balanced(PopulationRisk(problem), problem.covariance, tau)


@pytest.mark.parametrize("tau, radius", [(1.0, 1e-3), (4.0, 1e-3), (1.0, 0.02)])
def test_one_point_constants_are_the_extreme_curvatures(tau, radius):
    """Within 10 % of the Hessian's eigenvalues at a minimum, up to a distance of 3 % of sqrt(s_1)."""
    values = np.geomspace(1, 1 / 3, 4)
    problem, objective = balanced(values, tau=tau)
    curvature = np.linalg.eigvalsh(whitened_hessian(objective, problem, minimiser(problem, tau=tau), tau=tau))
    least = curvature[curvature > 1e-9][0]
    found = one_point_constants(
        objective, problem, np.random.default_rng(0).standard_normal(32), radius=radius, tau=tau
    )
    assert found.convexity == pytest.approx(least, rel=0.1) and least == pytest.approx(2 / 3)
    assert found.smoothness == pytest.approx(curvature[-1], rel=0.1)


def test_one_point_convexity_fails_with_fewer_outputs_than_dimensions():
    """p < d leaves directions that are flat to second order: the constant vanishes like the radius squared."""
    problem, objective = balanced([1.0, 0.5])
    start = np.random.default_rng(1).standard_normal(24)
    near, far = (one_point_constants(objective, problem, start, radius=r).convexity for r in (0.01, 0.03))
    assert near < 1e-3 and far < 1e-2


def scaled_minimum(problem, factor):
    point = minimiser(problem)
    return Weights(factor * point.value, factor * point.score)


def seen_at(objective, problem, weights, *, goal=1e-6):
    """With infinitely many tokens excess and risk are the same."""
    excess = excess_risk(problem, weights)
    return standstill(objective, problem, weights, end=Fit(excess, excess), goal=Fit(goal, goal))


def test_the_origin_is_a_saddle_and_its_neighbourhood_slow():
    problem, objective = balanced([1.0, 0.7, 0.5, 0.3])

    def seen(weights):
        return seen_at(objective, problem, weights)

    assert seen(scaled_minimum(problem, 0.0)).verdict == "saddle"
    assert seen(scaled_minimum(problem, 0.0)).least_curvature == pytest.approx(-1.0)  # -s_1: a bilinear form
    assert seen(scaled_minimum(problem, 0.9)).verdict == "slow"
    assert seen(scaled_minimum(problem, 1.0)).verdict == "converged"


def test_a_missing_direction_is_a_saddle():
    """A critical point without the second singular direction: no gradient, curvature -s_2."""
    problem, objective = balanced([1.0, 0.7, 0.5, 0.3], condition=1.0)
    left, values, right = problem.factors
    half = np.sqrt(values * [1, 0, 1, 1])[:, None]
    weights = problem.unwhiten(Weights(left @ (half * np.eye(4)), right.T @ (half * np.eye(4))))
    seen = seen_at(objective, problem, weights, goal=1e-9)
    assert seen.verdict == "saddle" and seen.gradient_norm < 1e-12
    assert seen.least_curvature == pytest.approx(-0.7, abs=1e-9)


class Bowl:
    """A risk with a minimum at the origin, where the population risk has none."""

    def value_and_gradient(self, weights):
        return weights.norm**2, 2.0 * weights

    def hessian_product(self, weights, direction):
        return 2.0 * direction


def in_the_bowl(factor):
    problem, _ = balanced([1.0, 0.7, 0.5, 0.3])
    return standstill(Bowl(), problem, scaled_minimum(problem, factor), end=Fit(0.9, 0.9), goal=Fit(1e-6, 1e-6))


def test_a_minimum_of_another_kind_is_spurious_and_the_way_down_to_it_too():
    """The quadratic model decides: next to the bottom of the bowl less than a tenth of the missing risk can be gained."""
    assert in_the_bowl(0.0).verdict == in_the_bowl(0.003).verdict == "spurious minimum"
    assert in_the_bowl(1.0).verdict == "slow"  # control: high on its wall


class Plain:
    """A plateau: hardly any gradient, no curvature."""

    def value_and_gradient(self, weights):
        return 0.9, 1e-4 * weights

    def hessian_product(self, weights, direction):
        return 0.0 * direction


def test_a_plateau_is_slow():
    problem, _ = balanced([1.0, 0.7, 0.5, 0.3])
    seen = standstill(Plain(), problem, scaled_minimum(problem, 1.0), end=Fit(0.9, 0.9), goal=Fit(1e-6, 1e-6))
    assert seen.verdict == "slow" and seen.gradient_norm < 1e-3


def test_a_run_that_fits_the_data_as_well_has_converged_whatever_its_excess():
    problem, objective = balanced([1.0, 0.7, 0.5, 0.3])
    point = scaled_minimum(problem, 0.9)
    seen = standstill(objective, problem, point, end=Fit(0.5, 0.01), goal=Fit(0.1, 0.02))
    assert seen.verdict == "converged"

"""Descents: Algorithm 1 and its rivals, on the population (exact) and on data (fixed seeds)."""

import itertools

import numpy as np
import pytest

from rmt.regression.softmax_balance import Balanced
from rmt.regression.softmax_descent import algorithm_one, descent, full_batch, mini_batches, run
from rmt.regression.softmax_empirical import EmpiricalRisk
from rmt.regression.softmax_population import PopulationRisk, distance_to_minima, minimiser
from rmt.regression.softmax_problem import covariance_matrix, regression_problem
from rmt.regression.softmax_rules import Adam, Decayed, GradientDescent, Muon, Preconditioned, Shampoo
from rmt.regression.softmax_start import equivariant_start, random_start
from rmt.regression.softmax_weights import Weights


def problem_with(condition=5.0, values=(0.25, 0.18, 0.12, 0.08), noise=0.0):
    return regression_problem(covariance_matrix(4, "geometric", condition), values, noise=noise)


def normals(seed, p=4, d=4):
    rng = np.random.default_rng(seed)
    return Weights(rng.standard_normal((p, d)), rng.standard_normal((d, d)))


def data_for(problem, seed, n=200, contexts=1):
    rng = np.random.default_rng(seed)
    return problem.respond(rng.standard_normal((contexts, n, 4)), rng.standard_normal((contexts, n, problem.outputs)))


def states(problem, objective, rule, start, steps):
    return list(itertools.islice(descent(rule, full_batch(objective), start, problem=problem), steps + 1))


@pytest.mark.parametrize("tau", [1.0, 4.0])
def test_the_population_rate_is_that_of_the_target_alone(tau):
    """B6: (1 - s_d/s_1)^2 per step at the safe step, for any covariance; p = d."""
    values = np.geomspace(1, 0.1, 4)
    problem = problem_with(30.0, values)
    start = minimiser(problem, tau=tau) + problem.unwhiten(1e-3 * normals(0))
    objective = Balanced(PopulationRisk(problem), problem.covariance, tau)
    seen = states(problem, objective, Preconditioned(problem, 1 / (2 * values[0]), tau), start, 70)
    assert np.mean([s.rate for s in seen[50:70]]) == pytest.approx(0.81, rel=0.01)


def test_the_best_step_is_faster_as_predicted():
    """((s_1 - s_d)/(s_1 + s_d))^2 per step at 1/(s_1 + s_d), against (1 - s_d/s_1)^2 at the safe step."""
    values = np.geomspace(1, 0.1, 4)
    problem = problem_with(30.0, values)
    objective = Balanced(PopulationRisk(problem), problem.covariance)
    start = minimiser(problem) + problem.unwhiten(1e-3 * normals(0))
    seen = states(problem, objective, Preconditioned(problem, 1 / 1.1), start, 40)
    assert np.mean([s.rate for s in seen[30:40]]) == pytest.approx((0.9 / 1.1) ** 2, rel=0.01)


def test_the_excess_does_not_see_the_covariance():
    """B7: same normals, equivariant start: the curves agree to 1e-9."""
    curves = []
    for condition in (1.0, 5.0, 50.0, 500.0):
        problem = problem_with(condition)
        start = equivariant_start(problem, normals(1), scale=0.3)
        seen = itertools.islice(algorithm_one(data_for(problem, 2), start=start, problem=problem), 25)
        curves.append([s.excess for s in seen])
    assert np.allclose(curves, curves[0], rtol=1e-9, atol=0)


def test_plain_descent_does_see_it():
    """Negative control of B7: without the preconditioner the curves end a factor of two or more apart."""
    ends = []
    for condition in (1.0, 50.0):
        problem = problem_with(condition)
        start = equivariant_start(problem, normals(1), scale=0.3)
        ends.append(states(problem, EmpiricalRisk(data_for(problem, 2)), GradientDescent(0.3), start, 100)[-1].excess)
    assert ends[1] > 2 * ends[0]


RULES = [
    GradientDescent(0.1), Adam(0.01), Shampoo(0.05), Muon(0.01), Decayed(Muon(0.02), 100),
]  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_every_rule_descends_and_resumes_where_it_stopped(rule):
    problem = problem_with()
    objective, start = EmpiricalRisk(data_for(problem, 3)), random_start(normals(4), scale=0.3)
    whole = states(problem, objective, rule, start, 60)
    again = list(itertools.islice(descent(rule, full_batch(objective), whole[20], problem=problem), 40))
    assert whole[-1].loss < 0.3 * whole[0].loss
    assert again[0].step == 21 and np.array_equal(again[-1].weights.vector(), whole[-1].weights.vector())
    assert again[-1].excess == whole[-1].excess and again[-1].rate == whole[-1].rate


def test_batches_are_fixed_by_their_order_and_resume_too():
    problem = problem_with()
    data = data_for(problem, 3)
    order = np.stack([np.random.default_rng(5).permutation(200) for _ in range(2)])
    gradient = mini_batches(EmpiricalRisk(data), order, 64)
    whole = list(itertools.islice(descent(GradientDescent(0.2), gradient, random_start(normals(4))), 90))
    again = list(itertools.islice(descent(GradientDescent(0.2), gradient, whole[40]), 49))
    assert np.array_equal(again[-1].weights.vector(), whole[-1].weights.vector())
    assert whole[-1].loss < 0.3 * whole[0].loss


@pytest.mark.parametrize("step", [10.0, 1e8])
def test_a_divergent_run_says_so_and_holds_no_nan(step):
    problem = problem_with()
    data = data_for(problem, 3)
    seen = list(
        descent(GradientDescent(step), full_batch(EmpiricalRisk(data)), random_start(normals(4)), problem=problem)
    )
    last = seen[-1]
    assert last.diverged_at == len(seen) - 1 and last.message == f"diverged at step {last.diverged_at}"
    assert last.weights.is_finite and np.isfinite([last.loss, last.excess, last.gradient_norm]).all()
    assert list(descent(GradientDescent(step), full_batch(EmpiricalRisk(data)), last)) == []
    assert run(iter(seen), 500) is last


def test_the_first_step_of_each_rule_is_its_formula():
    """Closed forms: sign descent (Adam), orthogonal factor (Muon), whitened singular values (Shampoo)."""
    gradient, start = normals(6), normals(7)
    zero = 0.0 * start
    moved = {
        type(r).__name__: r.move(zero, gradient, r.begin(zero), 0)[0] for r in (Adam(1.0), Muon(1.0), Shampoo(1.0))
    }
    assert np.allclose(moved["Adam"].vector(), -np.sign(gradient.vector()), atol=1e-6)
    for name in ("Muon", "Shampoo"):
        for part in (moved[name].value, moved[name].score):
            assert np.allclose(np.linalg.svd(part, compute_uv=False), 1, atol=1e-3)


def test_the_renormalised_variant_keeps_its_norm_and_learns():
    problem = problem_with(values=(1, 0.7, 0.5, 1 / 3))
    data = data_for(problem, 8, n=400)
    seen = list(itertools.islice(algorithm_one(data, score_norm=0.5, problem=data.least_squares()), 30))
    assert np.allclose([s.score_norm for s in seen], 0.5, rtol=1e-12)
    fixed = run(algorithm_one(data, tau=4.0, problem=problem), 30).excess
    free = run(algorithm_one(data, score_norm=0.5, problem=problem), 30).excess
    assert free == pytest.approx(fixed, rel=0.3)  # |Bt| = 0.5 is tau = s_1/0.25 = 4 at the minima


def test_the_distance_to_the_minima_is_zero_on_them_and_the_displacement_off_them():
    """Any rotation is a minimum; a small displacement normal to the manifold is its own distance."""
    problem = problem_with()
    rotation = np.linalg.qr(np.random.default_rng(9).standard_normal((4, 4)))[0]
    point = minimiser(problem, tau=2.0, rotation=rotation)
    assert distance_to_minima(problem, point, tau=2.0) < 1e-14
    assert PopulationRisk(problem).value_and_gradient(point)[0] < 1e-28
    scaled = Weights(1.001 * point.value, 1.001 * point.score)  # along (At, Bt): orthogonal to every rotation
    expected = 1e-3 * np.sqrt(2 * problem.singular_values.sum())
    assert distance_to_minima(problem, scaled, tau=2.0) == pytest.approx(expected, rel=1e-10)


def test_a_wrong_start_or_step_is_refused():
    data = data_for(problem_with(), 3)
    with pytest.raises(ValueError, match="safe, fast"):
        next(algorithm_one(data, step="slow"))
    with pytest.raises(ValueError, match="tau"):
        next(algorithm_one(data, tau=0.0))
    with pytest.raises(ValueError, match="batch"):
        mini_batches(EmpiricalRisk(data), np.arange(200)[None], 300)

"""One training run of softmax regression, as the numbers that are stored: where it ends, why, and what it started from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.regression.softmax_descent import algorithm_one, run
from rmt.regression.softmax_draws import draw_contexts, token_normals
from rmt.regression.softmax_empirical import EmpiricalRisk
from rmt.regression.softmax_landscape import VERDICTS, Fit, standstill
from rmt.regression.softmax_population import distance_to_minima, excess_risk, sampled_risk
from rmt.regression.softmax_problem import Contexts, SoftmaxRegression
from rmt.regression.softmax_start import spectral_start
from rmt.regression.softmax_training import Method, Training, objective_of, train, train_at
from rmt.regression.softmax_weights import Weights
from rmt.streams import Stream
from rmt.theorems.softmax_contexts import learned_excess_given_tokens

if TYPE_CHECKING:
    from simulations.softmax_regression import Setting

PILOT, PILOT_CONTEXTS = 250, 32  # tokens of the sample on which learning rates are tuned: of one context, of n contexts
PROMPTS, QUERIES = 8, 200  # fresh contexts, and queries in each
GOAL_STEPS = 20  # of Algorithm 1 at its fastest step: what the data allow

Record = dict[str, Any]


def training_record(setting: Setting, problem: SoftmaxRegression, draw: int, stream: Stream) -> Record:
    """Train once. A run that diverges keeps its step and nothing else; `_curve` is the excess after every pass."""
    data = draw_contexts(problem, stream, draw, setting.n, contexts=setting.count)
    method = Method(
        setting.optimizer,
        str(setting.start),
        regularized=setting.regularizer == "on",
        tau=setting.balance,
        passes=setting.passes,
        rho=setting.rho,
    )
    training = _trained(setting, method, data, problem, draw, stream)
    diverged = training.last.diverged_at
    record: Record = {
        **_end(setting, method, data, problem, training, draw, stream),
        "diverged_at_step": np.nan if diverged is None else float(diverged),
        "note:excess_risk": "" if diverged is None else training.last.message,
        "given_draw:excess_risk": _law_given_tokens(setting, data, problem, draw, stream),
        "_curve": training.curve,
        "_rate": training.rate,
    }
    if setting.start == "spectral":
        record |= _spectral(problem, data, setting.balance)
    return record


def _trained(
    setting: Setting, method: Method, data: Contexts, problem: SoftmaxRegression, draw: int, stream: Stream
) -> Training:
    if setting.rate is not None:
        return train_at(method, setting.rate, data, stream, draw, problem=problem)
    size = min(setting.n, PILOT if setting.count == 1 else PILOT_CONTEXTS)
    pilot = draw_contexts(problem, stream, draw, size, contexts=min(setting.count, size), name="pilot")
    return train(method, data, pilot, stream, draw, problem=problem)


def _end(
    setting: Setting,
    method: Method,
    data: Contexts,
    problem: SoftmaxRegression,
    training: Training,
    draw: int,
    stream: Stream,
) -> Record:
    """The last state, and why it stands there: one of the four verdicts is 1."""
    last, risk = training.last, EmpiricalRisk(data)
    best = run(algorithm_one(data, tau=setting.balance, step="fast", problem=problem), GOAL_STEPS)
    goal = Fit(best.excess or 0.0, risk.value(best.weights))
    names = {verdict: verdict.replace(" ", "_") for verdict in VERDICTS}
    numbers = ("excess_risk", "prompt_error", "empirical_risk", "score_norm", "value_norm")
    if last.diverged_at is not None:
        nothing = (*numbers, *names.values(), "final_gradient_norm", "least_curvature")
        return {"_goal": goal.excess, **dict.fromkeys(nothing, np.nan)}
    end = Fit(last.excess or 0.0, risk.value(last.weights))
    seen = standstill(objective_of(method, data), problem, last.weights, end=end, goal=goal, tau=setting.balance)
    return {
        "_goal": goal.excess,
        "excess_risk": end.excess,
        "prompt_error": _prompt_error(setting, problem, last.weights, draw, stream),
        "empirical_risk": end.risk,
        "score_norm": last.score_norm,
        "value_norm": last.value_norm,
        **{name: float(seen.verdict == verdict) for verdict, name in names.items()},
        "final_gradient_norm": seen.gradient_norm,
        "least_curvature": np.nan if seen.least_curvature is None else seen.least_curvature,
    }


def _spectral(problem: SoftmaxRegression, data: Contexts, tau: float) -> Record:
    """What the spectral start is worth before any step.

    It has failed when it lies farther than sqrt(s_d)/2 from the minima, where one-point convexity is lost.
    """
    start = spectral_start(data, tau=tau)
    distance = distance_to_minima(problem, start, tau=tau)
    return {
        "start_excess": excess_risk(problem, start),
        "start_distance_squared": distance**2,
        "start_failed": float(distance > 0.5 * np.sqrt(problem.singular_values[-1])),
    }


def _law_given_tokens(setting: Setting, data: Contexts, problem: SoftmaxRegression, draw: int, stream: Stream) -> float:
    """The closed form of the learned excess for the very tokens and labels of this draw; NaN where there is none."""
    tokens = token_normals(stream, draw, setting.n, setting.width, contexts=setting.count)
    error = (data.least_squares().target - problem.target) @ problem.root
    law = learned_excess_given_tokens(tokens, problem.whitened_target, tau=setting.balance, label_error=error)
    return np.nan if law is None else law


def _prompt_error(setting: Setting, problem: SoftmaxRegression, weights: Weights, draw: int, stream: Stream) -> float:
    """1/2 E|M x - f(x)|^2 over fresh queries in fresh contexts of n tokens, by Monte Carlo."""
    contexts, queries = (
        token_normals(stream, draw, count, setting.width, contexts=PROMPTS, name=name) @ problem.root
        for count, name in ((setting.n, "fresh"), (QUERIES, "asked"))
    )
    return sampled_risk(problem, weights, contexts, queries)

"""One training run of softmax regression by any method, every method with the same tuning budget.

A method gets six learning rates, a common grid of multiples of its own natural step, each tried once on a pilot sample
of its own for as many passes as the run itself. The rate with the least final empirical risk is then used, and after a
divergence the next lower one: nothing of the population is seen. A pass touches every query once: one full-batch step,
or n / batch steps of SGD.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from rmt.regression.softmax_balance import Balanced
from rmt.regression.softmax_descent import Gradient, State, descent, full_batch, mini_batches
from rmt.regression.softmax_draws import draw_order, draw_weights
from rmt.regression.softmax_empirical import EmpiricalRisk
from rmt.regression.softmax_objective import Objective
from rmt.regression.softmax_problem import Contexts, SoftmaxRegression
from rmt.regression.softmax_rules import Adam, Decayed, GradientDescent, Muon, Preconditioned, Shampoo, renormalised
from rmt.regression.softmax_start import random_start, spectral_start
from rmt.regression.softmax_weights import Weights
from rmt.streams import Stream

OPTIMIZERS = ("preconditioned", "renormalised", "gd", "sgd", "adam", "shampoo", "muon")
STARTS = ("spectral", "random", "large")
RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
BATCH = 64

_SCALES = {"random": 0.5, "large": 1.0}  # standard deviation of the entries of a random start


@dataclass(frozen=True)
class Method:
    """How a head is trained: optimiser, start, whether the balance is regularised (by `rho`), balance tau, passes."""

    optimizer: str
    start: str
    regularized: bool
    tau: float
    passes: int
    rho: float = 0.5

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS or self.start not in STARTS:
            raise ValueError(f"{self.optimizer} from {self.start}; choose from {OPTIMIZERS} and {STARTS}")


@dataclass(frozen=True, eq=False)
class Training:
    """What a run left: its last state, the excess after each pass (passes + 1,), NaN after a divergence, and its rate."""

    last: State
    curve: np.ndarray
    rate: float


def train(
    method: Method, data: Contexts, pilot: Contexts, stream: Stream, draw: int, *, problem: SoftmaxRegression
) -> Training:
    """Tune on the pilot, then run on the data; `problem` only judges (population excess of every state)."""
    risks = {rate: _pilot_risk(method, rate, pilot, stream, draw) for rate in RATES}
    rate = min(RATES, key=lambda tried: risks[tried])
    slower = [other for other in sorted(RATES, reverse=True) if other <= rate]
    for rate in slower:
        found = train_at(method, rate, data, stream, draw, problem=problem)
        if found.last.diverged_at is None:
            break
    return found


def train_at(
    method: Method, rate: float, data: Contexts, stream: Stream, draw: int, *, problem: SoftmaxRegression
) -> Training:
    """Run without tuning, at `rate` times the natural step."""
    curve = np.full(method.passes + 1, np.nan)
    states = list(_passes(method, rate, data, stream, draw, problem))
    kept = [state.excess for state in states if state.diverged_at is None]
    curve[: len(kept)] = kept
    return Training(states[-1], curve, rate)


def _pilot_risk(method: Method, rate: float, pilot: Contexts, stream: Stream, draw: int) -> float:
    *_, last = _passes(method, rate, pilot, stream, draw, None)
    return np.inf if last.diverged_at is not None else EmpiricalRisk(pilot).value(last.weights)


def _passes(
    method: Method, rate: float, data: Contexts, stream: Stream, draw: int, problem: SoftmaxRegression | None
) -> Iterator[State]:
    """The state at the start and after every pass; a divergent one early."""
    shown = data.least_squares()
    per_pass = max(1, data.queries // BATCH) if method.optimizer == "sgd" else 1
    states = descent(
        _rule(method, rate, shown, method.passes * per_pass),
        _gradient(method, data, shown, stream, draw),
        _start(method, data, shown, stream, draw),
        problem=problem,
    )
    for state in islice(states, method.passes * per_pass + 1):
        if state.diverged_at is not None or state.step % per_pass == 0:
            yield state


def _rule(method: Method, rate: float, shown: SoftmaxRegression, horizon: int) -> Any:
    """The rule at `rate` times its natural step, which the data decide: curvature for descents, size for the others."""
    values, spread = shown.singular_values, np.linalg.norm(shown.covariance, 2)
    size = np.sqrt(values[0])  # of At and Bt at the minima
    if method.optimizer in ("preconditioned", "renormalised"):
        norm = float(np.sqrt(values[0] / method.tau)) if method.optimizer == "renormalised" else None
        return Preconditioned(shown, rate / (values[0] + values[-1]), method.tau, norm)
    if method.optimizer == "gd":
        return GradientDescent(rate / (values[0] * max(spread, spread**2)))
    named = {
        "sgd": GradientDescent(rate / (values[0] * max(spread, spread**2))),
        "adam": Adam(0.3 * rate * size),
        "shampoo": Shampoo(1.5 * rate * size),
        "muon": Muon(0.1 * rate * size),
    }
    return Decayed(named[method.optimizer], horizon)


def objective_of(method: Method, data: Contexts) -> Objective:
    """What a method descends on all the data: the risk, and the balance if it is regularised."""
    risk = EmpiricalRisk(data)
    if not method.regularized:
        return risk
    tau = None if method.optimizer == "renormalised" else method.tau
    return Balanced(risk, data.least_squares().covariance, tau, method.rho)


def _gradient(method: Method, data: Contexts, shown: SoftmaxRegression, stream: Stream, draw: int) -> Gradient:
    if method.optimizer != "sgd":
        return full_batch(objective_of(method, data))

    def around(risk: Objective) -> Objective:
        return Balanced(risk, shown.covariance, method.tau, method.rho) if method.regularized else risk

    order = draw_order(stream, draw, data.queries, method.passes)
    return mini_batches(EmpiricalRisk(data), order, min(BATCH, data.queries), around=around)


def _start(method: Method, data: Contexts, shown: SoftmaxRegression, stream: Stream, draw: int) -> Weights:
    if method.start == "spectral":
        start = spectral_start(data, tau=method.tau)
    else:
        start = random_start(draw_weights(stream, draw, shown.width, shown.outputs), scale=_SCALES[method.start])
    if method.optimizer == "renormalised":
        return renormalised(shown, start, float(np.sqrt(shown.singular_values[0] / method.tau)))
    return start

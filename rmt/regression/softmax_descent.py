"""A descent as an iterator of frozen states: watch it, stop it, resume it from any state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from rmt.regression.softmax_balance import Balanced
from rmt.regression.softmax_empirical import EmpiricalRisk
from rmt.regression.softmax_objective import Objective
from rmt.regression.softmax_population import excess_risk
from rmt.regression.softmax_problem import Contexts, SoftmaxRegression
from rmt.regression.softmax_rules import Memory, Preconditioned, Rule, renormalised
from rmt.regression.softmax_start import spectral_start
from rmt.regression.softmax_weights import Weights

Gradient = Callable[[Weights, int], tuple[float, Weights]]

_BLOWN_UP = 1e6  # a loss this many times the first one (or 1) is not coming back


@dataclass(frozen=True, eq=False)
class State:
    """What is known after `step` steps.

    `loss` is the objective that is descended, `excess` the population excess risk (by the closed form, None without a
    problem to judge by), `rate` the excess divided by that of the step before, `value_norm` and `score_norm` the
    spectral norms of At and Bt (of A and B without a problem). Every number is finite: a state that is not ends the
    descent, and the last finite one is yielded again with `diverged_at` set.
    """

    step: int
    weights: Weights
    memory: Memory
    loss: float
    excess: float | None
    rate: float | None
    gradient_norm: float
    value_norm: float
    score_norm: float
    first_loss: float
    diverged_at: int | None = None

    @property
    def message(self) -> str:
        """One line for people."""
        if self.diverged_at is not None:
            return f"diverged at step {self.diverged_at}"
        shown = f"step {self.step}: loss {self.loss:.4g}, gradient {self.gradient_norm:.2g}"
        return shown if self.excess is None else f"{shown}, excess {self.excess:.4g}"


def descent(
    rule: Rule,
    gradient: Gradient,
    start: Weights | State,
    *,
    problem: SoftmaxRegression | None = None,
) -> Iterator[State]:
    """Yield the state at the start, then after every step, without end (or until it diverges).

    `gradient(weights, step)` gives loss and gradient: see `full_batch` and `mini_batches`. `start` is weights, or a
    state of an earlier descent to go on from; the states then follow as if it had never stopped.
    """
    if isinstance(start, State):
        last = start
        if last.diverged_at is not None:
            return
        slope = gradient(last.weights, last.step)[1]
    else:
        first = _observe(gradient, start, 0, rule.begin(start), problem, None)
        if first is None:
            raise ValueError("the start has no finite loss; choose smaller weights")
        last, slope = first
        yield last
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            weights, memory = rule.move(last.weights, slope, last.memory, last.step)
            seen = _observe(gradient, weights, last.step + 1, memory, problem, last)
        if seen is None:
            yield _diverged(last)
            return
        last, slope = seen
        yield last


def run(states: Iterator[State], steps: int) -> State:
    """The state after at most `steps` more steps: the last one if the descent diverges before."""
    for state in states:
        if state.step >= steps or state.diverged_at is not None:
            return state
    raise ValueError("the descent had already diverged; start it again with a smaller step")


def full_batch(objective: Objective) -> Gradient:
    """The gradient of the whole objective at every step."""
    return lambda weights, step: objective.value_and_gradient(weights)


def mini_batches(
    risk: EmpiricalRisk, order: np.ndarray, batch: int, *, around: Callable[[Objective], Objective] = lambda risk: risk
) -> Gradient:
    """The gradient over `batch` queries at a time, in the order of `order` (epochs, queries).

    `around` completes the risk of each batch to the objective, for example by the balancing regulariser.

    Contexts stay whole and the batches of one epoch are disjoint, so each gradient is unbiased over random orders.
    After the last epoch the orders start again.
    """
    queries = risk.contexts.queries
    if not 1 <= batch <= queries:
        raise ValueError(f"batch = {batch}; it must lie between 1 and the {queries} queries: choose fewer")
    per_epoch = queries // batch

    def gradient(weights: Weights, step: int) -> tuple[float, Weights]:
        epoch, part = divmod(step, per_epoch)
        rows = np.sort(order[epoch % len(order), part * batch : (part + 1) * batch])
        return around(EmpiricalRisk(risk.contexts, rows)).value_and_gradient(weights)

    return gradient


def algorithm_one(
    contexts: Contexts,
    *,
    tau: float = 1.0,
    rho: float = 0.5,
    step: float | str = "safe",
    score_norm: float | None = None,
    start: Weights | State | None = None,
    problem: SoftmaxRegression | None = None,
) -> Iterator[State]:
    """The complete structure-aware algorithm: spectral start, balancing regulariser, preconditioner.

    `step` is "safe" 1/(2 s_1), "fast" 1/(s_1 + s_d), or a number; s are the singular values of the whitened
    least-squares target. `score_norm` asks for the renormalised variant. `start` replaces the spectral start.
    """
    data = contexts.least_squares()
    values = data.singular_values
    if isinstance(step, str):
        if step not in ("safe", "fast"):
            raise ValueError(f"step {step!r}; choose safe, fast or a positive number")
        step = float(1 / (2 * values[0]) if step == "safe" else 1 / (values[0] + values[-1]))
    if start is None:
        start = spectral_start(contexts, tau=tau)
        if score_norm is not None:
            start = renormalised(data, start, score_norm)
    objective = Balanced(EmpiricalRisk(contexts), data.covariance, None if score_norm is not None else tau, rho)
    rule = Preconditioned(data, step, tau, score_norm)
    return descent(rule, full_batch(objective), start, problem=problem)


def _observe(
    gradient: Gradient,
    weights: Weights,
    step: int,
    memory: Memory,
    problem: SoftmaxRegression | None,
    last: State | None,
) -> tuple[State, Weights] | None:
    if not weights.is_finite:
        return None
    loss, slope = gradient(weights, step)
    excess = None if problem is None else excess_risk(problem, weights)
    if not (np.isfinite(loss) and slope.is_finite and (excess is None or np.isfinite(excess))):
        return None
    first = loss if last is None else last.first_loss
    if loss > _BLOWN_UP * max(first, 1.0):
        return None
    seen = weights if problem is None else problem.whiten(weights)
    rate = excess / last.excess if last is not None and excess is not None and last.excess else None
    norms = float(np.linalg.norm(seen.value, 2)), float(np.linalg.norm(seen.score, 2))
    return State(step, weights, memory, loss, excess, rate, slope.norm, *norms, first), slope


def _diverged(last: State) -> State:
    return replace(last, diverged_at=last.step + 1)

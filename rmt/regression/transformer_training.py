"""One training run, watched: loss, extreme singular values, tangent kernel, sharpness and drift along the way."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from rmt.regression.transformer_descent import Adam, GradientDescent, TrainingState, descend
from rmt.regression.transformer_loss import SquaredLoss, outputs, tangent_extremes, tangent_gram, trace
from rmt.regression.transformer_model import TransformerWeights

LATE = 20  # steps over which the late rate is taken
WATCHED = ("loss", "smallest", "largest", "tangent_smallest", "tangent_largest", "sharpness", "drift")


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    losses (steps + 1,) up to where it stopped; `curves` maps each name of `WATCHED` to values at `checkpoints` (after the
    end, loss and drift stay and the others are NaN). `reached` is the first step with a loss below 1e-3 of the first one,
    None where it is never that low. `late_rate` and `late_law`: logarithm of the loss ratio over the last `LATE` steps,
    measured and with a frozen kernel.
    """

    last: TrainingState
    losses: np.ndarray
    checkpoints: np.ndarray
    curves: dict[str, np.ndarray]
    reached: int | None
    late_rate: float
    late_law: float

    @property
    def worst_ratio(self) -> float:
        """The largest Phi(t+1)/Phi(t)."""
        return float(np.max(self.losses[1:] / self.losses[:-1])) if len(self.losses) > 1 else math.nan


def rule_of(optimizer: str, step: float) -> GradientDescent | Adam:
    """The rule by name."""
    return {"gd": GradientDescent, "adam": Adam}[optimizer](step)


def checkpoints_of(steps: int, count: int = 32) -> np.ndarray:
    """Step numbers, 0 to `steps`, nearly in geometric progression; fewer for short runs, padded with the last."""
    grid = np.unique(np.rint(np.geomspace(1, max(steps, 1), 4 * count)).astype(int))
    kept = grid[np.unique(np.linspace(0, len(grid) - 1, count - 1).astype(int))]
    grid = np.append(0, kept)
    return np.append(grid, np.full(count - len(grid), grid[-1]))


def train(
    rule: GradientDescent | Adam,
    loss: SquaredLoss,
    start: TransformerWeights,
    *,
    steps: int,
    goal: float = 1e-12,
    watched: bool = True,
) -> Run:
    """Descend for `steps` steps, or until the loss is `goal` times the first one; then `LATE` more steps for the late rate.

    `watched` off leaves the tangent kernel, sharpness and singular values out (NaN): they cost much with many sequences.
    """
    states = descend(rule, loss, start)
    marks = checkpoints_of(steps)
    curves = {name: np.full(len(marks), np.nan) for name in WATCHED}
    losses, reached, last = [], None, None
    for last in itertools.islice(states, steps + 1):
        if last.diverged_at is not None:
            break
        losses.append(last.loss)
        if reached is None and last.loss < 1e-3 * last.first_loss:
            reached = last.step
        if np.any(marks == last.step):
            seen = _watch(loss, start, last, watched)
            for name, value in seen.items():
                curves[name][marks == last.step] = value
        if last.loss <= goal * last.first_loss:
            break
    assert last is not None
    for name in ("loss", "drift"):  # a run that has ended stays where it is
        kept = curves[name][np.isfinite(curves[name])]
        curves[name][marks > last.step] = last.loss if name == "loss" else kept[-1]
    rate = law = math.nan
    if watched and isinstance(rule, GradientDescent) and last.diverged_at is None:
        rate, law = _late(rule, loss, last, states)
    return Run(last, np.array(losses), marks, curves, reached, rate, law)


def _watch(loss: SquaredLoss, start: TransformerWeights, state: TrainingState, watched: bool) -> dict[str, float]:
    drift = float(np.linalg.norm(state.weights.entries - start.entries))
    seen = {"loss": state.loss, "drift": drift}
    if watched:
        low, high = tangent_extremes(state.weights, loss.X)
        values = np.linalg.svd(trace(state.weights, loss.X)[0][-1].Z[0], compute_uv=False)
        seen |= {"smallest": float(values[-1]), "largest": float(values[0])}
        seen |= {
            "tangent_smallest": low,
            "tangent_largest": high,
            "sharpness": loss.sharpness(state.weights, tolerance=1e-2),
        }
    return seen


def _late(rule: GradientDescent, loss: SquaredLoss, state: TrainingState, states) -> tuple[float, float]:
    """Logarithm of the loss ratio over the next steps, measured and by E(t+1) = (I - step K) E(t), K at their start."""
    error = (outputs(state.weights, loss.X) - loss.Y).ravel()
    values, vectors = np.linalg.eigh(tangent_gram(state.weights, loss.X))
    frozen = (1 - rule.step * values) ** LATE * (vectors.T @ error)
    later = next(itertools.islice(states, LATE - 1, LATE), state)
    if later.loss <= 0 or state.loss <= 0 or later.diverged_at is not None:
        return math.nan, math.nan
    return math.log(later.loss / state.loss), math.log(float(frozen @ frozen) / float(error @ error))

"""Training a transformer as an iterator of frozen states: watch it, stop it, keep it, resume it bit for bit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rmt.regression.softmax_rules import Adam, GradientDescent
from rmt.regression.transformer_loss import SquaredLoss
from rmt.regression.transformer_model import Transformer, TransformerWeights

__all__ = ["Adam", "GradientDescent", "TrainingState", "descend", "load_state", "save_state"]

_BLOWN_UP = 1e6  # a loss this many times the first one is not coming back


@dataclass(frozen=True, eq=False)
class TrainingState:
    """What is known after `step` steps. `ratio` is the loss over that of the step before (None at the start).

    Every number is finite: a step that is not ends the descent, and the last finite state is yielded again with
    `diverged_at` set.
    """

    step: int
    weights: TransformerWeights
    memory: tuple[TransformerWeights, ...]
    loss: float
    first_loss: float
    ratio: float | None = None
    diverged_at: int | None = None


def descend(
    rule: GradientDescent | Adam, loss: SquaredLoss, start: TransformerWeights | TrainingState
) -> Iterator[TrainingState]:
    """Yield the state at the start, then after every step, without end (or until it diverges).

    `start` is weights, or a state of an earlier descent to go on from: the states then follow as if it had never stopped.
    """
    if isinstance(start, TrainingState):
        last = start
        if last.diverged_at is not None:
            return
        gradient = loss.value_and_gradient(last.weights)[1]
    else:
        value, gradient = loss.value_and_gradient(start)
        last = TrainingState(0, start, rule.begin(start), value, value)  # type: ignore[arg-type]
        yield last
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            weights, memory = rule.move(last.weights, gradient, last.memory, last.step)  # type: ignore[arg-type]
            value, gradient = loss.value_and_gradient(weights)  # type: ignore[arg-type]
        if not (np.isfinite(value) and gradient.is_finite and value <= _BLOWN_UP * last.first_loss):
            yield replace(last, diverged_at=last.step + 1)
            return
        ratio = value / last.loss if last.loss > 0 else None
        last = TrainingState(last.step + 1, weights, memory, value, last.first_loss, ratio)  # type: ignore[arg-type]
        yield last


def save_state(state: TrainingState, path: str | os.PathLike[str]) -> None:
    """Keep a state as .npz: written under a temporary name and renamed."""
    path = Path(path)
    temporary = path.with_name(f".writing-{os.getpid()}-{path.name}")
    numbers = [state.step, state.loss, state.first_loss, np.nan if state.ratio is None else state.ratio]
    memory = np.array([one.entries for one in state.memory]).reshape(len(state.memory), state.weights.model.size)
    with open(temporary, "wb") as file:
        np.savez(file, entries=state.weights.entries, memory=memory, numbers=np.array(numbers))
    os.replace(temporary, path)


def load_state(path: str | os.PathLike[str], model: Transformer) -> TrainingState:
    """The state that `save_state` kept, for the same model. Raises ValueError where the sizes do not fit."""
    with np.load(path, allow_pickle=False) as kept:
        entries, memory, numbers = kept["entries"], kept["memory"], kept["numbers"]
    if entries.shape != (model.size,):
        raise ValueError(
            f"{path} holds {entries.size} weights, the model has {model.size}: give the model it was kept for"
        )
    weights = TransformerWeights(model, entries)
    ratio = None if np.isnan(numbers[3]) else float(numbers[3])
    moments = tuple(weights.like(one) for one in memory)
    return TrainingState(int(numbers[0]), weights, moments, float(numbers[1]), float(numbers[2]), ratio)

"""One training run: a model drawn from the stream, Adam on minibatches, probes on the way, and what it came to."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rmt.arrays import CPU
from rmt.kernels import kernels_for
from rmt.streams import Stream
from simulations.training.data import Data
from simulations.training.model import Transformer
from simulations.training.probe import PROBED, probe

__all__ = ["Schedule", "draw_weights", "time_ratio", "train"]

PROBES = 5  # how often a run is looked at, start and end included
TIMED = 7  # steps that two models take in turn
SMOOTH = 5  # losses averaged before a goal counts as reached


@dataclass(frozen=True)
class Schedule:
    """Adam at a constant rate for a number of steps of `batch` sequences."""

    steps: int
    rate: float
    batch: int


def draw_weights(model: Transformer, stream: Stream, draw: int) -> None:
    """Weights N(0, 1/fan in), embeddings and positions N(0, 0.25), biases 0, norms as torch makes them.

    Every number belongs to its parameter's name.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim < 2:
                continue
            rows, columns = parameter.shape
            std = 0.5 if name.startswith(("embed", "position")) else columns**-0.5
            drawn = kernels_for(CPU).variates(stream.words(name, draw), 0, rows, columns)
            parameter.copy_(std * torch.from_numpy(drawn))
        for module in model.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.zero_()


def train(
    model: Transformer, data: Data, schedule: Schedule, stream: Stream, draw: int
) -> dict[str, np.ndarray | float]:
    """Final losses and accuracies, steps to half the loss of guessing, the loss curve, and the probes along the way."""
    inputs, targets = _tensors(data, "train")
    optimiser = torch.optim.Adam(model.parameters(), lr=schedule.rate)
    order = _order(stream, draw, len(inputs), schedule)
    looks = np.unique(np.round(np.array([0, 0.1, 0.25, 0.5, 1]) * schedule.steps).astype(int))
    start = kernels_for(CPU).variates(stream.words("probe", draw), 0, 1, 4096)[0].astype(float)
    probes, losses = [], np.empty(schedule.steps)
    held = held_bytes(model, inputs[: schedule.batch], targets[: schedule.batch])
    for step in range(schedule.steps + 1):
        if step in looks:
            probes.append(list(probe(model, inputs, start).values()))
        if step == schedule.steps:
            break
        rows = order[step]
        loss = _loss(model(inputs[rows]), targets[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses[step] = loss.item()
    record: dict[str, np.ndarray | float] = {
        "_losses": losses,
        "_probe_steps": np.resize(looks.astype(float), PROBES),
        "_held_bytes": float(held),
        "parameters": float(sum(p.numel() for p in model.parameters())),
        "steps_to_goal": _steps_to(losses, math.log(data.classes) / 2),
    }
    table = np.resize(np.array(probes), (PROBES, len(PROBED)))
    record |= {f"_{name}": table[:, column] for column, name in enumerate(PROBED)}
    record |= {name: float(table[-1, column]) for column, name in enumerate(PROBED)}
    record["initial_jacobian_condition"] = float(table[0, PROBED.index("jacobian_condition_number")])
    for part in ("train", "validation", "test"):
        record[f"{part}_loss"], record[f"{part}_accuracy"] = evaluate(model, data, part)
    record["generalisation_gap"] = float(record["test_loss"]) - float(record["train_loss"])
    alphas = [b.attention.alpha for b in model.blocks if b.attention.alpha is not None]
    record["alpha"] = float(torch.stack([a.detach().mean() for a in alphas]).mean()) if alphas else math.nan
    return record


def time_ratio(model: Transformer, plain: Transformer, data: Data, schedule: Schedule) -> float:
    """Time of a training step of one model over that of another, taken in turn so that a busy machine slows both alike."""
    inputs, targets = (part[: schedule.batch] for part in _tensors(data, "train"))
    racers = [
        (each, torch.optim.Adam(each.parameters(), lr=0.0)) for each in (copy.deepcopy(model), copy.deepcopy(plain))
    ]
    seconds: list[list[float]] = [[], []]
    for _ in range(TIMED):
        for kept, (each, optimiser) in zip(seconds, racers, strict=True):
            began = time.perf_counter()
            optimiser.zero_grad()
            _loss(each(inputs), targets).backward()
            optimiser.step()
            kept.append(time.perf_counter() - began)
    return float(np.median(seconds[0]) / np.median(seconds[1]))


def evaluate(model: Transformer, data: Data, part: str) -> tuple[float, float]:
    """Mean loss and share of right answers."""
    inputs, targets = _tensors(data, part)
    with torch.no_grad():
        answers = torch.cat([model(chunk) for chunk in inputs.split(256)])
        asked = targets >= 0
        right = (answers.argmax(dim=-1) == targets)[asked].double().mean()
        return float(_loss(answers, targets)), float(right)


def held_bytes(model: Transformer, inputs: Tensor, targets: Tensor) -> int:
    """Bytes held when the backward pass begins: parameters with gradients and Adam's two moments, buffers, saved tensors."""
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = _loss(model(inputs), targets)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved = sum(size for place, size in seen.items() if place not in own)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    del loss
    return 4 * weights + buffers + saved


def _loss(answers: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(answers.flatten(0, -2), targets.flatten(), ignore_index=-1)


def _tensors(data: Data, part: str) -> tuple[Tensor, Tensor]:
    inputs, targets = data.part(part)
    return torch.from_numpy(inputs if data.vocabulary else inputs.astype(np.float32)), torch.from_numpy(targets)


def _order(stream: Stream, draw: int, count: int, schedule: Schedule) -> np.ndarray:
    """The sequences of every step, (steps, batch): random orders of the training set, one after another."""
    epochs = -(-schedule.steps * schedule.batch // count)
    chance = kernels_for(CPU).variates(stream.words("order", draw), 0, epochs, count)
    return (
        np.argsort(chance, axis=1, kind="stable").ravel()[: schedule.steps * schedule.batch].reshape(schedule.steps, -1)
    )


def _steps_to(losses: np.ndarray, goal: float) -> float:
    """First step at which the mean of the last few losses is below the goal; one more than there are if it never is."""
    smooth = np.convolve(losses, np.ones(SMOOTH) / SMOOTH, mode="valid")
    below = np.flatnonzero(smooth <= goal)
    return float(below[0] + SMOOTH) if below.size else float(len(losses) + 1)

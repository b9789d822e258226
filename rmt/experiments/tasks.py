"""Tasks: blocks of draws of one setting, as JSON records that name their experiment and pickle no code."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from rmt.experiments.experiment import Bench, Experiment, load
from rmt.experiments.setting import as_record, identity

DRAWS_PER_BLOCK = 4
LARGE_N = 8192  # from here on one draw is work enough for a block


@dataclasses.dataclass(frozen=True)
class Task:
    """One block of draws: first, ..., first + count - 1 of one setting."""

    module: str
    name: str
    version: int
    setting: Any
    seed: int
    dtype: str
    spectrum: str
    first: int
    count: int

    @property
    def key(self) -> str:
        """sha256 of what decides the numbers: never the device, the executor, the memory budget or the commit."""
        record = {
            "experiment": self.name,
            "version": self.version,
            "setting": identity(self.setting),
            "seed": self.seed,
            "dtype": self.dtype,
            "spectrum": self.spectrum,
            "first": self.first,
            "count": self.count,
        }
        canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def record(self) -> dict[str, Any]:
        """The task as JSON, enough for any worker to run it."""
        return {
            "module": self.module,
            "name": self.name,
            "version": self.version,
            "setting": as_record(self.setting),
            "seed": self.seed,
            "dtype": self.dtype,
            "spectrum": self.spectrum,
            "first": self.first,
            "count": self.count,
        }


def blocks(draws: int, size: int) -> Iterator[tuple[int, int]]:
    """(first, count) of the blocks that hold `draws` draws; only the last may be short."""
    for first in range(0, draws, size):
        yield first, min(size, draws - first)


def plan(
    experiment: Experiment, settings: list[Any], *, draws: int, seed: int, dtype: str, spectrum: str
) -> list[Task]:
    """The tasks of a sweep, in order of setting and draw."""
    return [
        Task(experiment.module, experiment.name, experiment.version, setting, seed, dtype, spectrum, first, count)
        for setting in settings
        for first, count in blocks(draws, block_size(setting))
    ]


def block_size(setting: Any) -> int:
    """Draws in a block: 4, and 1 from n = 8192 on."""
    n = getattr(setting, "n", 0)
    return 1 if isinstance(n, int) and n >= LARGE_N else DRAWS_PER_BLOCK


def run_task(record: dict[str, Any], bench: Bench) -> tuple[dict[str, np.ndarray], float]:
    """Measure one block; returns its arrays and the seconds it took.

    Raises whatever the measurement raises: a failed draw fails its block loudly.
    """
    from rmt.streams import stream

    experiment = load(record["module"])
    setting = experiment.Setting(**record["setting"])
    draws = range(record["first"], record["first"] + record["count"])
    start = time.perf_counter()
    measured = experiment.measure(setting, draws, stream(record["seed"]), bench)
    seconds = time.perf_counter() - start
    arrays = {name: np.asarray(value) for name, value in measured.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or array.shape[0] != len(draws):
            raise ValueError(f"{name}: measure must give one entry per draw ({len(draws)}), got shape {array.shape}")
    return arrays, seconds

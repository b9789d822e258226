"""Checks shared by the ensembles: value, rule, remedy."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rmt.arrays import Array, Backend
from rmt.ensembles.matrix import AttentionMatrix
from rmt.streams import Stream

LARGEST_BETA = 1e4


def check_count(name: str, value: int) -> None:
    """A size: an integer from 1 to 2^31 - 1."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} {value!r} is no integer; give a whole number of at least 1") from None
    if isinstance(value, bool) or not 1 <= number < 2**31:
        raise ValueError(f"{name} {value!r} is out of range; give a whole number of at least 1")


def check_beta(beta: float) -> None:
    """The nominal standard deviation of the logits: 0 up to 1e4."""
    if not (isinstance(beta, (int, float, np.floating)) and math.isfinite(beta) and 0 <= beta <= LARGEST_BETA):
        raise ValueError(f"beta {beta!r} is out of range; give a number from 0 to {LARGEST_BETA:g}")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """A word from a list."""
    if value not in choices:
        raise ValueError(f"{name} {value!r} is unknown; choose {' or '.join(choices)}")


def check_dtype(dtype: Any) -> np.dtype:
    """float32 or float64."""
    wanted = np.dtype(dtype)
    if wanted not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype {wanted} is not supported; choose float32 or float64")
    return wanted


class Drawn(Protocol):
    """An ensemble whose draws are attention matrices."""

    @property
    def n(self) -> int: ...

    def matrix(
        self, stream: Stream, draw: int = 0, *, backend: Backend, dtype: Any, workers: int, memory_budget: int | None
    ) -> AttentionMatrix: ...


def sampled(
    ensemble: Drawn, stream: Stream, batch: Sequence[int], *, backend: Backend, dtype: Any, workers: int
) -> Array:
    """Draws 0, 1, ... of an ensemble, stacked to (*batch, n, n) and held whole."""
    n, count = ensemble.n, math.prod(batch)
    out = backend.xp.empty((count, n, n), dtype=check_dtype(dtype))
    for draw in range(count):
        out[draw] = ensemble.matrix(
            stream, draw, backend=backend, dtype=dtype, workers=workers, memory_budget=None
        ).dense()
    return out.reshape(*batch, n, n)

"""Scores: from logits to the rows of an attention matrix, with every option that models in use have.

In this order: soft cap, position bias, mask, and the attention function. The plain softmax with or without a causal
mask has kernels of its own (`rmt.kernels`); what is here serves everything else, a tile at a time, on any array library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rmt.arrays import Array, Backend
from rmt.attention.masks import Mask
from rmt.attention.positions import alibi
from rmt.ensembles.matrix import tile_rows
from rmt.ensembles.parameters import check_choice
from rmt.kernels import kernels_for, reference
from rmt.streams import Words

FUNCTIONS = ("softmax", "sigmoid", "relu", "linear", "tanh")
LARGEST_SINK = 500.0  # e^500 is a double


@dataclass(frozen=True)
class Score:
    """How logits l_ij become weights A_ij.

    cap: c in c tanh(l/c), None for no cap. slope: of ALiBi, None for none. sink: b in
    A_ij = e^l_ij/(e^b + sum_k e^l_ik), None for none (0 is softmax-off-by-one). function: "softmax", or f(l_ij) over the
    number of keys that query i sees, for f the logistic function ("sigmoid"), "relu", the logit itself ("linear"), "tanh".
    """

    mask: Mask = field(default_factory=Mask)
    cap: float | None = None
    slope: float | None = None
    sink: float | None = None
    function: str = "softmax"

    def __post_init__(self) -> None:
        check_choice("attention", self.function, FUNCTIONS)
        for name in ("cap", "slope"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} {value}: must be a finite number > 0")
        if self.sink is not None and not abs(self.sink) <= LARGEST_SINK:
            raise ValueError(f"sink {self.sink}: must be a number from -{LARGEST_SINK:g} to {LARGEST_SINK:g}")
        if self.sink is not None and self.function != "softmax":
            raise ValueError(f"sink {self.sink} with {self.function} attention: a sink belongs to softmax")

    @property
    def plain(self) -> bool:
        """Whether the kernels of softmax cover it."""
        optional = (self.cap, self.slope, self.sink, self.mask.window)
        return self.function == "softmax" and all(value is None for value in optional)

    @property
    def stochastic(self) -> bool:
        """Whether every row sums to one."""
        return self.function == "softmax" and self.sink is None


class Logits(Protocol):
    """What can make any rows of one logit matrix again, always the same."""

    @property
    def n(self) -> int: ...

    @property
    def dtype(self) -> np.dtype: ...

    @property
    def backend(self) -> Backend: ...

    @property
    def nbytes(self) -> int: ...

    def fill(self, start: int, out: Array) -> None: ...


@dataclass(frozen=True)
class NormalLogits:
    """iid N(0, beta^2) logits, the same numbers as under `rmt.ensembles.markov`."""

    n: int
    words: Words
    beta: float
    dtype: np.dtype
    backend: Backend
    nbytes: int = 0

    def fill(self, start: int, out: Array) -> None:
        """Write rows start, start + 1, ... of the logits to `out` (rows, n)."""
        drawn = kernels_for(self.backend).variates(self.words, start, start + out.shape[0], self.n)
        out[...] = drawn.astype(self.dtype) * self.dtype.type(self.beta)


@dataclass(frozen=True, eq=False)
class ProductLogits:
    """Logits Q K^T; `queries` (already scaled) and `keys` (n, d_k) lie on the backend."""

    queries: Array
    keys: Array
    backend: Backend

    @property
    def n(self) -> int:
        return self.keys.shape[0]

    @property
    def dtype(self) -> np.dtype:
        return self.keys.dtype

    @property
    def nbytes(self) -> int:
        return self.queries.nbytes + self.keys.nbytes

    def fill(self, start: int, out: Array) -> None:
        """Write rows start, start + 1, ... of the logits to `out` (rows, n)."""
        self.backend.xp.matmul(self.queries[start : start + out.shape[0]], self.keys.T, out=out)


@dataclass(frozen=True)
class Sums:
    """What is gathered along the rows of one tile."""

    squares: float
    entropies: float

    def frobenius_norm_squared(self, xp: Any = np) -> float:
        """Sum of the squared entries."""
        return self.squares

    def entropy(self, xp: Any = np) -> float:
        """Sum over the rows of -sum a ln a, in nats; nan where the weights are no probabilities."""
        return self.entropies


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows of an attention matrix: logits, scored."""

    logits: Logits
    score: Score

    @property
    def n(self) -> int:
        return self.logits.n

    @property
    def dtype(self) -> np.dtype:
        return self.logits.dtype

    @property
    def backend(self) -> Backend:
        return self.logits.backend

    @property
    def tile(self) -> int:
        return tile_rows(self.n, self.backend, 2**18)

    @property
    def nbytes(self) -> int:
        return self.logits.nbytes + 40 * self.tile * self.n  # a dozen float32 tiles at work

    def fill(self, start: int, out: Array, column_sums: Array | None = None) -> Sums:
        """Write rows start ... start + r - 1 into `out` (r, n); add their sum to `column_sums` (n,) float64."""
        xp, score, rows = self.backend.xp, self.score, out.shape[0]
        self.logits.fill(start, out)
        if score.cap is not None:
            out[...] = score.cap * xp.tanh(out / score.cap)
        if score.slope is not None:
            out += alibi(start, rows, self.n, score.slope, xp=xp).astype(self.dtype)
        seen = score.mask.seen(start, rows, self.n, xp=xp)
        entropy = math.nan
        if score.function == "softmax":
            entropy = _softmax(out, seen, score.sink, xp)
        else:
            count = xp.sum(seen, axis=1)[:, None].astype(self.dtype)
            out[...] = xp.where(seen, _FUNCTIONS[score.function](out, xp), 0) / count
        if column_sums is not None:
            column_sums += xp.sum(out, axis=0, dtype=np.float64)
        return Sums(float(xp.sum(xp.square(out, dtype=np.float64))), entropy)


def _softmax(rows: Array, seen: Array, sink: float | None, xp: Any) -> float:
    """Softmax in place over what is seen; the sum of the entropies of the rows."""
    low = rows.dtype.type(-xp.inf)
    shift = xp.max(xp.where(seen, rows, low), axis=1)[:, None]
    logits = xp.where(seen, rows - shift, rows.dtype.type(0))
    weights = xp.where(seen, reference.exp(logits, xp=xp), rows.dtype.type(0))
    total = xp.sum(weights, axis=1, dtype=np.float64)
    if sink is not None:
        total = total + xp.exp(sink - shift[:, 0].astype(np.float64))
    rows[...] = weights / total.astype(rows.dtype)[:, None]
    kept = xp.sum(weights, axis=1, dtype=np.float64) / total
    weighted = xp.sum(weights * logits, axis=1, dtype=np.float64)
    return float(xp.sum(kept * xp.log(total) - weighted / total))


def _sigmoid(logits: Array, xp: Any) -> Array:
    return 0.5 + 0.5 * xp.tanh(0.5 * logits)


_FUNCTIONS: dict[str, Any] = {
    "sigmoid": _sigmoid,
    "relu": lambda logits, xp: xp.maximum(logits, 0),
    "linear": lambda logits, xp: logits,
    "tanh": lambda logits, xp: xp.tanh(logits),
}

"""Row-normalised iid weights: attention whose logits are independent (a random Markov matrix)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmt.arrays import CPU, Array, Backend
from rmt.ensembles.matrix import AttentionMatrix, attention_matrix, tile_rows
from rmt.ensembles.parameters import check_beta, check_choice, check_count, check_dtype, sampled
from rmt.kernels import kernels_for
from rmt.kernels.rows import LAWS, RowSums
from rmt.streams import Stream, Words

MASKS = ("none", "causal")


@dataclass(frozen=True)
class MarkovAttention:
    """a_ij = w_ij / sum_k w_ik with iid weights w.

    `weights`: "lognormal" (default) w = exp(beta z), z standard normal, so that A is the softmax of logits of standard
    deviation `beta` and sigma^2 = exp(beta^2) - 1; "exponential", "uniform" on (0, 1) and "gamma" (shape 2) do not
    depend on `beta`. With `mask` "causal" row i has weights on the columns j <= i only, normalised over these.
    """

    n: int
    beta: float = 1.0
    weights: str = "lognormal"
    mask: str = "none"

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_beta(self.beta)
        check_choice("weights", self.weights, LAWS)
        check_choice("mask", self.mask, MASKS)

    @property
    def stream_key(self) -> str:
        """Names what is drawn. Neither `beta` nor `mask` enters: all of them share their variates."""
        return f"iid/n={self.n}/{self.weights}"

    def matrix(
        self,
        stream: Stream,
        draw: int = 0,
        *,
        backend: Backend = CPU,
        dtype: Any = np.float32,
        workers: int = 1,
        memory_budget: int | None = None,
    ) -> AttentionMatrix:
        """Draw number `draw` of the ensemble. `float64` uses the same normals with exp and sums in double precision."""
        words = stream.within(self.stream_key).words("logits", draw)
        source = MarkovRows(words, self, check_dtype(dtype), backend)
        return attention_matrix(source, workers=workers, memory_budget=memory_budget)

    def sample(
        self,
        stream: Stream,
        batch: Sequence[int] = (),
        *,
        backend: Backend = CPU,
        dtype: Any = np.float32,
        workers: int = 1,
    ) -> Array:
        """Draws 0, 1, ... as an array (*batch, n, n)."""
        return sampled(self, stream, batch, backend=backend, dtype=dtype, workers=workers)


@dataclass(frozen=True)
class MarkovRows:
    """The rows of one draw: a function of four Philox words."""

    words: Words
    ensemble: MarkovAttention
    dtype: np.dtype
    backend: Backend

    @property
    def n(self) -> int:
        return self.ensemble.n

    @property
    def tile(self) -> int:
        return tile_rows(self.n, self.backend, 2**18)

    @property
    def nbytes(self) -> int:
        return 0

    def fill(self, start: int, out: Array, column_sums: Array | None = None) -> RowSums:
        return kernels_for(self.backend).markov_rows(
            self.words,
            start,
            out,
            beta=self.ensemble.beta,
            law=self.ensemble.weights,
            causal=self.ensemble.mask == "causal",
            column_sums=column_sums,
        )

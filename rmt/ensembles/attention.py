"""Key-query attention with independent Gaussian queries and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmt.arrays import CPU, Array, Backend
from rmt.ensembles.markov import MASKS
from rmt.ensembles.matrix import AttentionMatrix, attention_matrix, tile_rows
from rmt.ensembles.parameters import check_beta, check_choice, check_count, check_dtype, sampled
from rmt.kernels import kernels_for
from rmt.kernels.rows import RowSums
from rmt.streams import Stream


@dataclass(frozen=True)
class KeyQueryAttention:
    """A = softmax(beta Q K^T / sqrt(head_dim)) row by row, Q and K (n, head_dim) independent with iid N(0, 1) entries.

    `beta` is the nominal standard deviation of the logits. With `mask` "causal" row i uses the keys j <= i only.
    """

    n: int
    head_dim: int = 64
    beta: float = 1.0
    mask: str = "none"

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_count("head_dim", self.head_dim)
        check_beta(self.beta)
        check_choice("mask", self.mask, MASKS)

    @property
    def stream_key(self) -> str:
        """Names what is drawn. Neither `beta` nor `mask` enters: all of them share Q and K."""
        return f"keyquery/n={self.n}/head_dim={self.head_dim}"

    def queries_and_keys(self, stream: Stream, draw: int = 0, *, backend: Backend = CPU) -> tuple[Array, Array]:
        """Q and K of one draw, each (n, head_dim) float32. They are made on the host and uploaded."""
        kernels, here = kernels_for(CPU), stream.within(self.stream_key)
        queries, keys = (
            kernels.variates(here.words(name, draw), 0, self.n, self.head_dim) for name in ("queries", "keys")
        )
        return backend.asarray(queries), backend.asarray(keys)

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
        """Draw number `draw` of the ensemble. `float64` uses the same Q and K, in double precision from there on."""
        queries, keys = self.queries_and_keys(stream, draw, backend=backend)
        source = key_query_rows(queries, keys, self.beta / self.head_dim**0.5, self.mask, check_dtype(dtype), backend)
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


@dataclass(frozen=True, eq=False)
class KeyQueryRows:
    """Rows softmax(q_i K^T), logits made again from `queries` (already scaled) and `keys` whenever they are needed."""

    queries: Array
    keys: Array
    mask: str
    backend: Backend

    @property
    def n(self) -> int:
        return self.keys.shape[0]

    @property
    def dtype(self) -> np.dtype:
        return self.keys.dtype

    @property
    def tile(self) -> int:
        return max(min(64, self.n), tile_rows(self.n, self.backend, 2**18))

    @property
    def nbytes(self) -> int:
        return self.queries.nbytes + self.keys.nbytes

    def fill(self, start: int, out: Array, column_sums: Array | None = None) -> RowSums:
        stop, causal = start + out.shape[0], self.mask == "causal"
        seen = stop if causal else self.n
        self.backend.xp.matmul(self.queries[start:stop], self.keys[:seen].T, out=out[:, :seen])
        return kernels_for(self.backend).softmax_rows(out, start, causal=causal, column_sums=column_sums)


def key_query_rows(
    queries: Array, keys: Array, scale: float, mask: str, dtype: np.dtype, backend: Backend
) -> KeyQueryRows:
    """The rows of softmax(scale Q K^T) for any Q, K (n, head_dim) on the backend."""
    xp = backend.xp
    queries = xp.asarray(queries, dtype=dtype) * dtype.type(scale)
    return KeyQueryRows(queries, xp.ascontiguousarray(xp.asarray(keys, dtype=dtype)), mask, backend)

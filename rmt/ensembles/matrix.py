"""A random attention matrix that need not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rmt.arrays import CPU, Array, Backend
from rmt.ensembles.walk import STRIP, in_order, strips, tiles
from rmt.kernels import kernels_for
from rmt.linalg.blas_threads import one_blas_thread


class Gathered(Protocol):
    """Sums gathered along the rows of one tile."""

    def frobenius_norm_squared(self, xp: Any = np, /) -> float: ...

    def entropy(self, xp: Any = np, /) -> float: ...


class RowSource(Protocol):
    """What can make any rows of one matrix again, always with the same bits."""

    @property
    def n(self) -> int: ...

    @property
    def dtype(self) -> np.dtype: ...

    @property
    def backend(self) -> Backend: ...

    @property
    def tile(self) -> int:
        """Rows made at a time."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory held by the source itself."""
        ...

    def fill(self, start: int, out: Array, column_sums: Array | None = None) -> Gathered:
        """Write rows start ... start + r - 1 into `out` (r, n); add their sum to `column_sums` (n,) float64."""
        ...


@dataclass(frozen=True, eq=False)
class AttentionMatrix:
    """An n x n row-stochastic matrix A: rows are queries, columns are keys.

    Held in memory (`held`), or made again row block by row block at every use. Both have the same rows; measured
    results agree to 1e-6 relative, and the number of `workers` changes no bit.

    `column_sums` (n,) float64 on the host, `frobenius_norm_squared` = ||A||_F^2 and `entropy` (mean over the rows of
    -sum_j a_ij ln a_ij, nats) are gathered while the rows are made for the first time.
    """

    source: RowSource
    held: Array | None
    column_sums: np.ndarray
    frobenius_norm_squared: float
    entropy: float
    workers: int = 1

    @property
    def n(self) -> int:
        return self.source.n

    @property
    def dtype(self) -> np.dtype:
        return self.source.dtype

    @property
    def backend(self) -> Backend:
        return self.source.backend

    def blocks(self) -> Iterator[tuple[int, int, Array]]:
        """Yield (start, stop, rows), rows (stop - start, n), from the first to the last. Do not write to them."""
        for first, last in strips(self.n):
            for start, stop in tiles(first, last, self.source.tile):
                with one_blas_thread():
                    rows = self._rows(start, stop)
                yield start, stop, rows

    def dense(self) -> Array:
        """The whole matrix (n, n), on its backend. Do not write to it."""
        if self.held is not None:
            return self.held
        out = self.backend.xp.empty((self.n, self.n), dtype=self.dtype)
        with one_blas_thread():
            for _ in in_order(lambda at: self._fill(*at, out[at[0] : at[1]]), strips(self.n), self.workers):
                pass
        return out

    def apply(self, V: Array) -> Array:
        """A V for V (n, d): (n, d) on the matrix's backend, in its dtype."""
        V = self.backend.asarray(V, self.dtype)
        _check_rows(V, self.n)
        out = self.backend.xp.empty(V.shape, dtype=self.dtype)

        def strip(at: tuple[int, int]) -> None:
            for start, stop in tiles(*at, STRIP if self.held is not None else self.source.tile):
                out[start:stop] = self._rows(start, stop) @ V

        with one_blas_thread():
            for _ in in_order(strip, strips(self.n), self.workers):
                pass
        return out

    def apply_transposed(self, V: Array) -> np.ndarray:
        """A^T V for V (n, d): (n, d) float64 on the host. Products in the dtype of A, sums over strips in float64."""
        xp = self.backend.xp
        V = self.backend.asarray(V, self.dtype)
        _check_rows(V, self.n)

        def strip(at: tuple[int, int]) -> Array:
            parts = (
                self._rows(start, stop).T @ V[start:stop]
                for start, stop in tiles(*at, STRIP if self.held is not None else self.source.tile)
            )
            total = xp.zeros(V.shape)
            for part in parts:
                total += part
            return total

        total = xp.zeros(V.shape)
        with one_blas_thread():
            for products in in_order(strip, strips(self.n), self.workers):
                total += products
        return self.backend.to_host(total)

    def gram_product(self, V: Array) -> np.ndarray:
        """A^T (A V) for V (n, b) or (n,), float64 on the host; each row of A is made or read once.

        Products are taken in the dtype of A; sums over rows are float64. Meant for a small b (up to about 8).
        """
        xp, kernels = self.backend.xp, kernels_for(self.backend)
        vectors = xp.ascontiguousarray(xp.atleast_2d(self.backend.asarray(V, self.dtype).T))
        _check_rows(vectors.T, self.n)

        def strip(at: tuple[int, int]) -> Array:
            products = xp.zeros(vectors.shape)
            for start, stop in tiles(*at, STRIP if self.held is not None else self.source.tile):
                kernels.gram_rows(self._rows(start, stop), vectors, products)
            return products

        total = xp.zeros(vectors.shape)
        with one_blas_thread():
            for products in in_order(strip, strips(self.n), self.workers):
                total += products
        return self.backend.to_host(total).T.reshape(np.shape(V))

    def _rows(self, start: int, stop: int) -> Array:
        if self.held is not None:
            return self.held[start:stop]
        rows = self.backend.xp.empty((stop - start, self.n), dtype=self.dtype)
        self.source.fill(start, rows)
        return rows

    def _fill(self, start: int, stop: int, out: Array) -> None:
        for first, last in tiles(start, stop, self.source.tile):
            self.source.fill(first, out[first - start : last - start])


def attention_matrix(source: RowSource, *, workers: int = 1, memory_budget: int | None = None) -> AttentionMatrix:
    """Make the rows of a source once; keep them if n^2 entries fit into `memory_budget` bytes.

    Without a budget, a quarter of the memory that is free now. Raises ValueError if the budget is too small even for
    rows that are made again at each use.
    """
    n, dtype, backend = source.n, source.dtype, source.backend
    xp = backend.xp
    budget = backend.memory() // 4 if memory_budget is None else memory_budget
    working = source.nbytes + max(1, workers) * (min(source.tile, n) * dtype.itemsize + 3 * 8) * n
    if budget < working:
        raise ValueError(
            f"memory budget of {budget} bytes is too small: n = {n} needs {working} bytes even if its rows are made "
            "again at each use; raise the budget, or lower n or the number of workers"
        )
    held = xp.empty((n, n), dtype=dtype) if n * n * dtype.itemsize + working <= budget else None

    def strip(at: tuple[int, int]) -> tuple[Array, float, float]:
        column_sums = xp.zeros(n)
        squared = entropy = 0.0
        for start, stop in tiles(*at, source.tile):
            rows = xp.empty((stop - start, n), dtype=dtype) if held is None else held[start:stop]
            sums = source.fill(start, rows, column_sums)
            squared += sums.frobenius_norm_squared(xp)
            entropy += sums.entropy(xp)
        return column_sums, squared, entropy

    column_sums = xp.zeros(n)
    squared = entropy = 0.0
    with one_blas_thread():
        for strip_sums, strip_squared, strip_entropy in in_order(strip, strips(n), workers):
            column_sums += strip_sums
            squared += strip_squared
            entropy += strip_entropy
    return AttentionMatrix(
        source=source,
        held=held,
        column_sums=backend.to_host(column_sums),
        frobenius_norm_squared=squared,
        entropy=entropy / n,
        workers=workers,
    )


def tile_rows(n: int, backend: Backend, entries: int) -> int:
    """Rows per tile: about `entries` entries, a power of two from 8 to 256; a function of n alone on one backend."""
    entries = entries if backend == CPU else 2**24
    rows = max(1, entries // n)
    return min(STRIP, max(8, 1 << (rows.bit_length() - 1)))


def _check_rows(V: Array, n: int) -> None:
    if V.ndim != 2 or V.shape[0] != n:
        raise ValueError(f"array of shape {tuple(V.shape)} does not fit; its first axis must be n = {n}")

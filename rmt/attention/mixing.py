"""An attention matrix met only through its products in float64, rows made again at every use: memory O(n)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmt.ensembles.matrix import RowSource
from rmt.ensembles.walk import in_order, strips, tiles
from rmt.linalg.blas_threads import one_blas_thread

__all__ = ["Mixing"]

HELD = 1024  # up to here the matrix is kept as an array: at most 8 MB


@dataclass(frozen=True, eq=False)
class Mixing:
    """A (n, n), row-stochastic, behind a source of rows; products are float64 whatever the dtype of the rows.

    The same source gives the same rows each time, so that a layer costs no memory between its uses. The number of
    workers changes no bit.
    """

    source: RowSource
    workers: int = 1

    @property
    def n(self) -> int:
        return self.source.n

    def apply(self, V: np.ndarray) -> np.ndarray:
        """A V for V (n, c)."""
        out = np.empty((self.n, V.shape[1]))

        def strip(at: tuple[int, int]) -> None:
            for start, stop in self._tiles(at):
                out[start:stop] = self.rows(start, stop) @ V

        for _ in self._over(strip):
            pass
        return out

    def transposed(self, U: np.ndarray) -> np.ndarray:
        """A^T U for U (n, c)."""
        total = np.zeros((self.n, U.shape[1]))

        def strip(at: tuple[int, int]) -> np.ndarray:
            part = np.zeros((self.n, U.shape[1]))
            for start, stop in self._tiles(at):
                part += self.rows(start, stop).T @ U[start:stop]
            return part

        for part in self._over(strip):
            total += part
        return total

    @functools.cached_property
    def row_energy(self) -> np.ndarray:
        """sum_j A_ij^2, (n,)."""
        out = np.empty(self.n)

        def strip(at: tuple[int, int]) -> None:
            for start, stop in self._tiles(at):
                out[start:stop] = np.sum(self.rows(start, stop) ** 2, axis=1)

        for _ in self._over(strip):
            pass
        return out

    def rows(self, start: int, stop: int, *, out: np.ndarray | None = None) -> np.ndarray:
        """Rows start ... stop - 1, float64; or written into the first rows of `out` (r, n), in its type."""
        if out is None:
            return self._held[start:stop] if self.n <= HELD else self._made(start, stop)
        rows = out[: stop - start]
        if out.dtype == self.source.dtype:
            self.source.fill(start, rows)
        else:
            rows[...] = self.rows(start, stop)
        return rows

    def dense(self) -> np.ndarray:
        """The whole matrix (n, n), float64."""
        return self._held if self.n <= HELD else np.concatenate([self._made(*at) for at in strips(self.n)])

    @functools.cached_property
    def _held(self) -> np.ndarray:
        return np.concatenate([self._made(*at) for at in strips(self.n)])

    def _made(self, start: int, stop: int) -> np.ndarray:
        out = np.empty((stop - start, self.n))
        for first, last in tiles(start, stop, self.source.tile):
            rows = np.empty((last - first, self.n), dtype=self.source.dtype)
            self.source.fill(first, rows)
            out[first - start : last - start] = rows
        return out

    def _tiles(self, at: tuple[int, int]) -> list[tuple[int, int]]:
        return tiles(*at, 64)

    def _over(self, strip: Callable[[tuple[int, int]], Any]) -> Iterator[Any]:
        with one_blas_thread():
            yield from in_order(strip, strips(self.n), self.workers)

"""Walk over the rows of a matrix in fixed strips, on several threads, combining results in order."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

STRIP = 256
"""Rows per strip. Sums are closed at the end of each strip, so the strips, not the workers, decide the bits."""


def strips(n: int) -> list[tuple[int, int]]:
    """Row ranges (start, stop) that cover 0 ... n - 1; they depend on n alone."""
    return [(start, min(start + STRIP, n)) for start in range(0, n, STRIP)]


def tiles(start: int, stop: int, rows: int) -> list[tuple[int, int]]:
    """A strip cut into tiles of at most `rows` rows."""
    return [(at, min(at + rows, stop)) for at in range(start, stop, rows)]


def in_order(
    function: Callable[[tuple[int, int]], Result], ranges: list[tuple[int, int]], workers: int
) -> Iterator[Result]:
    """Results of `function` in the order of `ranges`; at most two per worker are in flight."""
    if workers <= 1 or len(ranges) <= 1:
        yield from map(function, ranges)
        return
    pool = _pool(workers)
    flying: deque[Future[Result]] = deque()
    try:
        for at in ranges:
            if len(flying) == 2 * workers:
                yield flying.popleft().result()
            flying.append(pool.submit(function, at))
        while flying:
            yield flying.popleft().result()
    finally:
        wait(flying)  # after an error or an interrupt: what still runs may write to the caller's arrays


def one_blas_thread() -> AbstractContextManager[object]:
    """While entered, a BLAS call uses one thread: the workers share the cores, and their number changes no bit."""
    return _blas().limit(limits=1, user_api="blas")


@functools.cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """One pool per number of workers for the whole process: a product is far shorter than starting threads for it."""
    return ThreadPoolExecutor(workers)


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()

"""Walk over the rows of a matrix in fixed strips, on several threads, combining results in order."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

Result = TypeVar("Result")

STRIP = 256
"""Rows per strip. Sums are closed at the end of each strip, so the strips, not the workers, decide the bits."""

TOGETHER = 4
"""Most strips handed to a thread at once: handing one over costs a good part of what a product with it takes."""


def strips(n: int) -> list[tuple[int, int]]:
    """Row ranges (start, stop) that cover 0 ... n - 1; they depend on n alone."""
    return [(start, min(start + STRIP, n)) for start in range(0, n, STRIP)]


def tiles(start: int, stop: int, rows: int) -> list[tuple[int, int]]:
    """A strip cut into tiles of at most `rows` rows."""
    return [(at, min(at + rows, stop)) for at in range(start, stop, rows)]


def in_order(
    function: Callable[[tuple[int, int]], Result], ranges: list[tuple[int, int]], workers: int
) -> Iterator[Result]:
    """Results of `function` in the order of `ranges`; at most two groups of strips per worker are in flight."""
    if workers <= 1 or len(ranges) <= 1:
        yield from map(function, ranges)
        return
    size = max(1, min(TOGETHER, len(ranges) // (2 * workers)))
    groups = [ranges[at : at + size] for at in range(0, len(ranges), size)]
    pool = _pool(workers)
    flying: deque[Future[list[Result]]] = deque()
    try:
        for group in groups:
            if len(flying) == 2 * workers:
                yield from flying.popleft().result()
            flying.append(pool.submit(_each, function, group))
        while flying:
            yield from flying.popleft().result()
    finally:
        wait(flying)  # after an error or an interrupt: what still runs may write to the caller's arrays


def _each(function: Callable[[tuple[int, int]], Result], ranges: list[tuple[int, int]]) -> list[Result]:
    return [function(at) for at in ranges]


@functools.cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """One pool per number of workers for the whole process: a product is far shorter than starting threads for it."""
    return ThreadPoolExecutor(workers)

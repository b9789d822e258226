"""Lyapunov exponents of a long product of matrices, by re-orthonormalised products (Benettin et al. 1980)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

__all__ = ["lyapunov_spectrum"]

SETTLE = 20  # first factors that only turn the frame into place


def lyapunov_spectrum(products: Iterable[Callable[[np.ndarray], np.ndarray]], n: int, count: int) -> np.ndarray:
    """The `count` largest exponents of ... A_3 A_2 A_1, (count,) descending: mean growth per factor, in nats.

    products: V (n, count) -> A_l V, one after another; the first 20 are not counted where there are more than 40.
    """
    if not 1 <= count <= n:
        raise ValueError(f"count = {count}: must lie between 1 and n = {n}")
    frame, _ = np.linalg.qr(np.cos(np.pi / n * (np.arange(n)[:, None] + 0.5) * np.arange(count)))
    logs = []
    for product in products:
        frame, triangle = np.linalg.qr(product(frame))
        logs.append(np.log(np.abs(np.diag(triangle))))
    if not logs:
        raise ValueError("no factors: a growth rate needs at least one")
    return np.mean(logs[SETTLE if len(logs) > 2 * SETTLE else 0 :], axis=0)

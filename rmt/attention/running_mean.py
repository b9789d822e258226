"""The causal mean matrix C, C_ij = 1/i for j <= i, by its products: O(n) numbers per column."""

from __future__ import annotations

import numpy as np

__all__ = ["running_mean", "running_mean_transposed"]


def running_mean(V: np.ndarray) -> np.ndarray:
    """C V: row i is the mean of rows 1 ... i. O(n) numbers per column."""
    return np.cumsum(V, axis=0) / np.arange(1.0, V.shape[0] + 1)[:, None]


def running_mean_transposed(U: np.ndarray) -> np.ndarray:
    """C^T U."""
    weighted = U / np.arange(1.0, U.shape[0] + 1)[:, None]
    return np.cumsum(weighted[::-1], axis=0)[::-1]

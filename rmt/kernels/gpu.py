"""The kernels on CuPy arrays. For now each is the `reference` one, operation by operation on the device.

Dedicated device kernels (one launch per tile, no intermediate arrays) can take these names later: the drawn bits are
fixed by `reference`. Row sums keep the order of the CPU; column sums and matrix products are only equal to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rmt.arrays import GPU, Array
from rmt.kernels import reference
from rmt.kernels.rows import RowSums
from rmt.streams import Words


def philox(counters: Array, key: Array) -> Array:
    """Philox4x32-10; see `cpu.philox`."""
    return reference.philox(counters, key, xp=GPU.xp)


def variates(words: Words, start: int, stop: int, columns: int, *, law: str = "lognormal") -> Array:
    """iid variates; see `cpu.variates`."""
    return reference.variates(words, start, stop, columns, law=law, xp=GPU.xp)


def markov_rows(words: Words, start: int, out: Array, *, column_sums: Array | None = None, **options: Any) -> RowSums:
    """Rows of normalised iid weights; see `cpu.markov_rows`."""
    sums = reference.markov_rows(words, start, out, xp=GPU.xp, **options)
    _add_columns(out, column_sums)
    return sums


def softmax_rows(logits: Array, start: int, *, column_sums: Array | None = None, **options: Any) -> RowSums:
    """Row softmax in place; see `cpu.softmax_rows`."""
    sums = reference.softmax_rows(logits, start, xp=GPU.xp, **options)
    _add_columns(logits, column_sums)
    return sums


def gram_rows(rows: Array, vectors: Array, products: Array) -> None:
    """Products with rows^T rows; see `cpu.gram_rows`."""
    reference.gram_rows(rows, vectors, products)


def _add_columns(rows: Array, column_sums: Array | None) -> None:
    if column_sums is not None:
        column_sums += GPU.xp.sum(rows, axis=0, dtype=np.float64)

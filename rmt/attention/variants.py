"""Variants: how a layer alters its attention matrix. A new variant is one entry here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

Array = Any


class Walked(Protocol):
    """What a variant needs of an attention matrix that may not fit in memory."""

    n: int
    column_sums: np.ndarray
    frobenius_norm_squared: float

    def gram_product(self, V: Array) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class Variant:
    """An altered attention matrix B made from A (row-stochastic, rows are queries).

    dense(A): B for arrays (..., n, n).
    gram_product(A, v): B^T (B v) for a walked matrix and a vector (n,), without forming B.
    tokens(AV, V): B V, from A V and V, arrays (..., n, d).
    frobenius_norm_squared(A): ||B||_F^2 of a walked matrix.
    """

    name: str
    dense: Callable[[Array], Array]
    gram_product: Callable[[Walked, np.ndarray], np.ndarray]
    tokens: Callable[[Array, Array], Array]
    frobenius_norm_squared: Callable[[Walked], float]


def _removed_gram(matrix: Walked, v: np.ndarray) -> np.ndarray:
    # With 1^T A = c and A 1 = 1: (A - J)^T (A - J) v = A^T A v - mean(v) c - (c.v/n) 1 + mean(v) 1.
    mean = v.mean()
    column_sums = matrix.column_sums
    return matrix.gram_product(v) - mean * column_sums - (column_sums @ v / matrix.n - mean)


PLAIN = Variant(
    name="plain",
    dense=lambda A: A,
    gram_product=lambda matrix, v: matrix.gram_product(v),
    tokens=lambda mixed, values: mixed,
    frobenius_norm_squared=lambda matrix: matrix.frobenius_norm_squared,
)

OUTLIER_REMOVED = Variant(
    # The repair of Mind the Gap: B = A - J with J = 11^T/n, which subtracts the mean token. tr(J^T A) = 1.
    name="outlier_removed",
    dense=lambda A: A - 1 / A.shape[-1],
    gram_product=_removed_gram,
    tokens=lambda mixed, values: mixed - values.mean(axis=-2, keepdims=True),
    frobenius_norm_squared=lambda matrix: max(matrix.frobenius_norm_squared - 1.0, 0.0),
)

VARIANTS = {variant.name: variant for variant in (PLAIN, OUTLIER_REMOVED)}


def variant(name: str) -> Variant:
    """A variant by name. Raises ValueError, naming the known ones, for any other name."""
    try:
        return VARIANTS[name]
    except KeyError:
        raise ValueError(f"--variant {name}: must be one of {', '.join(VARIANTS)}") from None

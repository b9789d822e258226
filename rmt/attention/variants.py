"""Variants: how a layer's attention matrix A is altered. Every variant is defined here, once.

A variant says the same thing twice: on arrays (`alter`), and on a matrix known only by its products (`operate`), where a
closed form avoids an n x n intermediate. The tests hold the two against each other for every entry of `VARIANTS`.
Whole networks know more variants (`rmt.attention.repairs`); under the same name they mean the same, and a test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, device

from rmt.arrays import to_host

__all__ = [
    "CENTRED",
    "OUTLIER_REMOVED",
    "PLAIN",
    "RUNNING_MEAN_REMOVED",
    "VARIANTS",
    "Altered",
    "Operator",
    "Variant",
    "variant",
]


class Operator(Protocol):
    """A square matrix A (n, n) that need not be formed."""

    @property
    def n(self) -> int: ...

    @property
    def column_sums(self) -> np.ndarray:
        """A^T 1, (n,) float64."""
        ...

    @property
    def frobenius_norm_squared(self) -> float: ...

    def apply(self, V: Any, /) -> Any:
        """A V for V (n, d)."""
        ...

    def apply_transposed(self, V: Any, /) -> np.ndarray:
        """A^T V for V (n, d), float64."""
        ...

    def gram_product(self, V: Any, /) -> np.ndarray:
        """A^T A V for V (n, b) or (n,), float64."""
        ...


@dataclass(frozen=True, eq=False)
class Altered:
    """An `Operator` whose products are given as functions."""

    n: int
    column_sums: np.ndarray
    frobenius_norm_squared: float
    apply: Callable[[Any], Any]
    apply_transposed: Callable[[Any], np.ndarray]
    gram_product: Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Variant:
    """A named alteration of a row-stochastic matrix.

    alter: arrays (..., n, n) -> (..., n, n) of any array library, dtype kept, A not written to.
    operate: an operator for A -> an operator for the altered matrix, at the cost of O(n) numbers per column more.
    """

    name: str
    formula: str
    alter: Callable[[Any], Any]
    operate: Callable[[Operator], Operator]


def _unchanged(A: Any) -> Any:
    return A


def _minus_uniform(A: Any) -> Any:
    return A - 1.0 / A.shape[-1]


def _operate_minus_uniform(A: Operator) -> Operator:
    """A - J, J = 11^T / n, for A 1 = 1 (derived).

    J A = 1 c^T / n with c = A^T 1, and A J = J. With V' = V - mean(V), the mean over tokens, J V' = 0 and hence
    (A - J) V = A V',  (A - J)^T (A - J) V = A^T A V' - 1 (c^T V') / n,  ||A - J||_F^2 = ||A||_F^2 - 1.
    Taking the mean off before the product loses no digits to the outlier that is being removed.
    """
    column_sums = A.column_sums

    def gram_product(V: Any) -> np.ndarray:
        centred = V - np.mean(V, axis=0)
        return A.gram_product(centred) - column_sums @ centred / A.n

    return Altered(
        n=A.n,
        column_sums=column_sums - 1.0,
        frobenius_norm_squared=max(A.frobenius_norm_squared - 1.0, 0.0),
        apply=lambda V: A.apply(V - V.mean(axis=0)),
        apply_transposed=lambda V: A.apply_transposed(V) - to_host(V.mean(axis=0)),
        gram_product=gram_product,
    )


def _centred(A: Any) -> Any:
    xp = array_namespace(A)
    return A - xp.mean(A, axis=-2, keepdims=True)


def _operate_centred(A: Operator) -> Operator:
    """(I - J) A, for any A: c = A^T 1 gives |J A|_F^2 = |c|^2/n and A^T J A = c c^T/n (derived)."""
    column_sums = A.column_sums

    def apply(V: Any) -> Any:
        images = A.apply(V)
        return images - images.mean(axis=0)

    return Altered(
        n=A.n,
        column_sums=np.zeros(A.n),
        frobenius_norm_squared=max(A.frobenius_norm_squared - float(column_sums @ column_sums) / A.n, 0.0),
        apply=apply,
        apply_transposed=lambda V: A.apply_transposed(V - V.mean(axis=0)),
        gram_product=lambda V: A.gram_product(V) - np.multiply.outer(column_sums, column_sums @ V / A.n),
    )


def _minus_running_mean(A: Any) -> Any:
    xp, n = array_namespace(A), A.shape[-1]
    rank = xp.arange(1, n + 1, dtype=A.dtype, device=device(A))
    return A - xp.tril(xp.ones((n, n), dtype=A.dtype, device=device(A))) / rank[:, None]


def _operate_minus_running_mean(A: Operator) -> Operator:
    """A - C, C_ij = 1/i for j <= i (the causal uniform matrix), for A causal with A 1 = 1.

    C V is a running mean and C^T Y a sum from the end: O(n) numbers per column. Row i of A and of C sums to one over the
    same keys, so <A, C> = sum 1/i = ||C||_F^2 and ||A - C||_F^2 = ||A||_F^2 - sum 1/i (derived).
    """
    rank = np.arange(1.0, A.n + 1)

    def running_mean(V: Any) -> Any:
        xp = array_namespace(V)
        shape = (-1,) + (1,) * (V.ndim - 1)
        return xp.cumulative_sum(V, axis=0, dtype=xp.float64) / xp.asarray(rank).reshape(shape)

    def from_the_end(V: Any) -> np.ndarray:
        weighted = np.asarray(to_host(V), dtype=np.float64) / rank[:, None]
        return np.cumsum(weighted[::-1], axis=0)[::-1]

    def apply(V: Any) -> Any:
        images = A.apply(V)
        return images - array_namespace(images).asarray(running_mean(V), dtype=images.dtype)

    def apply_transposed(V: Any) -> np.ndarray:
        return A.apply_transposed(V) - from_the_end(V)

    def gram_product(V: Any) -> np.ndarray:
        columns = V.reshape(A.n, -1)
        images = np.asarray(to_host(A.apply(columns)), dtype=np.float64) - running_mean(columns)
        return apply_transposed(images).reshape(V.shape)

    return Altered(
        n=A.n,
        column_sums=A.column_sums - np.cumsum(1 / rank[::-1])[::-1],
        frobenius_norm_squared=max(A.frobenius_norm_squared - float(np.sum(1 / rank)), 0.0),
        apply=apply,
        apply_transposed=apply_transposed,
        gram_product=gram_product,
    )


PLAIN = Variant("plain", "A", alter=_unchanged, operate=_unchanged)
OUTLIER_REMOVED = Variant("outlier_removed", "A - 11^T/n", alter=_minus_uniform, operate=_operate_minus_uniform)
CENTRED = Variant("centred", "(I - 11^T/n) A", alter=_centred, operate=_operate_centred)
RUNNING_MEAN_REMOVED = Variant(
    "running_mean_removed", "A - C, C_ij = 1/i", alter=_minus_running_mean, operate=_operate_minus_running_mean
)

VARIANTS: dict[str, Variant] = {each.name: each for each in (PLAIN, OUTLIER_REMOVED, CENTRED, RUNNING_MEAN_REMOVED)}


def variant(name: str) -> Variant:
    """The variant of that name. Raises ValueError, naming the known ones, for any other."""
    if name not in VARIANTS:
        raise ValueError(f"variant {name!r} is unknown: choose from {', '.join(VARIANTS)}")
    return VARIANTS[name]

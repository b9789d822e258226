"""Variants: how a layer's attention matrix A is altered. Every variant is defined here, once.

A variant says the same thing twice: on arrays (`alter`), and on a matrix known only by its products (`operate`), where a
closed form avoids an n x n intermediate. The tests hold the two against each other for every entry of `VARIANTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["OUTLIER_REMOVED", "PLAIN", "VARIANTS", "Altered", "Operator", "Variant", "variant"]


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
        gram_product=gram_product,
    )


PLAIN = Variant("plain", "A", alter=_unchanged, operate=_unchanged)
OUTLIER_REMOVED = Variant("outlier_removed", "A - 11^T/n", alter=_minus_uniform, operate=_operate_minus_uniform)

VARIANTS: dict[str, Variant] = {each.name: each for each in (PLAIN, OUTLIER_REMOVED)}


def variant(name: str) -> Variant:
    """The variant of that name. Raises ValueError, naming the known ones, for any other."""
    if name not in VARIANTS:
        raise ValueError(f"variant {name!r} is unknown: choose from {', '.join(VARIANTS)}")
    return VARIANTS[name]

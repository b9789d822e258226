"""Variants: how a layer's attention matrix A is altered. Every variant is defined here, once.

A variant says the same thing four times, so that no n x n matrix need be formed: on arrays, on tokens, on the Gram
operator, and on the Frobenius norm. The last three have closed forms whenever A is changed by a matrix of known
structure; each test compares them with the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["OUTLIER_REMOVED", "PLAIN", "VARIANTS", "Operator", "Variant", "variant"]


@dataclass(frozen=True, eq=False)
class Operator:
    """What a row-stochastic A (n, n) is known by when it is not formed.

    gram_product: V (n, b) -> A^T A V, float64. apply: V (n, d) -> A V. column_sums: A^T 1, (n,) float64.
    frobenius_norm_squared: sum of a_ij^2, float64.
    """

    n: int
    gram_product: Callable[[np.ndarray], np.ndarray]
    apply: Callable[[Any], Any]
    column_sums: np.ndarray
    frobenius_norm_squared: float


@dataclass(frozen=True)
class Variant:
    """A named alteration A -> alter(A).

    alter: arrays (..., n, n) -> (..., n, n), any array library, dtype kept; A is not written to.
    operate: the same for an `Operator`; column sums and Frobenius norm are those of the altered matrix.
    """

    name: str
    formula: str
    alter: Callable[[Any], Any]
    operate: Callable[[Operator], Operator]


def _unchanged(A):
    return A


def _minus_mean(A):
    return A - 1.0 / A.shape[-1]


def _operate_minus_mean(operator: Operator) -> Operator:
    """A - J, J = 11^T / n, for A 1 = 1.

    With c = A^T 1: (A - J)^T (A - J) = A^T A - c 1^T / n - 1 c^T / n + J (J^T J = J). Applied in two halves that
    vanish separately for doubly stochastic A:  A^T A v - m c - ((c - 1) . v / n) 1,  m = mean(v).
    """
    n, excess = operator.n, operator.column_sums - 1.0

    def gram_product(V):
        mean = np.mean(V, axis=0)
        return operator.gram_product(V) - np.multiply.outer(operator.column_sums, mean) - excess @ V / n

    def apply(V):
        return operator.apply(V) - V.mean(axis=0)

    return Operator(
        n=n,
        gram_product=gram_product,
        apply=apply,
        column_sums=excess,
        frobenius_norm_squared=max(operator.frobenius_norm_squared - 1.0, 0.0),
    )


PLAIN = Variant("plain", "A", alter=_unchanged, operate=_unchanged)
OUTLIER_REMOVED = Variant("outlier_removed", "A - 11^T/n", alter=_minus_mean, operate=_operate_minus_mean)

VARIANTS: dict[str, Variant] = {each.name: each for each in (PLAIN, OUTLIER_REMOVED)}


def variant(name: str) -> Variant:
    """The variant of that name; ValueError naming the known ones otherwise."""
    try:
        return VARIANTS[name]
    except KeyError:
        raise ValueError(f"unknown variant {name!r}: choose from {', '.join(VARIANTS)}") from None

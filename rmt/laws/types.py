"""Types: the few values that stand for the spread of query and key norms (or of heavy-tailed entries).

A type is a positive number of mean one carried by a row or a column. Its law enters the equations of `rmt.laws.pieces`
as a finite average, over strata with their conditional means. Gauss quadrature nodes will not do: their outermost node
stands for less than one row of the matrix and puts the edge where no row is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from rmt.laws.law import Array

STRATA = np.array([0.5, 0.35, 0.12, 0.03])  # of the multipliers: bulk to tail


@dataclass(frozen=True, eq=False)
class Types:
    """Values and weights of a finite law, both (m,); the weights sum to one."""

    values: Array
    weights: Array

    def mean(self, profile: Array) -> Array:
        """Average over the types, the last axis of `profile`."""
        return np.asarray(profile) @ self.weights


ONE_TYPE = Types(np.ones(1), np.ones(1))


def cut_points(n: float) -> Array:
    """Probabilities 0 = p_0 < ... < p_11 = 1 - 1/(2n) that cut a law into strata, finest in its upper tail."""
    cuts = special.expit(np.linspace(-4.0, np.log(max(n, 50.0)), 11))
    cuts[-1] = 1 - 0.5 / n
    return np.concatenate([[0.0], cuts])


def chi_square_types(degrees: float, n: float) -> Types:
    """Strata of chi^2_k/k, k = degrees > 0 (not necessarily an integer): the squared norms of n Gaussian vectors."""
    cuts = cut_points(n)
    return Types(_gamma_means(degrees / 2, cuts), np.diff(cuts) / cuts[-1])


def gamma_multipliers(variance: ArrayLike) -> Array:
    """Conditional means of Gamma laws of mean one in the strata `STRATA`; shape (..., 4), variance >= 0."""
    v = np.maximum(np.asarray(variance, float), 1e-12)[..., None]
    cuts = np.concatenate([[0.0], np.cumsum(STRATA)])
    cuts[-1] = 1.0
    out = _gamma_means(1 / v, cuts)
    return np.where(v < 1e-9, 1.0, out)


def _gamma_means(shape: ArrayLike, cuts: Array) -> Array:
    """Means of a Gamma law of mean one between its quantiles at the cuts."""
    shape = np.asarray(shape, float)
    quantile = special.gammaincinv(shape, cuts)
    below = np.where(np.isinf(quantile), 1.0, special.gammainc(shape + 1, quantile))
    return np.diff(below, axis=-1) / np.diff(cuts)

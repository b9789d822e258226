"""How far the spectrum of a matrix lies from a law: distances and linear statistics, all functions of sorted values.

A law is any object with a vectorised `cdf` and `quantile`; spectra are arrays (..., k), in any order along the last
axis. These numbers are no p-values: eigenvalues repel, so their scatter is far below that of k independent values
(`rmt.statistics.goodness` gives them a scale).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

Array = Any
CELLS = 4  # points of the law per value in the Wasserstein distance


class Law(Protocol):
    """What a law must know to be compared with."""

    def cdf(self, x: ArrayLike) -> Array: ...

    def quantile(self, p: ArrayLike) -> Array: ...


def kolmogorov(spectra: ArrayLike, law: Law) -> Array:
    """sup over x of |F_k(x) - F(x)|, F_k the empirical cdf, exact for a continuous law. (..., k) -> (...)."""
    values = ordered(spectra)
    count = values.shape[-1]
    below = law.cdf(values)
    step = np.arange(count) / count
    return np.maximum(below - step, step + 1 / count - below).max(-1)


def wasserstein(spectra: ArrayLike, law: Law) -> Array:
    """The mean of |empirical quantile - quantile| in the units of the spectrum. (..., k) -> (...).

    The law is taken at `CELLS` midpoints per value, an error of order 1/(CELLS k)^2 of its scale.
    """
    values = ordered(spectra)
    return distance_to_cells(values, cell_quantiles(law, values.shape[-1]))


def cell_quantiles(law: Law, count: int) -> Array:
    """Where the law puts each of `count` ordered values: (count, CELLS) quantiles at midpoints."""
    return np.asarray(law.quantile((np.arange(CELLS * count) + 0.5) / (CELLS * count))).reshape(count, CELLS)


def distance_to_cells(values: Array, cells: Array) -> Array:
    """The Wasserstein distance of ascending values (..., k) to a law given by its cells (k, CELLS)."""
    return np.abs(values[..., None] - cells).mean((-2, -1))


def smooth_components(spectra: ArrayLike, law: Law, *, degree: int = 4) -> Array:
    """Linear statistics sum_i f_l(x_i), f_l = sqrt(2 l + 1) P_l(2 F(x) - 1), l = 1 ... degree. (..., k) -> (..., degree).

    P_l are Legendre polynomials, orthonormal and centred under the law itself (Neyman's smooth functions), so that any
    law has its own: l = 1 sees a shift, 2 a scale, 3 skewness, 4 the tails. For a random-matrix spectrum their variance
    is of order one whatever k is. What lies beyond the support all counts as its end: see edges for outliers.
    """
    place = 2 * np.asarray(law.cdf(np.asarray(spectra, dtype=float))) - 1
    return np.stack(
        [np.sqrt(2 * order + 1) * special.eval_legendre(order, place).sum(-1) for order in range(1, degree + 1)], -1
    )


def ordered(spectra: ArrayLike) -> Array:
    """The spectra (..., k) in ascending order; refuses what is empty or not finite."""
    values = np.asarray(spectra, dtype=float)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ValueError(f"spectra of shape {values.shape}: a spectrum has at least one value along the last axis")
    if not np.isfinite(values).all():
        raise ValueError("a spectrum holds NaN or infinity; leave failed draws out and say so")
    return np.sort(values, axis=-1)

"""The exponential of an inner product on a sphere, split into spherical harmonics."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from rmt.laws.law import Array


def log_projection(degree: int, x: ArrayLike, dimension: float) -> Array:
    """log b_l(x), b_l(x) = E[e^(x t) P_l(t)], t the inner product of two uniform unit vectors in R^dimension.

    b_l(x) = Gamma(D/2) (2/x)^(D/2 - 1) I_(l + D/2 - 1)(x), P_l the Legendre polynomial with P_l(1) = 1; so e^(x t) has
    variance N_l b_l^2 in degree l, and sum_l N_l b_l^2 = b_0(2x). Summed as a power series of positive terms in
    logarithms, because library Bessel functions underflow in high dimension. x >= 0, dimension >= 2.
    """
    x = np.asarray(x, float)
    half = np.log(np.maximum(x, 1e-300) / 2)
    m = np.arange(int(np.max(x, initial=0.0)) + 60).reshape((-1,) + (1,) * x.ndim)
    rise = special.gammaln(m + degree + dimension / 2) - special.gammaln(dimension / 2)
    # for small x the first term of degree 0 is exactly 0, and log b_0 keeps its relative digits
    return special.logsumexp((2 * m + degree) * half - special.gammaln(m + 1) - rise, axis=0)


def harmonics(degree: int, dimension: float) -> float:
    """The number of independent harmonics of a degree on the sphere in R^dimension (not necessarily an integer)."""
    lower = _choose(dimension + degree - 3, degree - 2) if degree >= 2 else 0.0
    return _choose(dimension + degree - 1, degree) - lower


def monomials(degree: int, dimension: float) -> float:
    """The number of monomials of a degree in `dimension` variables, C(dimension + degree - 1, degree)."""
    return _choose(dimension + degree - 1, degree)


def _choose(upper: float, lower: int) -> float:
    return float(np.prod([(upper - i) / (i + 1) for i in range(lower)]))

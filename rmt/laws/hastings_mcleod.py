"""The Hastings-McLeod solution of Painleve II: the left tails of the Tracy-Widom laws, where determinants cancel.

q'' = s q + 2 q^3 with q(s) ~ Ai(s) at +infinity. With u = q'^2 - s q^2 - q^4 (Tracy and Widom 1994, 1996)

    d log F_2 / ds = u,    d log F_1 / ds = (u + q) / 2,

both positive: integrated to the left from s = 0, the logarithms keep all their digits however small F becomes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike

from rmt.laws.airy_determinant import density_ratio, log_cdf_by_determinant
from rmt.laws.law import Array

_LEFT = -12.0  # where the expansion at -infinity is right to 1e-15
_DEGREE = 60  # 50 and 80 give the same 14 digits


@dataclass(frozen=True, eq=False)
class LeftTail:
    """log F_1 and log F_2 for s <= 0: Chebyshev series on [-12, 0], the asymptotic expansion beyond.

    `expansion` holds c_k of q = sqrt(t/2) sum_k c_k t^(-3k), s = -t.
    """

    q: Array
    log_cdf_1: Array
    log_cdf_2: Array
    expansion: Array

    def log_cdf(self, s: ArrayLike) -> tuple[Array, Array]:
        """log F_1(s) and log F_2(s) for s <= 0, relative error about 1e-14."""
        s = np.asarray(s, dtype=float)
        near = _to_unit(np.maximum(s, _LEFT))
        one, two = chebyshev.chebval(near, self.log_cdf_1), chebyshev.chebval(near, self.log_cdf_2)
        t = np.maximum(-s, -_LEFT)
        by_q, by_u = _integrals(t, self.expansion)
        start_q, start_u = _integrals(np.array(-_LEFT), self.expansion)
        return one - (by_q - start_q + by_u - start_u) / 2, two - (by_u - start_u)


@functools.cache
def left_tail() -> LeftTail:
    """The tail, solved once (10 ms): collocation at Chebyshev points, Newton, boundary values from both ends.

    At s = 0 the value is 2 (log F_1)' - (log F_2)' of the determinants, at -12 the expansion. The boundary value
    problem is well conditioned, whereas solving from either end is unstable.
    """
    expansion = _expansion(12)
    one, two = density_ratio(0.0)
    ends = np.array([_leading(np.array(-_LEFT), expansion), 2 * one - two])
    unit = -np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)
    s = _LEFT / 2 * (1 - unit)
    to_series = np.linalg.inv(chebyshev.chebvander(unit, _DEGREE))
    second = chebyshev.chebval(unit, chebyshev.chebder(to_series, 2)).T * (2 / _LEFT) ** 2
    q = 0.9 * np.sqrt((np.sqrt(s * s + 0.5) - s) / 2)
    for _ in range(20):
        residual = second @ q - s * q - 2 * q**3
        slope = second - np.diag(s + 6 * q**2)
        residual[[0, -1]] = q[[0, -1]] - ends
        slope[[0, -1]] = np.eye(_DEGREE + 1)[[0, -1]]
        step = np.linalg.solve(slope, residual)
        q = q - step
        if np.abs(step).max() < 1e-13:
            break
    else:
        raise ArithmeticError("Painleve II: Newton's method did not converge")
    series = to_series @ q
    derivative = chebyshev.chebval(unit, chebyshev.chebder(series)) * (-2 / _LEFT)
    u = derivative**2 - s * q**2 - q**4
    one_series = chebyshev.chebint(to_series @ ((u + q) / 2), lbnd=1) * (-_LEFT / 2)
    two_series = chebyshev.chebint(to_series @ u, lbnd=1) * (-_LEFT / 2)
    one_series[0] += float(log_cdf_by_determinant(1, 0.0))
    two_series[0] += float(log_cdf_by_determinant(2, 0.0))
    return LeftTail(series, one_series, two_series, expansion)


def _to_unit(s: Array) -> Array:
    return 1 - 2 * s / _LEFT


def _expansion(terms: int) -> Array:
    """c_k by putting the series into the equation: the power t^(1-3k) gives 2 c_k from the ones before."""
    c = [1.0]
    for k in range(1, terms):
        power = 3 * (k - 1) - 0.5
        known = [*c, 0.0]
        cube = np.convolve(np.convolve(known, known), known)[k]
        c.append((c[k - 1] * power * (power + 1) - cube) / 2)
    return np.array(c)


def _leading(t: Array, c: Array) -> Array:
    return np.sqrt(t / 2) * np.polynomial.polynomial.polyval(t**-3.0, c)


def _integrals(t: Array, c: Array) -> tuple[Array, Array]:
    """Antiderivatives in t of q and of u, where u = t^2/4 + 1/(8t) + ... follows from du/dt = q^2."""
    t = np.asarray(t, dtype=float)
    k = np.arange(c.size)
    by_q = np.sum(c / (1.5 - 3 * k) / np.sqrt(2) * t[..., None] ** (1.5 - 3 * k), axis=-1)
    square = np.convolve(c, c)[: c.size] / 2  # q^2 = sum square_k t^(1 - 3k)
    u = square / (2 - 3 * k)  # times t^(2 - 3k)
    others = k != 1
    by_u = u[1] * np.log(t) + np.sum(
        (u / np.where(others, 3 - 3 * k, 1) * t[..., None] ** (3 - 3 * k))[..., others], -1
    )
    return by_q, by_u

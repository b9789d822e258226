"""A law of singular values known by its distribution function on a grid."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from rmt.laws.law import Array, carry_nan, far_field, interval, is_far, no_atoms, upper_half

_BETWEEN = 8  # points put between two of the grid where an integral is wanted


@dataclass(frozen=True, eq=False)
class TabulatedLaw:
    """The law on (0, x_m] with P(X <= x_k) = p_k on an ascending grid x > 0, p not descending and p_m = 1.

    Monotone cubic interpolation in log x. Mass p_0 > 0 below the grid is spread as p_0 (log(x_m/x_0)/log(x_m/x))^2: such
    tables come from laws with a logarithmic pile-up at zero. Raises ValueError for a table that is no distribution.
    """

    x: Array
    p: Array

    def __post_init__(self) -> None:
        x, p = self.x, self.p
        if not (x.ndim == 1 and x.size >= 4 and p.shape == x.shape and x[0] > 0 and np.all(np.diff(x) > 0)):
            raise ValueError("a table needs at least four ascending points above zero, and one value at each")
        if not (np.all(np.diff(p) >= 0) and p[0] >= 0 and p[-1] == 1):
            raise ValueError(f"a distribution ascends to 1, this one from {p[0]} to {p[-1]}")

    @functools.cached_property
    def _of_log(self) -> PchipInterpolator:
        return PchipInterpolator(np.log(self.x), self.p)

    @property
    def support(self) -> Array:
        return interval(0.0, float(self.x[-1]))

    @property
    def atoms(self) -> Array:
        return no_atoms()

    def cdf(self, x: ArrayLike) -> Array:
        x = np.asarray(x, float)
        log = np.log(np.clip(x, 1e-300, self.x[-1]))
        inside = self._of_log(np.maximum(log, np.log(self.x[0])))
        value = np.where(x < self.x[0], self.p[0] * self._depth(log) ** 2, inside)
        return np.where(x <= 0, 0.0, np.where(x >= self.x[-1], 1.0, value))[()]

    def density(self, x: ArrayLike) -> Array:
        x = np.asarray(x, float)
        safe = np.clip(x, 1e-300, self.x[-1])
        log = np.log(safe)
        inside = self._of_log(np.maximum(log, np.log(self.x[0])), 1)
        span = np.log(self.x[-1] / self.x[0])
        below = 2 * self.p[0] * self._depth(log) ** 3 / span
        value = np.where(safe < self.x[0], below, inside) / safe
        return carry_nan(x, np.where((x > 0) & (x <= self.x[-1]), np.maximum(value, 0.0), 0.0))

    def _depth(self, log: Array) -> Array:
        """log(x_m/x_0)/log(x_m/x), at most one."""
        span = np.log(self.x[-1] / self.x[0])
        return span / np.maximum(np.log(self.x[-1]) - log, span)

    def quantile(self, p: ArrayLike) -> Array:
        p = np.asarray(p, float)
        low, high = np.full(p.shape, -690.0), np.full(p.shape, np.log(self.x[-1]))
        for _ in range(80):
            middle = (low + high) / 2
            less = self.cdf(np.exp(middle)) < p
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        value = np.where(p <= 0, 0.0, np.where(p >= 1, self.x[-1], np.exp(high)))
        return np.where((p >= 0) & (p <= 1), value, np.nan)[()]

    def stieltjes(self, z: ArrayLike) -> Array:
        """E 1/(X - z), with the mass between neighbouring points of a refined grid spread evenly."""
        z = upper_half(z)
        grid = np.concatenate([[0.0], self._fine])
        mass = np.diff(self.cdf(grid))
        offset = grid - np.where(is_far(z, self), 8 * self.x[-1], z)[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            angle = np.where(offset.imag == 0, np.where(offset.real < 0, -np.pi, 0.0), np.angle(offset))
            log = np.log(np.abs(offset)) + 1j * angle
            terms = mass / np.diff(grid) * np.diff(log, axis=-1)
        return far_field(z, self, np.where(np.isfinite(terms), terms, 0.0).sum(axis=-1))

    def moment(self, k: int) -> float:
        """E X^k = Int k x^(k-1) P(X > x) dx, by the trapezoid rule on a refined grid."""
        if k == 0:
            return 1.0
        grid = np.concatenate([[0.0], self._fine])
        return float(np.trapezoid(k * grid ** (k - 1) * (1 - self.cdf(grid)), grid))

    @functools.cached_property
    def _fine(self) -> Array:
        log = np.log(self.x)
        steps = np.linspace(0, 1, _BETWEEN, endpoint=False)
        return np.exp(np.append((log[:-1, None] + np.diff(log)[:, None] * steps).ravel(), log[-1]))

"""The law of singular values of a sum of typed pieces (`rmt.laws.pieces`), tabulated once and then interpolated."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from rmt.laws.law import Array, carry_nan, far_field, interval, is_far, upper_half
from rmt.laws.pieces import Pieces, cauchy_descending, edge

_LEVELS = np.array([1.0, 0.3, 0.1, 0.03, 0.008, 0.002])
_TOP_LEVELS = np.array([1.0, 0.1, 0.01, 1e-3, 1e-4, 2e-5])


@dataclass(frozen=True, eq=False)
class Table:
    """Points x (m,) of (0, edge], cdf and density there; `mass` is the total before it was scaled to one."""

    x: Array
    cdf: Array
    density: Array
    mass: float


@dataclass(frozen=True, eq=False)
class PieceLaw:
    """Law of the singular values s >= 0 of a square matrix of size n that is a sum of typed pieces.

    n: the matrix size, used by `top_value` only. The density is known to about 1e-3 relative, the cdf to 3e-4, the
    edge and the two even moments to rounding. The table takes about 0.1 s on first use.
    Bulks narrower than about 1 % of their position (n > 1e7) are not resolved below the topmost.
    """

    pieces: Pieces
    n: int

    @functools.cached_property
    def edge(self) -> float:
        """The right end of the support."""
        return edge(self.pieces)

    @property
    def support(self) -> Array:
        return interval(0.0, self.edge)

    @property
    def atoms(self) -> Array:
        mass = self.pieces.zero_mass
        return np.array([[0.0, mass]]) if mass > 0 else np.empty((0, 2))

    @functools.cached_property
    def table(self) -> Table:
        """The law on about 360 points.

        Below 0.7 edge the cdf comes from a path integral of G through the upper half plane: F(x) = -(2/pi) Im of
        Int G dz, closed by the vertical leg down to the axis; integrating the smeared density instead would be wrong
        by amounts of the order of the smearing. The top, which decides the largest singular values, is the integral
        of the density from the edge downwards, in the variable in which a square-root edge is smooth.
        """
        pieces, end = self.pieces, self.edge
        bulk = self._noise
        join = 0.7 * end
        middle = min(3 * bulk, 0.6 * end)
        start = min(0.3 * bulk, 0.2 * end)
        x = np.concatenate(
            [
                np.geomspace(1e-4 * bulk, start, 70, endpoint=False),
                np.geomspace(start, middle, 80, endpoint=False),
                np.geomspace(middle, join, max(60, int(40 * np.log(join / middle)))),
            ]
        )
        height = np.minimum(x, bulk)
        g = cauchy_descending(pieces, x, height, _LEVELS)
        z = x + 1j * _LEVELS[-1] * height
        product, log_z = g * z, np.log(z)
        steps = (product[1:] + product[:-1]) / 2 * np.diff(log_z)
        path = np.concatenate([[0.0], np.cumsum(steps)]) + product[0]
        below = -2 / np.pi * (path.imag - z.imag * g.real)
        density = -2 / np.pi * g.imag

        top, top_density, above = self._top
        zero = pieces.zero_mass
        mass = zero + below[-1] + above[0]
        scaled = zero + np.maximum.accumulate(np.maximum(below, 0)) * (1 - zero - above[0]) / below[-1]
        return Table(
            x=np.concatenate([x[:-1], top, [end]]),
            cdf=np.concatenate([scaled[:-1], 1 - above, [1.0]]),
            density=np.concatenate([density[:-1], top_density, [0.0]]),
            mass=float(mass),
        )

    @property
    def _noise(self) -> float:
        """The scale of the pieces of nearly full rank; what is below 1e-6 of the edge is lost in rounding."""
        variance = self.pieces.variances[self.pieces.ranks > 0.3].sum() or self.pieces.second_moment
        return max(float(np.sqrt(variance)), 1e-6 * self.edge)

    @functools.cached_property
    def _top(self) -> tuple[Array, Array, Array]:
        """Points from 0.7 edge up to the edge, the density there, and the mass above each."""
        pieces, end = self.pieces, self.edge
        u = np.concatenate([np.linspace(1.0, 0.2, 100, endpoint=False), np.geomspace(0.2, 0.01, 50)])
        top = end * (1 - 0.3 * u**2)
        density = -2 / np.pi * cauchy_descending(pieces, top, np.minimum(top, self._noise), _TOP_LEVELS).imag
        weight = density * 0.6 * end * u
        tail = 2 / 3 * density[-1] * (end - top[-1])
        above = tail + np.concatenate([[0.0], np.cumsum(((weight[1:] + weight[:-1]) / 2 * -np.diff(u))[::-1])])[::-1]
        return top, density, above

    @functools.cached_property
    def _log_cdf(self) -> PchipInterpolator:
        t = self.table
        return PchipInterpolator(np.log(t.x), t.cdf)

    @functools.cached_property
    def _log_density(self) -> PchipInterpolator:
        t = self.table
        return PchipInterpolator(np.log(t.x), t.density)

    def density(self, x: ArrayLike) -> Array:
        x = np.asarray(x, float)
        first = self.table.x[0]
        inside = np.clip(x, first, self.edge)
        height = np.maximum(self._log_density(np.log(inside)), 0.0)
        return carry_nan(x, np.where((x >= 0) & (x < self.edge), height, 0.0))

    def cdf(self, x: ArrayLike) -> Array:
        x = np.asarray(x, float)
        t, zero = self.table, self.pieces.zero_mass
        inside = self._log_cdf(np.log(np.clip(x, t.x[0], self.edge)))
        near_zero = zero + (t.cdf[0] - zero) * np.clip(x, 0.0, t.x[0]) / t.x[0]
        value = np.where(x < t.x[0], near_zero, inside)
        return np.where(x < 0, 0.0, np.where(x >= self.edge, 1.0, value))[()]

    def quantile(self, p: ArrayLike) -> Array:
        p = np.asarray(p, float)
        low, high = np.zeros(p.shape), np.full(p.shape, self.edge)
        for _ in range(60):
            middle = (low + high) / 2
            less = self.cdf(middle) < p
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        high = np.where(p <= self.pieces.zero_mass, 0.0, high)
        return np.where((p >= 0) & (p <= 1), high, np.nan)[()]

    def stieltjes(self, z: ArrayLike) -> Array:
        """E 1/(s - z), exact for the piecewise linear density through the table (about 1e-3 relative)."""
        z = upper_half(z)
        near = np.where(is_far(z, self), 8 * self.edge, z)
        t, zero = self.table, self.pieces.zero_mass
        x = np.concatenate([[0.0], t.x])
        y = np.concatenate([t.density[:1], t.density])
        y = y * (1 - zero) / np.trapezoid(y, x)
        slope = np.diff(y) / np.diff(x)
        offset = x - near[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.log(np.abs(offset)) + 1j * np.where(
                offset.imag == 0, np.where(offset.real < 0, -np.pi, 0.0), np.angle(offset)
            )
            at_z = y[:-1] + slope * (near[..., None] - x[:-1])
            terms = slope * np.diff(x) + at_z * np.diff(log, axis=-1)
            value = np.where(np.isfinite(terms), terms, 0.0).sum(axis=-1)
            return far_field(z, self, value - (zero / near if zero else 0.0))

    def moment(self, k: int) -> float:
        """E s^k; k = 0, 2, 4 in closed form, others from the table."""
        if k in (0, 2, 4):
            return {0: 1.0, 2: self.pieces.second_moment, 4: self.pieces.fourth_moment}[k]
        return self.tabulated_moment(k)

    def tabulated_moment(self, k: int) -> float:
        """E s^k by integrating the tabulated cdf."""
        x = np.concatenate([[0.0], self.table.x])
        fine = np.unique(np.concatenate([x[:-1] + f * np.diff(x) for f in (0, 0.25, 0.5, 0.75)] + [x[-1:]]))
        return float(np.trapezoid(k * fine ** (k - 1) * (1 - self.cdf(fine)), fine))

    def top_value(self, k: ArrayLike) -> Array:
        """The typical k-th largest singular value, F^-1(1 - (k - 1/2)/n), k = 1, 2, ...

        Closer than the edge, which lacks the Tracy-Widom shift of finite rank (1-3 % at rank 16-64).
        """
        share = (np.asarray(k, float) - 0.5) / self.n
        top, _, above = self._top
        if np.any(share > above[0]):
            return self.quantile(1 - share)
        # Near the edge the mass above grows like (edge - x)^(3/2): to that power 2/3 the table is smooth.
        depth = PchipInterpolator(np.append(0.0, above[::-1] ** (2 / 3)), np.append(0.0, self.edge - top[::-1]))
        return (self.edge - depth(share ** (2 / 3)))[()]

"""A law known through its resolvent: free sums, products and powers become laws here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike

from rmt.laws.inversion import quantile_from_cdf, sample_by_inversion
from rmt.laws.law import Array, carry_nan, hull, upper_half

_DEGREES = (32, 64, 128)
_NODES = 256  # of the table, per piece
_EXACT = 2e-13  # a Chebyshev series whose tail is below this is complete: the mass is one
_DEPTH = 40  # at most so many halvings


@dataclass(frozen=True, eq=False)
class Bulk:
    """A piece of the law in the variable u of [0, pi], x = low + (high - low) sin(u/2)^power.

    In u the density times dx/du is smooth: power 2 straightens square-root and inverse square-root edges, power k a
    density like x^(1/k - 1) at the lower end. `x`, `weights`: quadrature nodes that carry the mass. `series`: Chebyshev
    series of the mass to the left of u.
    """

    low: float
    high: float
    power: float
    x: Array
    weights: Array
    series: Array

    def mass_below(self, x: Array) -> Array:
        fraction = np.clip((x - self.low) / (self.high - self.low), 0, 1)
        u = 2 * np.arcsin(fraction ** (1 / self.power))
        value = chebyshev.chebval(2 * u / np.pi - 1, self.series)
        return np.where(fraction > 0, value, 0.0)

    def sees(self, z: Array) -> Array:
        """Whether the nodes give E 1/(X - z) to 1e-14: quadrature errs by rho^-m for a pole on the ellipse of rho."""
        if self.power != 2:
            return np.zeros(z.shape, dtype=bool)
        u = 2 * np.arcsin(np.sqrt((z - self.low) / (self.high - self.low)))
        t = 2 * np.stack([u, -u, 2 * np.pi - u]) / np.pi - 1  # the pole and its mirror images at the two ends
        root = np.sqrt(t - 1) * np.sqrt(t + 1)
        rho = np.maximum(np.abs(t + root), np.abs(t - root)).min(axis=0)
        return self.x.size * np.log(rho) > 33


@dataclass(frozen=True, eq=False)
class SolvedLaw:
    """The law with Stieltjes transform `transform` (Im z >= 0), on the intervals `support` (k, 2), with `atoms` (m, 2).

    `density` solves afresh at every point; the others use a table made on first use, exact to 1e-12 for laws with
    smooth densities. `mass_error` says by how much the table's mass missed one: a wrong
    support or an unresolved density shows there. More than 1e-3 is refused. `name` says what the law is.
    """

    name: str
    transform: Callable[[Array], Array] = field(repr=False)
    support: Array
    atoms: Array

    def density(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        inside = np.any([(x > low) & (x < high) for low, high in self.support] + [np.zeros(x.shape, bool)], axis=0)
        out = np.zeros(x.shape)
        if inside.any():
            out[inside] = np.maximum(self.transform(x[inside] + 0j).imag, 0) / np.pi
        return carry_nan(x, out)

    def cdf(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        value = np.zeros(x.shape)
        for bulk in self.bulks:
            value += bulk.mass_below(x)
        for location, mass in self.atoms:
            value += mass * (x >= location)
        return carry_nan(x, np.where(x >= hull(self)[1], 1.0, np.clip(value, 0, 1)))

    def quantile(self, p: ArrayLike) -> Array:
        return quantile_from_cdf(self, p)

    def stieltjes(self, z: ArrayLike) -> Array:
        """From the table where its nodes are fine enough for the distance of z, solved afresh elsewhere."""
        z = upper_half(z)
        flat = np.where(z.imag < 0, z.conj(), z).ravel()
        seen = np.isfinite(flat) & np.all([bulk.sees(flat) for bulk in self.bulks], axis=0)
        x = np.concatenate([self.atoms[:, 0], *[bulk.x for bulk in self.bulks]])
        masses = np.concatenate([self.atoms[:, 1], *[bulk.weights for bulk in self.bulks]])
        out = np.empty(flat.size, dtype=complex)
        with np.errstate(divide="ignore", invalid="ignore"):
            out[seen] = (1 / (x - flat[seen, None])) @ masses
        out[np.isin(flat, self.atoms[:, 0])] = np.inf
        if not seen.all():
            out[~seen] = self.transform(flat[~seen])
        return np.where(z.imag < 0, out.reshape(z.shape).conj(), out.reshape(z.shape))[()]

    def moment(self, k: int) -> float:
        total = float(np.sum(self.atoms[:, 1] * self.atoms[:, 0] ** k))
        return total + float(sum(np.sum(bulk.weights * bulk.x**k) for bulk in self.bulks))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent draws by inversion."""
        return sample_by_inversion(self, rng, size)

    @functools.cached_property
    def bulks(self) -> tuple[Bulk, ...]:
        """The intervals, tabulated; their masses are scaled so that the law has mass one."""
        return self._tabulated[0]

    @property
    def mass_error(self) -> float:
        """Mass of the table before it was scaled, less one."""
        return self._tabulated[1]

    @functools.cached_property
    def _tabulated(self) -> tuple[tuple[Bulk, ...], float]:
        raw = [bulk for low, high in self.support for bulk in self._tabulate(low, high, self._power(low, high))]
        found = float(sum(bulk.weights.sum() for bulk in raw))
        expected = 1 - float(self.atoms[:, 1].sum())
        error = found - expected
        if abs(error) > 1e-3:
            raise ArithmeticError(f"{self.name}: mass {1 + error:.6g} instead of 1 on {self.support.tolist()}")
        scale = expected / found if found > 0 else 1.0
        scaled = (
            Bulk(bulk.low, bulk.high, bulk.power, bulk.x, bulk.weights * scale, bulk.series * scale) for bulk in raw
        )
        return tuple(scaled), error

    def _tabulate(self, low: float, high: float, power: float, depth: int = 0) -> list[Bulk]:
        """The interval in one piece if 128 nodes resolve it, otherwise in two, and so on towards what is singular."""
        for degree in _DEGREES:
            x, slope, _ = _stretch(low, high, power, degree)
            series = _interpolate(self.density(x) * slope)
            if np.abs(series[-degree // 8 :]).max() <= _EXACT:
                break
        else:
            if depth < _DEPTH:
                middle = low + (high - low) / 2
                return self._tabulate(low, middle, power, depth + 1) + self._tabulate(middle, high, 2.0, depth + 1)
        x, _, t = _stretch(low, high, power, _NODES)
        masses = chebyshev.chebval(t, series) * _quadrature(_NODES) * np.pi / 2
        return [Bulk(low, high, power, x, masses, chebyshev.chebint(series * np.pi / 2, lbnd=-1))]

    def _power(self, low: float, high: float) -> float:
        """The power that makes the density smooth at the lower end, where it behaves like (x - low)^exponent.

        2 for square roots and their inverses, 3 for cube roots (a gap about to open), 1/(1 + exponent) below -1/2.
        """
        near = low + (high - low) * np.array([1e-10, 1e-12])
        close, closer = self.density(near) if low == 0 else (0.0, 0.0)
        if close <= 0 or closer <= 0:
            return 2.0
        exponent = max(np.log(closer / close) / np.log(1e-2), -0.95)
        if abs(3 * exponent - round(3 * exponent)) < 0.03 and round(exponent) != round(exponent, 1):
            return 3.0
        return max(2.0, round(4 / (1 + exponent)) / 4)


def _stretch(low: float, high: float, power: float, count: int) -> tuple[Array, Array, Array]:
    """x, dx/du and t = 2 u/pi - 1 at Chebyshev points of the first kind, none of which lies on an edge."""
    t = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    u = np.pi / 2 * (t + 1)
    x = low + (high - low) * np.sin(u / 2) ** power
    return x, (high - low) * power / 2 * np.sin(u / 2) ** (power - 1) * np.cos(u / 2), t


def _interpolate(values: Array) -> Array:
    """Chebyshev series through values at the points cos(pi (j + 1/2)/m): a discrete cosine transform."""
    from scipy.fft import dct

    series = dct(values, type=2) / values.size
    series[0] /= 2
    return series


def _quadrature(m: int) -> Array:
    """Fejer's weights on [-1, 1] at the same points."""
    k = np.arange(1, m // 2 + 1)
    angle = np.pi * (np.arange(m) + 0.5) / m
    return (1 - 2 * (np.cos(2 * np.outer(angle, k)) / (4 * k**2 - 1)).sum(axis=1)) * 2 / m

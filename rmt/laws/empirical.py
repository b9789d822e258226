"""The law of a list of numbers: eigenvalues of one matrix, or any finite law, as a spectral law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.law import Array, carry_nan, upper_half

_BLOCK = 2**20  # at most so many numbers in flight in a Stieltjes transform


@dataclass(frozen=True, eq=False)
class EmpiricalLaw:
    """Point masses at `values` (m,), equal unless `weights` (m,) >= 0 says otherwise; weights are scaled to sum to one.

    Values that coincide are one atom. The density is 0 everywhere: the whole law is in `atoms`.

    >>> EmpiricalLaw([1.0, -1.0, 1.0, 3.0]).cdf([-1.0, 0.0, 1.0])
    array([0.25, 0.25, 0.75])
    """

    values: ArrayLike
    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=float).ravel()
        weights = np.ones(values.size) if self.weights is None else np.asarray(self.weights, dtype=float).ravel()
        if values.size == 0 or not np.all(np.isfinite(values)):
            raise ValueError("an empirical law needs at least one value, and all finite: drop the others first")
        if weights.shape != values.shape or np.any(weights < 0) or not 0 < weights.sum() < np.inf:
            raise ValueError(f"weights: need {values.size} numbers >= 0, not all 0")
        locations, place = np.unique(values, return_inverse=True)
        masses = np.bincount(place, weights / weights.sum())
        kept = masses > 0
        object.__setattr__(self, "values", locations[kept])
        object.__setattr__(self, "weights", masses[kept])

    def __repr__(self) -> str:
        low, high = self._locations[[0, -1]]
        return f"EmpiricalLaw({self._locations.size} atoms in [{low:.6g}, {high:.6g}])"

    @property
    def _locations(self) -> Array:
        return np.asarray(self.values)

    @property
    def _masses(self) -> Array:
        return np.asarray(self.weights)

    @property
    def support(self) -> Array:
        return np.empty((0, 2))

    @property
    def atoms(self) -> Array:
        return np.stack([self._locations, self._masses], axis=1)

    def density(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        return carry_nan(x, np.zeros(x.shape))

    def cdf(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        return carry_nan(x, self._cumulative[np.searchsorted(self._locations, x, side="right")])

    def quantile(self, p: ArrayLike) -> Array:
        p = np.asarray(p, dtype=float)
        place = np.searchsorted(self._cumulative[1:], np.clip(p, 0, 1), side="left")
        x = self._locations[np.minimum(place, self._locations.size - 1)]
        return np.where((p >= 0) & (p <= 1), x, np.nan)[()]

    def stieltjes(self, z: ArrayLike) -> Array:
        """Infinite at an atom."""
        z = upper_half(z)
        flat = z.ravel()
        out = np.empty(flat.size, dtype=complex)
        step = max(1, _BLOCK // self._locations.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            for start in range(0, flat.size, step):
                part = slice(start, start + step)
                height = flat[part].imag
                away = self._locations - flat[part].real[:, None]
                if height.any():  # in real arithmetic: three times as fast as complex division
                    inverse = 1 / (away**2 + height[:, None] ** 2)
                    out[part] = (away * inverse) @ self._masses + 1j * height * (inverse @ self._masses)
                else:
                    out[part] = (1 / away) @ self._masses
        return np.where(np.isfinite(out), out, np.inf).reshape(z.shape)[()]

    def moment(self, k: int) -> float:
        return float(self._masses @ self._locations**k)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent draws of the values: a bootstrap, which is not a new spectrum."""
        return self.quantile(rng.random(size))

    @property
    def _cumulative(self) -> Array:
        sums = np.concatenate([[0.0], np.cumsum(self._masses)])
        sums[-1] = 1.0
        return sums


def point_mass(location: float) -> EmpiricalLaw:
    """The law of a constant."""
    return EmpiricalLaw([location])

"""The semicircle law: eigenvalues of a symmetric matrix with independent entries of variance `variance` / n."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from rmt.laws.inversion import quantile_from_cdf
from rmt.laws.law import Array, interval, no_atoms, positive, upper_half
from rmt.laws.marchenko_pastur import MarchenkoPastur


@dataclass(frozen=True)
class Semicircle:
    """Density sqrt(4 v - x^2) / (2 pi v) on [-2 sqrt v, 2 sqrt v], v = `variance`. Wigner 1958.

    >>> float(Semicircle(variance=1.0).moment(4))
    2.0
    """

    variance: float = 1.0

    def __post_init__(self) -> None:
        positive("variance", self.variance)

    @property
    def radius(self) -> float:
        """The edge, 2 sqrt(variance)."""
        return 2 * math.sqrt(self.variance)

    @property
    def support(self) -> Array:
        return interval(-self.radius, self.radius)

    @property
    def atoms(self) -> Array:
        return no_atoms()

    def density(self, x: ArrayLike) -> Array:
        at = np.clip(np.asarray(x, dtype=float), -self.radius, self.radius)
        return np.sqrt((self.radius - at) * (self.radius + at)) / (2 * np.pi * self.variance)

    def cdf(self, x: ArrayLike) -> Array:
        at = np.clip(np.asarray(x, dtype=float), -self.radius, self.radius)
        left, right = np.sqrt(self.radius + at), np.sqrt(self.radius - at)
        return (at * left * right / (4 * self.variance) + 2 * np.arctan2(left, right)) / np.pi

    def quantile(self, p: ArrayLike) -> Array:
        return quantile_from_cdf(self, p)

    def stieltjes(self, z: ArrayLike) -> Array:
        z = upper_half(z)
        return -2 / (z + np.sqrt(z - self.radius) * np.sqrt(z + self.radius))

    def moment(self, k: int) -> float:
        """v^(k/2) times a Catalan number for even k, 0 for odd k."""
        return 0.0 if k % 2 else float(special.comb(k, k // 2) / (k // 2 + 1) * self.variance ** (k // 2))

    def square(self) -> MarchenkoPastur:
        """The law of X^2: Marchenko-Pastur of ratio 1."""
        return MarchenkoPastur(ratio=1.0, variance=self.variance)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent draws: a shifted Beta(3/2, 3/2)."""
        return self.radius * (2 * rng.beta(1.5, 1.5, size) - 1)

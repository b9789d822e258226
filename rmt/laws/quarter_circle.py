"""The quarter-circle law: singular values of a square matrix with independent entries of variance `variance` / n."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from rmt.laws.inversion import quantile_from_cdf
from rmt.laws.law import Array, carry_nan, far_field, interval, is_far, no_atoms, positive, upper_half
from rmt.laws.marchenko_pastur import MarchenkoPastur


@dataclass(frozen=True)
class QuarterCircle:
    """Density sqrt(4 v - x^2) / (pi v) on [0, 2 sqrt v], v = `variance`, so that E X^2 = v.

    The law of sqrt(n) times the singular values of (I - J) A for independent weights: v = sigma^2, the squared
    coefficient of variation of a weight (Bordenave, Caputo and Chafai 2012).
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
        return interval(0.0, self.radius)

    @property
    def atoms(self) -> Array:
        return no_atoms()

    def density(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        at = np.clip(x, 0, self.radius)
        height = np.sqrt((self.radius - at) * (self.radius + at)) / (np.pi * self.variance)
        return carry_nan(x, np.where(x >= 0, height, 0.0))

    def cdf(self, x: ArrayLike) -> Array:
        at = np.clip(np.asarray(x, dtype=float), 0, self.radius)
        root = np.sqrt((self.radius - at) * (self.radius + at))
        return (at * root / (2 * self.variance) + 2 * np.arctan2(at, root)) / np.pi

    def quantile(self, p: ArrayLike) -> Array:
        return quantile_from_cdf(self, p)

    def stieltjes(self, z: ArrayLike) -> Array:
        """Elementary: with x = z / radius, 4/(pi radius) ((1 - x^2) J - 1 - pi x / 2), J = E of the arcsine kernel."""
        z = upper_half(z)
        near = np.where(is_far(z, self), 8.0, z / self.radius)
        with np.errstate(divide="ignore", invalid="ignore"):
            left, right = np.sqrt(1 - near), np.sqrt(1 + near)
            # log((left + right)/(left - right)), with the difference of the roots free of cancellation
            angle = np.log(-((left + right) ** 2) / (2 * near))
            kernel = np.where(np.abs(near) == 1, 0.0, left * right * angle)
        closed = 4 / (np.pi * self.radius) * (kernel - 1 - np.pi * near / 2)
        return far_field(z, self, np.where(z == 0, np.inf, closed))

    def moment(self, k: int) -> float:
        return float(self.radius**k * special.beta((k + 1) / 2, 1.5) / special.beta(0.5, 1.5))

    def square(self) -> MarchenkoPastur:
        """The law of X^2: Marchenko-Pastur of ratio 1."""
        return MarchenkoPastur(ratio=1.0, variance=self.variance)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent draws: the square root of a Beta(1/2, 3/2)."""
        return self.radius * np.sqrt(rng.beta(0.5, 1.5, size))

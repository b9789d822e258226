"""The circular law: eigenvalues of a square matrix with independent entries of variance `variance` / n."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.law import Array, carry_nan, far_field, interval, is_far, no_atoms, positive, upper_half


@dataclass(frozen=True)
class CircularLaw:
    """Uniform on the disc of radius sqrt(variance). As a law on the line this is the law of the modulus.

    Modulus: density 2 r / radius^2 on [0, radius]. `density_at` is the density in the plane. The bulk eigenvalues of
    sqrt(n) A for independent weights, variance = sigma^2 (Bordenave, Caputo and Chafai 2012).
    """

    variance: float = 1.0

    def __post_init__(self) -> None:
        positive("variance", self.variance)

    @property
    def radius(self) -> float:
        """The radius of the disc, sqrt(variance)."""
        return math.sqrt(self.variance)

    @property
    def support(self) -> Array:
        return interval(0.0, self.radius)

    @property
    def atoms(self) -> Array:
        return no_atoms()

    def density_at(self, z: ArrayLike) -> Array:
        """Density in the plane at complex z: 1 / (pi variance) inside the disc."""
        return np.where(np.abs(np.asarray(z)) <= self.radius, 1 / (np.pi * self.variance), 0.0)[()]

    def density(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        return carry_nan(x, np.where((x >= 0) & (x <= self.radius), 2 * x / self.variance, 0.0))

    def cdf(self, x: ArrayLike) -> Array:
        return np.clip(np.asarray(x, dtype=float) / self.radius, 0, 1) ** 2

    def quantile(self, p: ArrayLike) -> Array:
        p = np.asarray(p, dtype=float)
        return self.radius * np.sqrt(np.where((p >= 0) & (p <= 1), p, np.nan))[()]

    def stieltjes(self, z: ArrayLike) -> Array:
        """Of the modulus: 2/radius (1 + x log(1 - 1/x)), x = z / radius."""
        z = upper_half(z)
        near = np.where(is_far(z, self), 8.0, z / self.radius)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (near - 1) / near
            # on the interval itself the logarithm is taken from above
            log = np.log(np.abs(ratio)) + 1j * np.where((near.imag == 0) & (ratio.real < 0), np.pi, np.angle(ratio))
            closed = 2 / self.radius * (1 + np.where(near == 0, 0.0, near * log))
        return far_field(z, self, closed)

    def moment(self, k: int) -> float:
        return 2 * self.radius**k / (k + 2)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent draws of the modulus."""
        return self.radius * np.sqrt(rng.random(size))

    def sample_plane(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent complex draws, uniform on the disc."""
        return self.sample(rng, size) * np.exp(2j * np.pi * rng.random(size))

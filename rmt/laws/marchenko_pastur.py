"""The Marchenko-Pastur law: eigenvalues of a sample covariance (Gram) matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from rmt.laws.inversion import quantile_from_cdf, sample_by_inversion
from rmt.laws.law import Array, carry_nan, interval, no_atoms, positive, upper_half


@dataclass(frozen=True)
class MarchenkoPastur:
    """Limit law of the p eigenvalues of X X^T, X of shape (p, n) with entries of variance `variance` / n, ratio = p / n.

    Mean `variance`, edges variance (1 +- sqrt ratio)^2. For ratio > 1 the Gram matrix is singular and the law has an
    atom of mass 1 - 1/ratio at 0. Marchenko and Pastur 1967; ratio and variance follow the Gram matrix, not its dual.

    >>> MarchenkoPastur(ratio=0.25, variance=1.0).support
    array([[0.25, 2.25]])
    """

    ratio: float
    variance: float = 1.0

    def __post_init__(self) -> None:
        positive("ratio", self.ratio)
        positive("variance", self.variance)

    @property
    def support(self) -> Array:
        root = math.sqrt(self.ratio)
        return interval(self.variance * (1 - root) ** 2, self.variance * (1 + root) ** 2)

    @property
    def atoms(self) -> Array:
        return np.array([[0.0, 1 - 1 / self.ratio]]) if self.ratio > 1 else no_atoms()

    def density(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        low, high = self.support[0]
        inside = (x > low) & (x < high)
        at = np.where(inside, x, 1.0)
        # two square roots: their product can underflow when ratio = 1 and x is tiny
        root = np.sqrt(np.where(inside, at - low, 0)) * np.sqrt(np.where(inside, high - at, 0))
        return carry_nan(x, root / (2 * np.pi * self.ratio * self.variance * at))

    def cdf(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        low, high = self.support[0] / self.variance
        at = np.clip(x / self.variance, low, high)
        left, right = np.sqrt(at - low), np.sqrt(high - at)
        angle = 2 * np.arctan2(left, right)
        dual = 2 * np.arctan2(math.sqrt(high) * left, math.sqrt(low) * right) if low > 0 else 0.0
        bulk = (left * right + (1 + self.ratio) * angle - abs(1 - self.ratio) * dual) / (2 * np.pi * self.ratio)
        value = bulk + (max(0.0, 1 - 1 / self.ratio)) * (x >= 0)
        return np.where(x >= high * self.variance, 1.0, value)[()]

    def quantile(self, p: ArrayLike) -> Array:
        return quantile_from_cdf(self, p)

    def stieltjes(self, z: ArrayLike) -> Array:
        z = upper_half(z)
        low, high = self.support[0]
        linear = z + self.variance * (self.ratio - 1)
        root = np.sqrt(z - low) * np.sqrt(z - high)
        # the two forms are equal; each loses its digits where the other keeps them
        total, difference = linear + root, root - linear
        stable = np.abs(total) >= np.abs(difference)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(stable, -2 / total, difference / (2 * self.ratio * self.variance * z))
        return np.where((z == 0) & (self.ratio >= 1), np.inf, value)[()]

    def moment(self, k: int) -> float:
        """variance^k times the Narayana polynomial sum_j ratio^j C(k, j) C(k - 1, j) / (j + 1), j = 0 ... k - 1."""
        if k == 0:
            return 1.0
        j = np.arange(k)
        narayana = special.comb(k, j) * special.comb(k - 1, j) / (j + 1)
        return float(self.variance**k * np.sum(narayana * self.ratio**j))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent draws by inversion."""
        return sample_by_inversion(self, rng, size)

"""Edelman's law of the condition number of a square Gaussian matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.inversion import sample_by_inversion
from rmt.laws.law import Array, carry_nan, interval, no_atoms


@dataclass(frozen=True)
class EdelmanConditionNumber:
    """Limit law of kappa / n, kappa = s_max / s_min of an n x n matrix of independent Gaussian entries, n -> infinity.

    P(kappa / n <= x) = exp(-2/x - 2/x^2) for real entries, exp(-4/x^2) for complex ones (Edelman 1988, Theorem 6.1).
    The tail 1 - cdf ~ 2/x (real) is so heavy that the mean is infinite: use the median or `mean_log`. A law of one
    number per matrix, not of a spectrum, so it has no Stieltjes transform here. At finite n (derived by simulation):
    Kolmogorov distance .059, .030, .028, .019 at n = 16, 32, 64, 128.
    """

    field: Literal["real", "complex"] = "real"

    def __post_init__(self) -> None:
        if self.field not in ("real", "complex"):
            raise ValueError(f"field {self.field}: must be real or complex")

    @property
    def support(self) -> Array:
        return interval(0.0, np.inf)

    @property
    def atoms(self) -> Array:
        return no_atoms()

    def density(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        inverse = 1 / np.where(x > 1e-3, x, np.inf)
        slope = 2 * inverse**2 + 4 * inverse**3 if self.field == "real" else 8 * inverse**3
        return self.cdf(x) * slope

    def cdf(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        inverse = 1 / np.where(x > 1e-3, x, 1.0)  # below 1e-3 the cdf is less than exp(-1e6)
        exponent = 2 * inverse + 2 * inverse**2 if self.field == "real" else 4 * inverse**2
        return carry_nan(x, np.where(x > 1e-3, np.exp(-exponent), 0.0))

    def quantile(self, p: ArrayLike) -> Array:
        p = np.asarray(p, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = -np.log(p)
            x = (1 + np.sqrt(1 + 2 * depth)) / depth if self.field == "real" else 2 / np.sqrt(depth)
        return np.where(p == 0, 0.0, x)[()]

    def moment(self, k: int) -> float:
        """1 for k = 0. For k >= 1 infinite, except the complex first moment, 2 sqrt(pi)."""
        if k == 0:
            return 1.0
        return float(2 * np.sqrt(np.pi)) if self.field == "complex" and k == 1 else np.inf

    @property
    def mean_log(self) -> float:
        """E log(kappa / n): 1.537 (real), 0.982 (complex)."""
        if self.field == "complex":
            return float(np.log(2) + np.euler_gamma / 2)
        # with E exponential, x = (1 + sqrt(1 + 2 E)) / E and -E log E = Euler's constant
        nodes, weights = np.polynomial.laguerre.laggauss(60)
        return float(np.euler_gamma + weights @ np.log1p(np.sqrt(1 + 2 * nodes)))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent draws by inversion."""
        return sample_by_inversion(self, rng, size)

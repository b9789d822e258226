"""The self-energy K(w) = w - 1/G(w) of a law, G(w) = -m(w) = E 1/(w - X): what free convolution adds or multiplies."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.law import Array, SpectralLaw, hull

_FAR = 2000.0  # in units of the spread: further out, four terms of the expansion beat the difference


@dataclass(frozen=True, eq=False)
class SelfEnergy:
    """K of a law of bounded support: analytic, Im K <= 0 in the upper half plane, the mean of the law at infinity.

    Far out K = mean + c2/u + c3/u^2 + (c4 - c2^2)/u^3 with u = w - mean and central moments c, where w - 1/G would
    cancel. So K keeps 12 digits everywhere, and `psi` (below) is relatively exact at infinity.
    """

    law: SpectralLaw

    def __post_init__(self) -> None:
        if not np.all(np.isfinite(hull(self.law))):
            raise ValueError(f"{self.law}: free convolution needs a law of bounded support")

    def __call__(self, w: ArrayLike) -> Array:
        w = np.asarray(w, dtype=complex)
        far = np.abs(w - self.mean) > _FAR * self.spread
        with np.errstate(all="ignore"):
            value = w + 1 / self.law.stieltjes(w)
            if np.any(far):
                u = 1 / (w - self.mean)
                second, third, fourth = self._cumulants
                value = np.where(far, self.mean + u * (second + u * (third + u * fourth)), value)
        # rounding may not take it across the axis; below it K is the conjugate
        return value.real + 1j * np.where(w.imag < 0, np.maximum(value.imag, 0.0), np.minimum(value.imag, 0.0))

    def cauchy(self, w: ArrayLike) -> Array:
        """G(w) = E 1/(w - X)."""
        return -self.law.stieltjes(w)

    def psi(self, w: ArrayLike) -> Array:
        """w G(w) - 1 = E X/(w - X) = K(w) G(w)."""
        return self(w) * self.cauchy(w)

    @functools.cached_property
    def mean(self) -> float:
        return self.law.moment(1)

    @functools.cached_property
    def spread(self) -> float:
        """The length of the least interval that holds the law; for a constant, a positive number of no consequence."""
        low, high = hull(self.law)
        return high - low or abs(high) or 1.0

    @functools.cached_property
    def _cumulants(self) -> tuple[float, float, float]:
        m, (m2, m3, m4) = self.mean, (self.law.moment(k) for k in (2, 3, 4))
        c2 = max(m2 - m * m, 0.0)
        c3 = m3 - 3 * m * m2 + 2 * m**3
        c4 = m4 - 4 * m * m3 + 6 * m * m * m2 - 3 * m**4
        return c2, c3, c4 - c2 * c2


def positive_factor(law: SpectralLaw) -> SelfEnergy:
    """The self-energy of a law on [0, inf) with a positive mean."""
    low, high = hull(law)
    if low < 0 or high <= 0:
        raise ValueError(
            f"{law} reaches from {low:.6g} to {high:.6g}: a multiplicative calculus needs laws on [0, inf), not just 0"
        )
    return SelfEnergy(law)

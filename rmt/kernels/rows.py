"""What all kernels agree on: weight laws, the safe range of the exponent, and the sums gathered along a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rmt.arrays import Array

LAWS = ("lognormal", "exponential", "uniform", "gamma")
"""Laws of iid weights: exp(beta z) with z standard normal; Exp(1); U(0, 1); Gamma(2), a sum of two Exp(1)."""

LARGEST_NORMAL = 7.54
"""No drawn normal is larger: the radius uniform is at least 2^-41, and sqrt(2 * 41 ln 2) = 7.539."""

SAFE_LOGIT = 40.0
"""iid logits within this bound, beta * 7.54, are exponentiated as they are: e^40 and its square are far inside float32.
Beyond it, and for all other logits, the row's exact maximum is subtracted first."""


@dataclass(frozen=True)
class RowSums:
    """Sums along r rows of unnormalised weights w = exp(l - shift); each (r,) float64.

    `total` = sum w, `weighted` = sum w (l - shift), `squared` = sum w^2. Where w is no exponential, l = ln w in
    float32, so that the entropy is right to 1e-7 relative in either dtype.
    """

    total: Array
    weighted: Array
    squared: Array

    def frobenius_norm_squared(self, xp: Any = np) -> float:
        """Sum over the rows of the squared normalised weights."""
        return float(xp.sum(self.squared / self.total**2))

    def entropy(self, xp: Any = np) -> float:
        """Sum over the rows of -sum a ln a, in nats."""
        return float(xp.sum(xp.log(self.total) - self.weighted / self.total))

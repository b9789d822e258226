"""iid weights with light tails: what the one-layer model needs of exponential, gamma and uniform weights."""

from __future__ import annotations

import dataclasses
import math

import scipy.special

from rmt.theorems.effective_variance import gamma_moment, uniform_moment

LIGHT = ("exponential", "uniform", "gamma")
_SHAPES = {"exponential": 1.0, "gamma": 2.0}


@dataclasses.dataclass(frozen=True)
class LightWeights:
    """Exp(1), U(0, 1) or Gamma(2) weights a; A_j = a_j / sum_k a_k."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in LIGHT:
            raise ValueError(f"weights {self.name}: light tails have {', '.join(LIGHT)}")

    def moment(self, n: int, power: float) -> float:
        """E (n A_1)^power, exact."""
        if self.name == "uniform":
            return uniform_moment(n, power)
        return gamma_moment(n, power, _SHAPES[self.name])

    def quantile(self, tail: float) -> float:
        """a/E a that a weight exceeds with probability `tail`."""
        if self.name == "uniform":
            return 2 * (1 - tail)
        shape = _SHAPES[self.name]
        return float(scipy.special.gammainccinv(shape, tail)) / shape

    def variance(self, n: int) -> float:
        """sigma_n^2 = n E sum_j A_j^2 - 1."""
        return max(self.moment(n, 2) - 1, 0.0)

    def entropy(self, n: int) -> float:
        """Mean entropy of a row in nats: ln n - d/dp E (n A)^p at p = 1 (central difference, error 1e-7)."""
        step = 1e-4
        return math.log(n) - (self.moment(n, 1 + step) - self.moment(n, 1 - step)) / (2 * step)

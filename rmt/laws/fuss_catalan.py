"""The Fuss-Catalan laws: squared singular values of a product of square Gaussian matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from rmt.laws.inversion import quantile_from_cdf, sample_by_inversion
from rmt.laws.law import Array, carry_nan, far_field, interval, is_far, no_atoms, positive, upper_half


@dataclass(frozen=True)
class FussCatalan:
    """Limit law of the eigenvalues of P P^T, P the product of `order` independent square matrices, E entry^2 = 1/n each.

    The free multiplicative power of Marchenko-Pastur (ratio 1), scaled to mean `variance`. With s = order:
    moments C((s+1)k, k)/(sk+1), support [0, (s+1)^(s+1)/s^s], density of order x^(-s/(s+1)) at 0 (Banica, Belinschi,
    Capitaine and Collins 2011; Haagerup and Moller 2013). z m(z) = -w, where w^(s+1) = z (w - 1). On the support
    w = sin((s+1)t)/sin(s t) e^(-it) with 0 < t < pi/(s+1), which gives density and cdf without a root of a polynomial.

    >>> FussCatalan(order=2).moment(3)
    12.0
    """

    order: int
    variance: float = 1.0

    def __post_init__(self) -> None:
        if self.order != int(self.order) or self.order < 1:
            raise ValueError(f"order {self.order}: must be an integer >= 1")
        positive("variance", self.variance)

    @property
    def edge(self) -> float:
        """The right end of the support, variance (s+1)^(s+1)/s^s."""
        s = self.order
        return self.variance * (s + 1) ** (s + 1) / s**s

    @property
    def support(self) -> Array:
        return interval(0.0, self.edge)

    @property
    def atoms(self) -> Array:
        return no_atoms()

    def density(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        inside = (x > 0) & (x < self.edge)
        at = np.where(inside, x, self.edge / 2)
        modulus, angle = self._polar(at)
        value = modulus * np.sin(angle) / (np.pi * at)
        return carry_nan(x, np.where(inside, value, np.where(x == 0, np.inf, 0.0)))

    def cdf(self, x: ArrayLike) -> Array:
        """1 + (s |w| sin t - (s+1) t)/pi, from the antiderivative s w - log(w - 1) of w/z; arg(w - 1) = -(s+1) t."""
        x = np.asarray(x, dtype=float)
        inside = (x > 0) & (x < self.edge)
        modulus, angle = self._polar(np.where(inside, x, self.edge / 2))
        value = 1 + (self.order * modulus * np.sin(angle) - (self.order + 1) * angle) / np.pi
        return carry_nan(x, np.where(inside, np.clip(value, 0, 1), x >= self.edge))

    def quantile(self, p: ArrayLike) -> Array:
        return quantile_from_cdf(self, p)

    def stieltjes(self, z: ArrayLike) -> Array:
        z = upper_half(z)
        usable = np.isfinite(z) & (z != 0) & ~is_far(z, self)
        scaled = np.where(usable, z, 1.0).ravel() / self.variance
        on_support = (scaled.imag == 0) & (scaled.real > 0) & (scaled.real < self.edge / self.variance)
        w = np.empty_like(scaled)
        modulus, angle = self._polar(scaled[on_support].real * self.variance)
        w[on_support] = modulus * np.exp(-1j * angle)
        w[~on_support] = _resolvent_root(scaled[~on_support], self.order)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.where(usable, -w.reshape(z.shape) / z, np.where(z == 0, np.inf, np.nan))
        return far_field(z, self, near)

    def moment(self, k: int) -> float:
        s = self.order
        return float(self.variance**k * special.comb((s + 1) * k, k, exact=True) / (s * k + 1))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent draws by inversion."""
        return sample_by_inversion(self, rng, size)

    def _polar(self, x: Array) -> tuple[Array, Array]:
        """Modulus and minus the argument t of w at x in (0, edge).

        (x/edge)^(1/(s+1)) is the sine of a function of pi/(s+1) - t that is close to linear (and is, for s = 1):
        secant steps on it converge everywhere, to relative precision at both ends.
        """
        s, end = self.order, np.pi / (self.order + 1)
        target = np.arcsin(np.clip((x / self.edge) ** (1 / (s + 1)), 0, 1))

        def fraction(d: Array) -> Array:
            t = end - d
            with np.errstate(divide="ignore", invalid="ignore"):
                whole = np.sin((s + 1) * np.minimum(t, d))
                power = (whole ** (s + 1) / (np.sin(t) * np.sin(s * t) ** s)) * self.variance / self.edge
                return np.arcsin(np.clip(np.where(t <= 0, 1.0, power ** (1 / (s + 1))), 0, 1))

        old, d = 0.9 * target / (np.pi / 2) * end, target / (np.pi / 2) * end
        old_value = fraction(old)
        for _ in range(30):
            value = fraction(d)
            change = value - old_value
            moving = np.abs(value - target) > 1e-16 * target
            if not np.any(moving & (change != 0)):
                break
            step = np.where(moving & (change != 0), (target - value) * (d - old) / np.where(change == 0, 1, change), 0)
            old, old_value, d = d, value, np.clip(d + step, d / 10, np.minimum(end, 10 * d))
        t = end - d
        return np.where(t > 0, np.sin((s + 1) * np.minimum(t, d)) / np.sin(s * np.where(t > 0, t, 1)), (s + 1) / s), t


def _resolvent_root(z: Array, s: int) -> Array:
    """The root of w^(s+1) = z (w - 1) that is the resolvent: of those with argument in (-pi/(s+1), 0), the smallest."""
    companion = np.zeros((z.size, s + 1, s + 1), dtype=complex)
    companion[:, np.arange(s), np.arange(1, s + 1)] = 1
    companion[:, s, 0], companion[:, s, 1] = -z, z
    roots = np.linalg.eigvals(companion)
    argument = np.angle(roots)
    slack = 1e-7
    allowed = (argument <= slack) & (argument >= -np.pi / (s + 1) - slack)
    w = np.take_along_axis(roots, np.argmin(np.where(allowed, np.abs(roots), np.inf), axis=1)[:, None], axis=1)[:, 0]
    for _ in range(2):  # polish, except where two roots meet
        slope = (s + 1) * w**s - z
        step = (w ** (s + 1) - z * (w - 1)) / np.where(slope == 0, 1, slope)
        w = np.where(np.abs(step) < 1e-3 * np.abs(w), w - step, w)
    return np.where(w.imag > 0, w.real, w)

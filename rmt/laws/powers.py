"""Free powers, and the compression to a corner, of one law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.laws.gaps import outside_of_one, side, support_from
from rmt.laws.law import Array, SpectralLaw, hull, mass_at, no_atoms
from rmt.laws.multiplicative import nonnegative
from rmt.laws.self_energy import SelfEnergy, positive_factor
from rmt.laws.solved_law import SolvedLaw
from rmt.laws.subordination import converged, fixed_point


@dataclass(frozen=True, eq=False)
class AdditivePower:
    """w = z - (t - 1) K(w); then m(z) = m_law(w), t >= 1. Values of X are multiplied by `scale` afterwards."""

    factor: SelfEnergy
    power: float
    scale: float = 1.0

    def points(self, z: Array) -> tuple[Array, Array]:
        """w and the relative residual at z (m,), in units before scaling."""

        def step(w: Array, place: Array) -> Array:
            return (z[place] - (self.power - 1) * self.factor(w[0]))[None]

        spread = self.power * self.factor.spread
        w, residual = fixed_point(step, (z + 1j * spread)[None], scale=spread)
        return w[0], residual

    def __call__(self, z: Array) -> Array:
        w, residual = self.points(z / self.scale)
        converged(residual, z)
        return self.factor.law.stieltjes(w) / self.scale


@dataclass(frozen=True, eq=False)
class MultiplicativePower:
    """w = z / K(w)^(t - 1); then -z m(z) = 1/(1 - K(w)/w), t >= 1."""

    factor: SelfEnergy
    power: float

    def points(self, z: Array) -> tuple[Array, Array]:
        """w and the relative residual at z (m,)."""

        def step(w: Array, place: Array) -> Array:
            return (z[place] * self.factor(w[0]) ** (1 - self.power))[None]

        start = (z + 1j * np.abs(z)) * self.factor.mean ** (1 - self.power)
        w, residual = fixed_point(step, start[None])
        return w[0], residual

    def __call__(self, z: Array) -> Array:
        w, residual = self.points(z)
        converged(residual[z != 0], z[z != 0])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(z == 0, np.inf, -1 / (z - z * self.factor(w) / w))


def free_sum_power(law: SpectralLaw, power: float, *, scale: float = 1.0) -> SolvedLaw:
    """scale times the law of a free sum of `power` copies; the power, a real number >= 1, need not be an integer.

    R-transform times `power` (Nica and Speicher 1996). Atoms: power a of mass power mass{a} - (power - 1), where positive.
    """
    _at_least_one(power)
    transform = AdditivePower(SelfEnergy(law), float(power), float(scale))
    k = transform.factor
    gaps = outside_of_one(
        side(law, lambda w: k.cauchy(w).real, spread=k.spread),
        lambda w: w + (power - 1) * k(w).real,
        scale=power * (k.spread + abs(k.mean)),
    )
    mass = power * law.atoms[:, 1] - (power - 1)
    atoms = np.stack([scale * power * law.atoms[:, 0], mass], axis=1)[mass > 1e-14]
    name = f"{scale:g} times the free sum of {power:g} copies of {law}"
    return SolvedLaw(name, transform, support_from(gaps) * scale, atoms)


def free_product_power(law: SpectralLaw, power: float) -> SolvedLaw:
    """The law of a free product of `power` copies of a law on [0, inf); the power, a real number >= 1, need not be whole.

    S-transform to the `power`. Atoms: 0 keeps its mass; a^power has mass power mass{a} - (power - 1), where positive.
    """
    _at_least_one(power)
    k = positive_factor(law)
    transform = MultiplicativePower(k, float(power))

    def position(w: Array) -> Array:
        energy = k(w).real
        return np.where(energy > 0, w * np.abs(energy) ** (power - 1), np.nan)

    gaps = outside_of_one(
        side(law, lambda w: k.psi(w).real, spread=hull(law)[1]), position, scale=hull(law)[1] ** power
    )
    support = support_from(nonnegative(gaps))
    zero = mass_at(law, 0.0)
    mass = power * law.atoms[:, 1] - (power - 1)
    heavy = np.stack([np.abs(law.atoms[:, 0]) ** power, mass], axis=1)[(mass > 1e-14) & (law.atoms[:, 0] > 0)]
    atoms = np.concatenate([[(0.0, zero)] if zero > 0 else no_atoms(), heavy])
    return SolvedLaw(f"free product of {power:g} copies of {law}", transform, support, atoms)


def compression(law: SpectralLaw, fraction: float) -> SolvedLaw:
    """The law of the corner P X P, seen on the range of a free projection P of trace `fraction`, in (0, 1].

    The spectrum of a random fraction n x fraction n principal block of U X U^T. It is fraction times the free sum of
    1/fraction copies (Nica and Speicher 1996).
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction {fraction}: must be in (0, 1]")
    return free_sum_power(law, 1 / fraction, scale=fraction)


def _at_least_one(power: float) -> None:
    if not (np.isfinite(power) and power >= 1):
        raise ValueError(f"power {power}: must be a finite number >= 1")

"""Free additive convolution: the spectrum of A + U B U^T for large matrices in general position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.laws.gaps import outside_of_pair, side, support_from
from rmt.laws.law import Array, SpectralLaw, no_atoms
from rmt.laws.self_energy import SelfEnergy
from rmt.laws.solved_law import SolvedLaw
from rmt.laws.subordination import converged, fixed_point


@dataclass(frozen=True, eq=False)
class AdditiveSubordination:
    """w1 = z - K2(w2), w2 = z - K1(w1), with K the self-energies of the laws; then m(z) = m1(w1) = m2(w2)."""

    first: SelfEnergy
    second: SelfEnergy

    def points(self, z: Array) -> tuple[Array, Array, Array]:
        """w1, w2 and the relative residual of the fixed point at z (m,), Im z >= 0."""

        def step(w: Array, place: Array) -> Array:
            w2 = z[place] - self.first(w[0])
            return (z[place] - self.second(w2))[None]

        spread = max(self.first.spread, self.second.spread)
        w, residual = fixed_point(step, (z + 1j * spread)[None], scale=spread)
        return w[0], z - self.first(w[0]), residual

    def __call__(self, z: Array) -> Array:
        """The Stieltjes transform of the sum at z (m,)."""
        w1, _, residual = self.points(z)
        converged(residual, z)
        return self.first.law.stieltjes(w1)

    def real_point(self, w1: Array, w2: Array, from_second: Array) -> Array:
        """z for real w1 and w2 with the same G: w2 + K1(w1) where `from_second`, w1 + K2(w2) elsewhere."""
        return np.where(from_second, w2 + self.first(w1).real, w1 + self.second(w2).real)


def free_sum(first: SpectralLaw, second: SpectralLaw) -> SolvedLaw:
    """The law of X + Y for free X and Y of these laws: any two compactly supported ones, with or without atoms.

    Subordination (Biane 1998; Belinschi and Bercovici 2007). Atoms: a + b with mass first{a} + second{b} - 1 where that
    is positive (Bercovici and Voiculescu 1998).

    >>> from rmt.laws import Semicircle
    >>> free_sum(Semicircle(1.0), Semicircle(3.0)).support.round(9)
    array([[-4.,  4.]])
    """

    sums = AdditiveSubordination(SelfEnergy(first), SelfEnergy(second))
    one, two = sums.first, sums.second
    spread = max(one.spread, two.spread)
    gaps = outside_of_pair(
        side(first, lambda w: one.cauchy(w).real, spread=spread),
        side(second, lambda w: two.cauchy(w).real, spread=spread),
        sums.real_point,
        scale=one.spread + two.spread + abs(one.mean) + abs(two.mean),
    )
    name = f"free sum of {first} and {second}"
    return SolvedLaw(name, sums, support_from(gaps), heavy_pairs(first, second, np.add))


def heavy_pairs(first: SpectralLaw, second: SpectralLaw, combine: np.ufunc) -> Array:
    """Atoms combine(a, b) with mass first{a} + second{b} - 1 > 0, ascending: at most one atom of mass above 1/2 each."""
    if len(first.atoms) == 0 or len(second.atoms) == 0:
        return no_atoms()
    mass = first.atoms[:, 1, None] + second.atoms[None, :, 1] - 1
    place = combine.outer(first.atoms[:, 0], second.atoms[:, 0])
    found = np.stack([place[mass > 1e-14], mass[mass > 1e-14]], axis=1)
    return found[np.argsort(found[:, 0])]

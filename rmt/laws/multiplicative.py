"""Free multiplicative convolution: the spectrum of A^(1/2) U B U^T A^(1/2) for large positive matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.laws.additive import heavy_pairs
from rmt.laws.gaps import outside_of_pair, side, support_from, union
from rmt.laws.law import Array, SpectralLaw, hull, mass_at, no_atoms
from rmt.laws.self_energy import SelfEnergy, positive_factor
from rmt.laws.solved_law import SolvedLaw
from rmt.laws.subordination import converged, fixed_point


@dataclass(frozen=True, eq=False)
class MultiplicativeSubordination:
    """w1 = z/K2(w2), w2 = z/K1(w1), with K the self-energies; then -z m(z) = w1 G1(w1) = 1/(1 - K1(w1)/w1)."""

    first: SelfEnergy
    second: SelfEnergy

    def points(self, z: Array) -> tuple[Array, Array, Array]:
        """w1, w2 and the relative residual of the fixed point at z (m,), Im z >= 0."""

        def step(w: Array, place: Array) -> Array:
            return (z[place] / self.second(z[place] / self.first(w[0])))[None]

        # between z/mean, the answer far out, and the powers of z that it follows towards 0; real on the negative axis,
        # which the map takes into itself
        turn = np.where((z.imag == 0) & (z.real < 0), -1, 1j)
        start = (z + turn * np.sqrt(np.abs(z) * self.first.mean * self.second.mean)) / self.second.mean
        w, residual = fixed_point(step, start[None])
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 at z = 0
            return w[0], z / self.first(w[0]), residual

    def __call__(self, z: Array) -> Array:
        """The Stieltjes transform of the product at z (m,)."""
        w1, w2, residual = self.points(z)
        converged(residual[z != 0], z[z != 0])
        # K1(w1)/w1 = z/(w1 w2); infinite at 0 unless there is a gap
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(z == 0, np.inf, -1 / (z - z * (z / w2) / w1))

    def real_point(self, w1: Array, w2: Array, from_second: Array) -> Array:
        """z for real w1 and w2 with the same psi: w2 K1(w1) where `from_second`, w1 K2(w2) elsewhere."""
        return np.where(from_second, w2 * self.first(w1).real, w1 * self.second(w2).real)


def free_product(first: SpectralLaw, second: SpectralLaw) -> SolvedLaw:
    """The law of X^(1/2) Y X^(1/2) for free X, Y >= 0 of these laws: bounded, on [0, inf), neither concentrated at 0.

    Subordination (Biane 1998; Belinschi and Bercovici 2007). Atoms: at 0 the larger of the two masses there; at a b > 0
    with mass first{a} + second{b} - 1 where that is positive (Belinschi 2003).

    >>> from rmt.laws import MarchenkoPastur
    >>> free_product(MarchenkoPastur(1.0), MarchenkoPastur(1.0)).support.round(9)  # Fuss-Catalan of order 2
    array([[0.  , 6.75]])
    """
    products = MultiplicativeSubordination(positive_factor(first), positive_factor(second))
    one, two = products.first, products.second
    top, other_top = hull(first)[1], hull(second)[1]
    gaps = outside_of_pair(
        side(first, lambda w: one.psi(w).real, spread=top),
        side(second, lambda w: two.psi(w).real, spread=other_top),
        products.real_point,
        scale=top * other_top,
    )
    support = support_from(nonnegative(gaps))
    heavy = heavy_pairs(first, second, np.multiply)
    zero = max(mass_at(first, 0.0), mass_at(second, 0.0))
    atoms = np.concatenate([[(0.0, zero)] if zero > 0 else no_atoms(), heavy[heavy[:, 0] > 0]])
    return SolvedLaw(f"free product of {first} and {second}", products, support, atoms)


def nonnegative(gaps: Array) -> Array:
    """The gaps of a law on [0, inf): the negative axis is one, joined to what lies at 0+."""
    floor = 1e-13 * np.abs(gaps[np.isfinite(gaps)]).max(initial=0)
    return union(np.array([(-np.inf, 0.0)]), gaps[gaps[:, 1] > floor], seam=floor)

"""Rectangular free convolution: the singular values of A + U B V^T for large n x m matrices in general position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.laws.law import Array, SpectralLaw, hull, mass_at, no_atoms
from rmt.laws.self_energy import SelfEnergy, positive_factor
from rmt.laws.solved_law import SolvedLaw
from rmt.laws.subordination import converged, fixed_point

_GRID = 400  # singular values looked at for the support; a gap narrower than 1/400 of the whole can be missed


@dataclass(frozen=True, eq=False)
class RectangularSubordination:
    """Two coupled points, w for the n rows and v for the m columns, c = n/m <= 1, at a singular value z.

    A factor with psi the transform of its squares at w v has row and column resolvents (1 + psi)/w and (1 + c psi)/v, so
    the self-energies w psi/(1 + psi) and v c psi/(1 + c psi). Each factor sits at z less the self-energies of the other:
    additive subordination with values in the 2 x 2 diagonal matrices (Belinschi, Mai and Speicher 2017), which is the
    rectangular convolution of Benaych-Georges (2009). The fixed point in the half planes is unique.
    """

    first: SelfEnergy
    second: SelfEnergy
    ratio: float

    def self_energies(self, factor: SelfEnergy, point: Array) -> Array:
        """(2, m) from the points (w, v), shape (2, m)."""
        q = point[0] * point[1]
        below = q.imag < 0  # two arguments up to pi each: continue by conjugation, there is no cut on the left
        psi = factor.psi(np.where(below, q.conj(), q))
        psi = np.where(below, psi.conj(), psi)
        energies = point * np.stack([psi / (1 + psi), self.ratio * psi / (1 + self.ratio * psi)])
        return energies.real + 1j * np.minimum(energies.imag, 0.0)

    def points(self, z: Array) -> tuple[Array, Array, Array]:
        """The points (2, m) of the first factor, g of the whole and the relative residual, at z (m,), Im z >= 0."""

        def step(state: Array, place: Array) -> Array:
            other = z[place] - self.self_energies(self.first, state)
            return z[place] - self.self_energies(self.second, other)

        start = (z + 1j * self.top) * np.ones((2, 1))
        state, residual = fixed_point(step, start, limit=60, real=False)
        with np.errstate(all="ignore"):
            return state, 1 / (state[0] - self.self_energies(self.first, state)[0]), residual

    @property
    def top(self) -> float:
        """A bound of the singular values."""
        return float(np.sqrt(hull(self.first.law)[1]) + np.sqrt(hull(self.second.law)[1]))

    def __call__(self, square: Array) -> Array:
        """The Stieltjes transform of the squared singular values at `square` (m,)."""
        z = np.sqrt(square)
        _, g, residual = self.points(z)
        converged(residual[z != 0], square[z != 0])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(z == 0, np.inf, -g / z)


def rectangular_free_sum(first: SpectralLaw, second: SpectralLaw, *, ratio: float) -> SolvedLaw:
    """The law of the eigenvalues of (A + B)(A + B)^T for free bi-invariant A, B of shape n x m, ratio = n/m <= 1.

    `first` and `second` are the laws of A A^T and B B^T (n eigenvalues each, squared singular values), and so is the
    result. Noise of variance v per row is MarchenkoPastur(ratio, v). Ranks add: the mass at 0 is what the two masses at
    0 exceed one by. For ratio 1 this is the free sum of the symmetrised laws of the singular values.

    >>> from rmt.laws import MarchenkoPastur, point_mass
    >>> rectangular_free_sum(point_mass(4.0), MarchenkoPastur(1.0), ratio=1.0).support.round(4)  # W + 2 I
    array([[ 0.5447, 12.3928]])
    """
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio {ratio}: must be in (0, 1]; transpose matrices with more rows than columns")
    sums = RectangularSubordination(positive_factor(first), positive_factor(second), float(ratio))
    zero = mass_at(first, 0.0) + mass_at(second, 0.0) - 1
    atoms = np.array([(0.0, zero)]) if zero > 1e-14 else no_atoms()
    name = f"rectangular free sum of {first} and {second} at ratio {ratio:g}"
    return SolvedLaw(name, sums, _scan(sums), atoms)


def _scan(sums: RectangularSubordination) -> Array:
    """The support, from where the resolvent is not real: a grid of singular values, then each change more closely."""
    laws = (sums.first.law, sums.second.law)
    grid = [sums.top * np.concatenate([np.geomspace(1e-7, 1e-3, 40), (np.arange(_GRID) + 1) / _GRID])]
    for law, other in zip(laws, laws[::-1], strict=True):  # narrow pieces beside atoms
        grid.append((np.sqrt(law.atoms[:200, :1]) + np.sqrt(hull(other)[1]) * np.linspace(-1, 1, 41)).ravel())
    s = np.unique(np.concatenate(grid))
    s = s[s > 0]

    def height(s: Array) -> Array:
        """(Im g)^2 relative to |g|^2, which rises linearly from an edge; 0 where g is real."""
        _, g, residual = sums.points(s + 0j)
        height = (g.imag / np.abs(g)) ** 2
        return np.where((residual < 1e-12) & (height > 1e-12), height, 0.0)

    found = height(s) > 0
    change = np.flatnonzero(found[1:] != found[:-1])
    low, high = s[change], s[change + 1]
    for _ in range(6):  # sixteen parts each time
        between = low + (high - low) * np.arange(1, 16)[:, None] / 16
        same = (height(between.ravel()) > 0).reshape(between.shape) == found[change]
        part = np.minimum.accumulate(same, axis=0).sum(axis=0)
        low, high = low + (high - low) * part / 16, low + (high - low) * (part + 1) / 16
    edge = (low + high) / 2
    into = np.where(found[change], -1.0, 1.0) * sums.top
    for distance in (1e-6, 1e-7):  # extrapolate to height 0 from two points inside
        h1, h2 = height(edge + into * distance), height(edge + into * 2 * distance)
        step = np.where((h1 > 0) & (h2 > 1.5 * h1), 1 - h1 / np.where(h2 > h1, h2 - h1, 1), 0.0)
        edge = edge + into * distance * step
    if found[0]:
        edge = np.append(0.0, edge)  # the grid goes down to 1e-7 of the top
    return edge.reshape(-1, 2) ** 2

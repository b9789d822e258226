"""What a spectral law is: a probability measure on the line that knows its own transforms."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


@runtime_checkable
class SpectralLaw(Protocol):
    """A limit law of eigenvalues or singular values: intervals with a density, plus atoms.

    All methods are vectorised and return arrays of the shape of their argument; NaN in, NaN out. Laws are values:
    nothing changes after construction, and free sums and products of laws are laws again.
    """

    @property
    def support(self) -> Array:
        """Disjoint closed intervals of the continuous part, ascending, shape (k, 2); (0, 2) if there is none."""
        ...

    @property
    def atoms(self) -> Array:
        """Point masses, shape (m, 2), rows (location, mass), ascending; (0, 2) if there is none."""
        ...

    def density(self, x: ArrayLike) -> Array:
        """Density of the continuous part; 0 outside the support, and atoms are not in it."""
        ...

    def cdf(self, x: ArrayLike) -> Array:
        """P(X <= x), atoms included."""
        ...

    def quantile(self, p: ArrayLike) -> Array:
        """The least x with cdf(x) >= p, for p in [0, 1]; NaN outside."""
        ...

    def stieltjes(self, z: ArrayLike) -> Array:
        """m(z) = E 1/(X - z), complex, at finite z; Im m > 0 above the axis, and on the axis the limit from above.

        So density = Im m / pi. Infinite where that limit is, as at an atom.
        """
        ...

    def moment(self, k: int) -> float:
        """E X^k for an integer k >= 0."""
        ...


def no_atoms() -> Array:
    """The atoms of a law that has none."""
    return np.empty((0, 2))


def interval(low: float, high: float) -> Array:
    """The support of a law on one interval."""
    return np.array([[low, high]], dtype=float)


def hull(law: SpectralLaw) -> tuple[float, float]:
    """The least interval that holds the whole law, atoms included."""
    ends = np.concatenate([np.ravel(law.support), law.atoms[:, 0]])
    return float(ends.min()), float(ends.max())


def mass_at(law: SpectralLaw, location: float) -> float:
    """The mass of the law at one point."""
    atoms = law.atoms
    return float(atoms[np.isclose(atoms[:, 0], location, rtol=1e-12, atol=1e-300), 1].sum())


def upper_half(z: ArrayLike) -> Array:
    """z as complex numbers whose zero imaginary part counts as +0: the axis is approached from above."""
    z = np.asarray(z, dtype=complex)
    return z.real + 1j * np.where(z.imag == 0, 0.0, z.imag)


def carry_nan(x: Array, value: ArrayLike) -> Array:
    """The value at x, and NaN where x is: comparisons alone would turn it into a number."""
    return np.where(np.isnan(x), np.nan, value)[()]


def is_far(z: Array, law: SpectralLaw) -> Array:
    """Whether z lies beyond 8 times the radius of the law, where closed forms of m(z) cancel."""
    return np.abs(z) > 8 * max(map(abs, hull(law)))


def far_field(z: Array, law: SpectralLaw, near: Array) -> Array:
    """m(z): `near`, but far out the expansion at infinity, -sum_k E X^k / z^(k+1), 20 terms, exact there to rounding."""
    far = is_far(z, law)
    if not np.any(far):
        return near[()]
    reciprocal = 1 / np.where(far, z, np.inf)
    moments = [law.moment(k) for k in range(20)]
    return np.where(far, -reciprocal * np.polynomial.polynomial.polyval(reciprocal, moments), near)[()]


def positive(name: str, value: float) -> None:
    """Refuse a parameter that is not a finite positive number."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} {value}: must be a finite number > 0")

"""Laws that are computed by another law."""

from __future__ import annotations

from numpy.typing import ArrayLike

from rmt.laws.law import Array, SpectralLaw

__all__ = ["DelegatedLaw"]


class DelegatedLaw:
    """A law whose methods are those of `law`, a numerical law that its parameters make on first use."""

    @property
    def law(self) -> SpectralLaw:
        """The numerical law behind the methods."""
        raise NotImplementedError

    @property
    def validity(self) -> str:
        """Why the law should not be trusted here, or an empty string."""
        raise NotImplementedError

    @property
    def in_range(self) -> bool:
        """Whether the stated accuracy was measured for such sizes."""
        return not self.validity

    @property
    def support(self) -> Array:
        return self.law.support

    @property
    def atoms(self) -> Array:
        return self.law.atoms

    def density(self, x: ArrayLike) -> Array:
        return self.law.density(x)

    def cdf(self, x: ArrayLike) -> Array:
        return self.law.cdf(x)

    def quantile(self, p: ArrayLike) -> Array:
        return self.law.quantile(p)

    def stieltjes(self, z: ArrayLike) -> Array:
        return self.law.stieltjes(z)

    def moment(self, k: int) -> float:
        return self.law.moment(k)

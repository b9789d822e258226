"""R-, S- and rectangular R-transforms of a law: what free convolution adds, multiplies and adds again.

All three are the self-energy K(w) = w - 1/G(w), read at a real point w outside the law where another function has the
value asked for: R(g) = K(w) with G(w) = g, S(y) = 1/K(w) with psi(w) = y, and C(d) = psi(w) with D(w) = d.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.gaps import Side
from rmt.laws.law import Array, SpectralLaw, hull
from rmt.laws.self_energy import SelfEnergy, positive_factor


def r_transform(law: SpectralLaw, g: ArrayLike) -> Array:
    """R(g) = G^-1(g) - 1/g, real, for g between the values of G = E 1/(w - X) at the two ends of the law; else NaN.

    R(0) is the mean, R'(0) the variance: the generating function of free cumulants (Voiculescu 1986). R of a free sum
    is the sum of the R.

    >>> from rmt.laws import Semicircle
    >>> r_transform(Semicircle(2.0), [0.0, 0.1]).round(9)
    array([0. , 0.2])
    """
    k = SelfEnergy(law)
    return _read(k, g, at=lambda w: k.cauchy(w).real, of=lambda w: k(w).real, limit=k.mean)


def s_transform(law: SpectralLaw, y: ArrayLike) -> Array:
    """S(y) = (1 + y)/(y w), psi(w) = E X/(w - X) = y, for a law on [0, inf) and y > (mass at 0) - 1 up to psi at its top.

    S(0) = 1/mean. S of a free product is the product of the S (Voiculescu 1987). NaN out of range.

    >>> from rmt.laws import MarchenkoPastur
    >>> s_transform(MarchenkoPastur(ratio=1.0), [-0.5, 0.0, 0.25]).round(9)  # 1/(1 + ratio y)
    array([2. , 1. , 0.8])
    """
    k = positive_factor(law)
    return _read(k, y, at=lambda w: k.psi(w).real, of=lambda w: 1 / k(w).real, limit=1 / k.mean)


def rectangular_r_transform(law: SpectralLaw, d: ArrayLike, *, ratio: float) -> Array:
    """C(d) of the law of A A^T for A of shape n x m, ratio = n/m <= 1: adds under the rectangular free sum.

    C(d) = psi(w) where D(w) = (1 + psi)(1 + ratio psi)/w = d, for 0 <= d < D at the top of the law; else NaN. Gaussian
    noise of variance v per row has C(d) = v d (Benaych-Georges 2009, in the variable d = z of his definition).
    """
    k = positive_factor(law)
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio {ratio}: must be in (0, 1]")
    d = np.asarray(d, dtype=float)

    def product(w: Array) -> Array:
        psi = k.psi(w).real
        return (1 + psi) * (1 + ratio * psi) / w

    value = _read(k, d, at=product, of=lambda w: k.psi(w).real, limit=0.0, above=True)
    return np.where(d >= 0, value, np.nan)[()]


def _read(
    k: SelfEnergy,
    value: ArrayLike,
    *,
    at: Callable[[Array], Array],
    of: Callable[[Array], Array],
    limit: float,
    above: bool = False,
) -> Array:
    """of(w) at the real w outside the law (only above it, if so said) where at(w) is the value; `limit` at infinity."""
    value = np.asarray(value, dtype=float)
    flat = value.ravel()
    low, high = hull(k.law)
    side = Side(np.array([(high, low)]), at, max(k.spread, abs(low), abs(high)))
    if above:  # at is positive above the law; what the other side has is not asked for
        side = Side(np.array([(high, low)]), lambda w: np.where(w > high, at(w), -1.0), side.spread)
    w = side.find(np.where(flat == 0, np.nan, flat), np.zeros(flat.size, dtype=int))
    found = np.isfinite(w)
    with np.errstate(all="ignore"):
        out = np.where(found, of(np.where(found, w, 2 * side.spread + high)), np.nan)
    return np.where(flat == 0, limit, out).reshape(value.shape)[()]

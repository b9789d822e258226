"""Outliers: where a low-rank change of a large random matrix leaves the bulk, and how much of it the vector shows.

The transition of Baik, Ben Arous and Peche (2005) for any bulk (Benaych-Georges and Nadakuditi 2011, 2012): a spike
detaches when it exceeds a threshold set by a transform at the edge of the bulk; below it the extreme value stays at the
edge and its vector forgets the spike. Limits; at size n the locations fluctuate by n^(-1/2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rmt.laws.gaps import Side, side
from rmt.laws.law import Array, SpectralLaw, hull
from rmt.laws.self_energy import SelfEnergy, positive_factor


@dataclass(frozen=True)
class Outlier:
    """A value outside the bulk; `overlap`, the squared inner product of its unit vector with that of the spike."""

    location: float
    overlap: float


@dataclass(frozen=True)
class SingularOutlier:
    """A singular value above the bulk, and the squared inner products of its left and right vectors with the spike's."""

    location: float
    left_overlap: float
    right_overlap: float


def additive_thresholds(law: SpectralLaw) -> tuple[float, float]:
    """(negative, positive): a spike size u u^T detaches from A (of this law) below the first or above the second.

    1/G at the lower and the upper end, G(w) = E 1/(w - X). 0 at an end where G is infinite. Semicircle: +- sqrt variance.
    """
    low, high = hull(law)
    with np.errstate(divide="ignore", invalid="ignore"):
        below, above = -law.stieltjes(np.array([low, high])).real
        return float(np.nan_to_num(1 / below)), float(np.nan_to_num(1 / above))


def additive_outliers(law: SpectralLaw, size: float) -> list[Outlier]:
    """Eigenvalues of A + size u u^T outside the law of A, ascending: G(location) = 1/size, in inner gaps too.

    Overlap -1/(size^2 G'(location)) = 1/(size^2 E (location - X)^-2). An empty list below the thresholds.

    >>> from rmt.laws import Semicircle
    >>> [round(x.location, 9) for x in additive_outliers(Semicircle(1.0), 2.0)]  # size + variance/size
    [2.5]
    """
    if not (np.isfinite(size) and size != 0):
        raise ValueError(f"size {size}: must be a finite number other than 0")
    k = SelfEnergy(law)
    found = _solve(side(law, lambda w: k.cauchy(w).real, spread=k.spread), 1 / size)
    return [Outlier(w, -1 / (size**2 * _slope(k.cauchy, w, reach))) for w, reach in found]


def multiplicative_thresholds(law: SpectralLaw) -> tuple[float, float]:
    """(negative, positive): 1 + size u u^T around a law on [0, inf) detaches for size below the first or above the second.

    1/psi at the ends, psi(w) = E X/(w - X). Marchenko-Pastur of ratio c < 1: -+ sqrt c.
    """
    k = positive_factor(law)
    low, high = hull(law)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = 1 / k.psi(low).real if low > 0 else -1.0
        return max(float(np.nan_to_num(below)), -1.0), float(np.nan_to_num(1 / k.psi(high).real))


def multiplicative_outliers(law: SpectralLaw, size: float) -> list[Outlier]:
    """Eigenvalues of Q A Q, Q^2 = 1 + size u u^T, outside the law of A >= 0: psi(location) = 1/size; size > -1.

    A sample covariance with one population eigenvalue 1 + size. Overlap -(1 + size)/(size^2 location psi'(location))
    (derived from (A - w) b = -w size/(1 + size) u for b = Q v; Marchenko-Pastur: (1 - c/size^2)/(1 + c/size)).
    """
    if not (np.isfinite(size) and size > -1 and size != 0):
        raise ValueError(f"size {size}: must be a finite number > -1 other than 0")
    k = positive_factor(law)
    found = _solve(side(law, lambda w: k.psi(w).real, spread=hull(law)[1]), 1 / size)
    return [Outlier(w, -(1 + size) / (size**2 * w * _slope(k.psi, w, reach))) for w, reach in found if w > 0]


def singular_threshold(law: SpectralLaw, *, ratio: float) -> float:
    """The least size of a spike size u v^T that shows above A (n x m, ratio = n/m <= 1); law: of A A^T.

    D^(-1/2) at the top, D(w) = (1 + psi)(1 + ratio psi)/w. Noise of variance v per row: ratio^(1/4) sqrt v.
    """
    top = hull(law)[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nan_to_num(_product(positive_factor(law), ratio)(np.array(top)).real ** -0.5))


def singular_outlier(law: SpectralLaw, size: float, *, ratio: float) -> SingularOutlier | None:
    """The singular value of A + size u v^T above the bulk, or None below the threshold; law: of A A^T, ratio <= 1.

    D(location^2) = 1/size^2; overlaps -(1 + psi)/(w size^2 D'(w)) left, -(1 + ratio psi)/(w size^2 D'(w)) right, at
    w = location^2 (Benaych-Georges and Nadakuditi 2012, Theorem 2.8).
    """
    if not (np.isfinite(size) and size > 0):
        raise ValueError(f"size {size}: must be a finite number > 0")
    k = positive_factor(law)
    if size <= singular_threshold(law, ratio=ratio):
        return None
    top = hull(law)[1]
    product = _product(k, ratio)
    outer = Side(np.array([(top, 0.0)]), lambda w: np.where(w > top, product(w).real, -1.0), top)
    w = float(outer.find(np.array([size**-2.0]), np.array([0]))[0])
    psi, slope = float(k.psi(w).real), _slope(product, w, w - top)
    unit = -1 / (w * size**2 * slope)
    return SingularOutlier(float(np.sqrt(w)), (1 + psi) * unit, (1 + ratio * psi) * unit)


def _product(k: SelfEnergy, ratio: float) -> Callable[[Array], Array]:
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio {ratio}: must be in (0, 1]")

    def product(w: Array) -> Array:
        psi = k.psi(w)
        return (1 + psi) * (1 + ratio * psi) / w

    return product


def _solve(factor: Side, value: float) -> list[tuple[float, float]]:
    """(point, distance to the end of its gap) wherever the function of the side has the value, ascending."""
    count = len(factor.gaps)
    points = factor.find(np.full(count, value), np.arange(count))
    ends = factor.gaps.ravel()
    return sorted((float(w), float(np.abs(ends - w).min())) for w in points if np.isfinite(w))


def _slope(f: Callable[[Array], Array], w: float, reach: float) -> float:
    """f'(w) by Cauchy's formula on a circle of half the reach, upper half only: f is real on the axis. 1e-13."""
    points = 64
    unit = np.exp(1j * np.pi * (np.arange(points // 2) + 0.5) / (points // 2))
    radius = reach / 2
    return float(np.mean((f(w + radius * unit) / unit).real) / radius)

"""Quantiles of any law by inverting its cdf, and samples by inverting uniform numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.law import Array, SpectralLaw, hull


def quantile_from_cdf(law: SpectralLaw, p: ArrayLike) -> Array:
    """The least x with law.cdf(x) >= p, to rounding of x or of the cdf; NaN for p outside [0, 1].

    Bracketed root finding inside the hull of the law. On an atom the answer is its location exactly; a p that is
    exactly the mass to the left of a gap gives the left end of the gap.
    """
    from scipy.optimize import elementwise  # here: it is slow to import and most users of a law never need it

    p = np.asarray(p, dtype=float)
    low, high = hull(law)
    flat = np.clip(np.nan_to_num(p.ravel(), nan=0.5), 0.0, 1.0)
    x = np.where(flat <= 0, low, high)
    inner = (flat > 0) & (flat < law.cdf(high))
    if inner.any():
        target = flat[inner]
        below = law.cdf(low) >= target
        root = elementwise.find_root(
            lambda x, t: law.cdf(x) - t, (np.full(target.shape, low), np.full(target.shape, high)), args=(target,)
        )
        x[inner] = np.where(below, low, root.x)
    for start, stop in zip(law.support[:-1, 1], law.support[1:, 0], strict=True):
        x[(x > start) & (x < stop) & (flat <= law.cdf(start) + 4e-16)] = start
    for location, mass in law.atoms:
        reached = float(law.cdf(location))
        x[(flat > reached - mass) & (flat <= reached)] = location
    x = np.where((p.ravel() >= 0) & (p.ravel() <= 1), x, np.nan)
    return x.reshape(p.shape)[()]


def sample_by_inversion(law: Any, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
    """Independent draws from a law. Eigenvalues of one matrix repel each other: these are not such a spectrum."""
    return law.quantile(rng.random(size))

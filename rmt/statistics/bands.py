"""Simultaneous bands for the cdf of a spectrum: one statement about every x at once, with the matrix as the unit.

Null spectra give the scatter of an empirical cdf at each x and the law of the largest standardised deviation over all x;
its quantile is the half-width, in standard deviations, of a band that a whole cdf leaves with a stated probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rmt.statistics.distances import ordered
from rmt.statistics.goodness import NullSpectra, empirical_cdf

Array = Any


@dataclass(frozen=True, eq=False)
class Band:
    """lower and upper (k,) at the points x (k,): the whole curve lies between them with probability `confidence`."""

    x: Array
    lower: Array
    upper: Array
    confidence: float

    def holds(self, curve: ArrayLike) -> bool:
        """Whether a cdf given at the points x lies in the band everywhere."""
        values = np.asarray(curve, dtype=float)
        slack = 1e-12
        return bool(np.all((self.lower - slack <= values) & (values <= self.upper + slack)))


def prediction_band(null: NullSpectra, *, confidence: float = 0.95) -> Band:
    """Where the empirical cdf of one more spectrum lies if the hypothesis is true.

    Coverage is `confidence` up to 1/(m + 1) for m null spectra (split: the centre and scatter are those of the null
    spectra themselves, an error of order 1/m).
    """
    half = _half_width(null, confidence)
    centre = null.cdfs.mean(0)
    return _band(null, centre - half, centre + half, confidence)


def confidence_band(null: NullSpectra, spectrum: ArrayLike, *, confidence: float = 0.95) -> Band:
    """Which laws a spectrum is compatible with: every cdf from which it deviates no more than null spectra from theirs.

    It assumes that deviations scatter as under the null and carry its finite-size bias, mean(F_k) - F; so it is a band
    for laws near the hypothesis. `null.law.cdf(band.x)` lies in it with probability `confidence` under the hypothesis.
    """
    values = ordered(np.ravel(spectrum))
    if values.size != null.size:
        raise ValueError(f"the spectrum has {values.size} values, the null spectra {null.size}; they must agree")
    bias = null.cdfs.mean(0) - np.asarray(null.law.cdf(null.grid), dtype=float)
    centre = empirical_cdf(values, null.grid) - bias
    half = _half_width(null, confidence)
    return _band(null, centre - half, centre + half, confidence)


def _half_width(null: NullSpectra, confidence: float) -> Array:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1; give e.g. 0.95")
    centre, scatter = null.cdfs.mean(0), null.cdfs.std(0, ddof=1)
    moving = scatter > 0
    if not moving.any():
        return scatter
    largest = np.max(np.abs(null.cdfs - centre)[:, moving] / scatter[moving], axis=1)
    return np.quantile(largest, confidence, method="higher") * scatter


def _band(null: NullSpectra, lower: Array, upper: Array, confidence: float) -> Band:
    return Band(null.grid, np.clip(lower, 0, 1), np.clip(upper, 0, 1), confidence)

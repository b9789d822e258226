"""Goodness of fit of a spectrum to a law, with p-values from matrices and not from eigenvalues.

Eigenvalues of one matrix repel: their empirical cdf scatters by about sqrt(log k)/k, not by 1/sqrt(k), so a Kolmogorov
p-value for independent values is never small, whatever the law (measured, 400 x 400 symmetric Gaussian: a 2 % error of
scale gets p > .99999). Here the matrix is the unit. A sampler draws spectra under the hypothesis, at the same size and by
the same code path as the measured one; every statistic of the measured spectrum is ranked among theirs.

Exactness. With m null spectra the m + 1 spectra are exchangeable under the hypothesis, every statistic below treats them
alike (centres and covariances are taken over all m + 1), and p = (number of spectra at least as extreme)/(m + 1). Hence
P(p <= a) <= a for every a and every size, with equality at multiples of 1/(m + 1) when no ties occur. What differs between a
finite matrix and its limit law is part of the null spectra too and costs no validity.

    null = NullSpectra.sample(Semicircle(), lambda m: symmetric_gaussian_spectra(stream(1), m, 400))
    null.test(eigenvalues).p_values["linear"]

Several draws are tested at once by pooling: then each null "spectrum" pools as many matrices.

Measured power at level .05, 400 x 400 symmetric Gaussian against the semicircle, 999 null spectra, 2000 draws:

    error of scale   kolmogorov  wasserstein  linear  upper_edge  lower_edge  combined
         0               .061        .056      .052      .048        .059       .065
        +1 %             .59         .89       .94       .12         .13        .89
        -1 %             .40         .67       .95       .16         .18        .89
        +2 %             .999       1.00      1.00       .36         .37       1.00
        -2 %             .994       1.00      1.00       .46         .48       1.00
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rmt.statistics.distances import (
    Law,
    cell_quantiles,
    distance_to_cells,
    kolmogorov,
    ordered,
    smooth_components,
)

Array = Any
GRID = 256  # points at which empirical cdfs are kept for the bands
DEGREE = 2  # smooth components in the linear test: shift and scale


@dataclass(frozen=True)
class GoodnessOfFit:
    """What a test of one spectrum (or of several draws, pooled) against a law says.

    statistics: "kolmogorov" and "wasserstein" distances to the law, "linear" (squared Mahalanobis distance of the smooth
        components), "upper_edge" and "lower_edge" (largest and smallest value).
    p_values: of each, by name, two-sided for the edges. combined: of the least of them, ranked in the same way, so that
        testing five times costs nothing in validity.
    spectra: how many null spectra; no p-value can be below 1/(spectra + 1).
    """

    statistics: dict[str, float]
    p_values: dict[str, float]
    combined: float
    spectra: int


@dataclass(frozen=True, eq=False)
class NullSpectra:
    """Spectra drawn under the hypothesis, reduced to what the tests and bands need.

    law: the law they are compared with; size: values per (pooled) spectrum; cells (size, 4): its quantiles; kolmogorov,
    wasserstein, largest, smallest (m,); components (m, DEGREE); grid (GRID,) points x; cdfs (m, GRID) empirical cdfs.
    """

    law: Law
    size: int
    cells: Array
    kolmogorov: Array
    wasserstein: Array
    components: Array
    largest: Array
    smallest: Array
    grid: Array
    cdfs: Array

    @classmethod
    def from_spectra(cls, law: Law, spectra: ArrayLike) -> NullSpectra:
        """From an array (m, ...) of m >= 19 null spectra; axes beyond the first are pooled."""
        pooled = np.asarray(spectra, dtype=float)
        if pooled.ndim < 2 or len(pooled) < 19:
            raise ValueError(f"null spectra of shape {pooled.shape}: a test at level .05 needs at least 19 of them")
        values = ordered(pooled.reshape(len(pooled), -1))
        cells = cell_quantiles(law, values.shape[1])
        grid = np.asarray(law.quantile((np.arange(GRID) + 0.5) / GRID), dtype=float)
        return cls(
            law=law,
            size=values.shape[1],
            cells=cells,
            kolmogorov=kolmogorov(values, law),
            wasserstein=distance_to_cells(values, cells),
            components=smooth_components(values, law, degree=DEGREE),
            largest=values[:, -1],
            smallest=values[:, 0],
            grid=grid,
            cdfs=np.array([empirical_cdf(row, grid) for row in values]),
        )

    @classmethod
    def sample(cls, law: Law, null: Callable[[int], ArrayLike], *, spectra: int = 999) -> NullSpectra:
        """From a sampler: null(m) -> array (m, ...) of m independent spectra under the hypothesis."""
        drawn = np.asarray(null(spectra), dtype=float)
        if drawn.ndim < 2 or len(drawn) != spectra:
            raise ValueError(f"the null sampler gave shape {drawn.shape}; asked were {spectra} spectra (m, ...)")
        return cls.from_spectra(law, drawn)

    @property
    def spectra(self) -> int:
        """How many there are."""
        return len(self.largest)

    def test(self, spectrum: ArrayLike) -> GoodnessOfFit:
        """Rank a spectrum of `size` values (any shape; draws are pooled) among these."""
        values = ordered(np.ravel(spectrum))
        if values.size != self.size:
            raise ValueError(
                f"the spectrum has {values.size} values, the null spectra {self.size}; draw them at the same size and "
                "pool as many draws"
            )
        own = {
            "kolmogorov": float(kolmogorov(values, self.law)),
            "wasserstein": float(distance_to_cells(values, self.cells)),
            "upper_edge": float(values[-1]),
            "lower_edge": float(values[0]),
        }
        components = np.vstack([self.components, smooth_components(values, self.law, degree=DEGREE)])
        linear = _mahalanobis(components)
        ranked = {
            "kolmogorov": _upper(np.append(self.kolmogorov, own["kolmogorov"])),
            "wasserstein": _upper(np.append(self.wasserstein, own["wasserstein"])),
            "linear": _upper(linear),
            "upper_edge": _both(np.append(self.largest, own["upper_edge"])),
            "lower_edge": _both(np.append(self.smallest, own["lower_edge"])),
        }
        least = np.min(list(ranked.values()), axis=0)
        return GoodnessOfFit(
            statistics={"kolmogorov": own["kolmogorov"], "wasserstein": own["wasserstein"], "linear": float(linear[-1])}
            | {name: own[name] for name in ("upper_edge", "lower_edge")},
            p_values={name: float(p[-1]) for name, p in ranked.items()},
            combined=float(_upper(-least)[-1]),
            spectra=self.spectra,
        )


def empirical_cdf(values: Array, grid: Array) -> Array:
    """The share of ascending values (k,) that do not exceed each grid point."""
    return np.searchsorted(values, grid, side="right") / len(values)


def _upper(statistic: Array) -> Array:
    """p-value of every entry (m + 1,) among all of them, large being extreme; ties count as extreme."""
    return 1 - np.searchsorted(np.sort(statistic), statistic, side="left") / len(statistic)


def _both(statistic: Array) -> Array:
    """Two-sided p-value of every entry: twice the smaller side."""
    return np.minimum(2 * np.minimum(_upper(statistic), _upper(-statistic)), 1.0)


def _mahalanobis(components: Array) -> Array:
    """Squared distance of every row (m + 1, degree) from the mean of all, in units of their covariance."""
    away = components - components.mean(0)
    return np.sum(away * np.linalg.lstsq(np.cov(away.T), away.T, rcond=None)[0].T, axis=1)

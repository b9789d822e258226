"""Claims: statements over a whole sweep, judged by a fit with its interval and a lack-of-fit check."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special

from rmt.statistics.estimate import Estimate, Statistic

LACK_OF_FIT_LEVEL = 1e-3
SMALLEST_MISFIT = 0.005  # relative: a curve that misses by less is a good enough description, however many draws say so


@dataclasses.dataclass(frozen=True)
class Claim:
    """A rival law, a paper's claim or an exponent; the fields are those of the JSON document.

    expected: the verdict we expect, "supported" or "contradicted"; None where we expect neither.
    """

    claim: str
    along: str
    predicted: float | None
    measured: float | None
    interval: tuple[float, float] | None
    expected: str | None
    verdict: str
    source: str
    detail: str


@dataclasses.dataclass(frozen=True)
class Points:
    """Estimates along a sweep: x (k,), values y (k,), their standard errors with the smallest misfit added, draws."""

    x: np.ndarray
    y: np.ndarray
    error: np.ndarray
    degrees: int

    @classmethod
    def from_draws(cls, x: Sequence[float], draws: Sequence[Any], statistic: Statistic) -> Points | None:
        """Points from one array of draws per x; None unless there are two x with two finite draws each."""
        kept = []
        for at, values in zip(x, draws, strict=True):
            estimate = Estimate.from_draws(values, statistic)
            if estimate.stderr is not None and estimate.value is not None:
                kept.append((float(at), estimate.value, estimate.stderr, estimate.draws - estimate.undefined))
        if len({at for at, *_ in kept}) < 2:
            return None
        columns = np.array(sorted(kept)).T
        error = np.hypot(columns[2], SMALLEST_MISFIT * np.abs(columns[1]))
        return cls(columns[0], columns[1], error, int(columns[3].sum()) - len(kept))


def exponent_claim(
    claim: str,
    x: Sequence[float],
    draws: Sequence[Any],
    *,
    predicted: float,
    tolerance: float,
    along: str = "n",
    expected: str | None = None,
    statistic: Statistic = "median",
    source: str,
) -> Claim:
    """Judge y ~ x^predicted by a weighted straight line in log-log.

    Each point has its standard error and a misfit of 0.5 % (the smallest that matters), and the interval of the slope is
    widened by the lack of fit. Supported: the 95 % interval lies within `tolerance` of `predicted` and the line fits.
    Contradicted: it lies wholly outside, or the line does not fit at level 1e-3 and the slope between the last two sizes
    is outside too. Undecided otherwise, and with fewer than 3 sizes.
    """
    points = Points.from_draws(x, draws, statistic)
    if points is None or points.x.size < 3 or np.any(points.y <= 0):
        return _open(
            claim, along, predicted, expected, source, "needs at least 3 sizes with 2 draws and positive values"
        )
    logs, error = np.log(points.y), points.error / points.y
    design = np.stack([np.ones_like(points.x), np.log(points.x)], axis=1) / error[:, None]
    (_, slope), *_ = np.linalg.lstsq(design, logs / error, rcond=None)
    residual = logs / error - design @ np.linalg.lstsq(design, logs / error, rcond=None)[0]
    freedom = points.x.size - 2
    chi2 = float(residual @ residual)
    fit = float(scipy.special.chdtrc(freedom, chi2))
    spread = math.sqrt(np.linalg.inv(design.T @ design)[1, 1] * max(1.0, chi2 / freedom))
    half = _t(freedom if chi2 > freedom else points.degrees) * spread
    bounds = (slope - half, slope + half)
    last = float((logs[-1] - logs[-2]) / (math.log(points.x[-1]) - math.log(points.x[-2])))
    near = (predicted - tolerance, predicted + tolerance)
    good = fit >= LACK_OF_FIT_LEVEL
    if good and near[0] <= bounds[0] and bounds[1] <= near[1]:
        verdict = "supported"
    elif (bounds[1] < near[0] or near[1] < bounds[0]) and (good or not near[0] <= last <= near[1]):
        verdict = "contradicted"
    else:
        verdict = "undecided"
    detail = f"slope over {points.x.size} sizes, between the last two {last:.3f}; lack of fit p = {fit:.2g}"
    detail += f"; tolerance {tolerance:g}"
    return Claim(claim, along, predicted, float(slope), bounds, expected, verdict, source, detail)


def limit_claim(
    claim: str,
    x: Sequence[float],
    draws: Sequence[Any],
    *,
    predicted: float,
    tolerance: float,
    along: str = "n",
    expected: str | None = None,
    statistic: Statistic = "median",
    source: str,
    decay: tuple[float, float] = (0.25, 1.5),
) -> Claim:
    """Judge y -> predicted by the fit y = a + b x^-c, c within `decay`.

    The interval of a is a profile of chi^2 at 95 % (F quantile, widened by the lack of fit), so it holds whatever b and c
    are. Supported: it lies within the relative `tolerance` of `predicted` and the curve fits at level 1e-3. Contradicted:
    it lies wholly outside. Undecided otherwise, and with fewer than 5 sizes.
    """
    points = Points.from_draws(x, draws, statistic)
    if points is None or points.x.size < 5:
        return _open(claim, along, predicted, expected, source, "needs at least 5 sizes with 2 draws")
    rates = np.linspace(*decay, 126)
    scale = points.x.min()

    def chi2(a: float) -> float:
        """The best chi^2 over b and c, a given."""
        basis = (points.x[None, :] / scale) ** -rates[:, None] / points.error
        target = (points.y - a) / points.error
        b = basis @ target / np.sum(basis**2, axis=1)
        return float(np.min(np.sum((target - b[:, None] * basis) ** 2, axis=1)))

    span = float(np.ptp(points.y)) + float(points.error.max())
    grid = np.linspace(points.y.min() - 2 * span, points.y.max() + 2 * span, 401)
    start = grid[int(np.argmin([chi2(a) for a in grid]))]
    step = grid[1] - grid[0]
    best = scipy.optimize.minimize_scalar(chi2, bounds=(start - step, start + step), method="bounded").x
    least = chi2(best)
    freedom = points.x.size - 3
    fit = float(scipy.special.chdtrc(freedom, least))
    inflated = least > freedom
    cut = least + _t(freedom if inflated else points.degrees) ** 2 * max(1.0, least / freedom)
    bounds = tuple(_crossing(chi2, cut, float(best), direction * step) for direction in (-1, 1))
    near = sorted((predicted * (1 - tolerance), predicted * (1 + tolerance)))
    if fit >= LACK_OF_FIT_LEVEL and near[0] <= bounds[0] and bounds[1] <= near[1]:
        verdict = "supported"
    elif bounds[1] < near[0] or near[1] < bounds[0]:
        verdict = "contradicted"
    else:
        verdict = "undecided"
    detail = (
        f"limit of a + b {along}^-c over {points.x.size} sizes; lack of fit p = {fit:.2g}; tolerance {tolerance:.0%}"
    )
    return Claim(claim, along, predicted, float(best), (bounds[0], bounds[1]), expected, verdict, source, detail)


def _crossing(function: Any, cut: float, best: float, step: float) -> float:
    """Where the profile crosses the cut on one side; the end of the search if it never does."""
    inside = best
    for _ in range(40):
        outside = inside + step
        if function(outside) > cut:
            return float(scipy.optimize.brentq(lambda a: function(a) - cut, inside, outside, xtol=abs(step) * 1e-4))
        inside, step = outside, 1.6 * step
    return inside


def _t(degrees: int) -> float:
    return float(scipy.special.stdtrit(max(degrees, 1), 0.975))


def _open(claim: str, along: str, predicted: float, expected: str | None, source: str, why: str) -> Claim:
    return Claim(claim, along, predicted, None, None, expected, "undecided", source, why)

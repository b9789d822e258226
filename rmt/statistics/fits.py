"""Fits of a sweep: a power law, a decay with its next term, and a limit with its rate.

Each has intervals at any level and a lack-of-fit test.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import special

from rmt.statistics.points import Points

LACK_OF_FIT_LEVEL = 1e-3
RATES = 1200


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted number: value, its interval at 95 % and at the level of contradiction, and the lack of fit of the curve.

    lack_of_fit: probability of a chi^2 this large (F distribution: the errors are estimated) if the curve is right. The
        errors hold the smallest misfit that matters, so small values mean a misfit that matters.
    """

    value: float
    inner: tuple[float, float]
    wide: tuple[float, float]
    lack_of_fit: float
    note: str = ""

    @property
    def fits(self) -> bool:
        """Whether the curve describes the points, at level 1e-3."""
        return self.lack_of_fit >= LACK_OF_FIT_LEVEL


def fit_slope(points: Points, *, level: float) -> Fit:
    """Slope of log y against log x, at least 3 sizes, y > 0.

    Weighted straight line, intervals from Student's t. If the line does not fit, a parabola takes its place and the
    intervals hold its slopes at both ends of the sweep: an exponent that drifts has no single value, but it may drift
    outside any tolerance.
    """
    logs, error = np.log(points.y), points.error / points.y
    place = np.log(points.x / np.sqrt(points.x[0] * points.x[-1]))
    line, covariance, misfit = _least_squares(place, logs, error, 1)
    slope, spread = line[1], np.sqrt(covariance[1, 1])
    lack = _lack_of_fit(misfit, points.x.size - 2, points.degrees)
    if lack >= LACK_OF_FIT_LEVEL:
        ends = [(slope, spread)]
        note = ""
    else:
        curve, covariance, _ = _least_squares(place, logs, error, 2)
        gradients = [np.array([0.0, 1.0, 2 * at]) for at in (place[0], place[-1])]
        ends = [(g @ curve, np.sqrt(g @ covariance @ g)) for g in gradients]
        slope = curve[1]
        note = f"slope {ends[0][0]:.3f} at the first and {ends[1][0]:.3f} at the last size"
    inner, wide = (
        (min(s - q * e for s, e in ends), max(s + q * e for s, e in ends))
        for q in (-special.stdtrit(points.degrees, tail / 2) for tail in (0.05, level))
    )
    return Fit(float(slope), _floats(inner), _floats(wide), lack, note)


def fit_decay(points: Points, *, correction: float | None, level: float) -> Fit:
    """Exponent c of y = b x^-c exp(g x^-correction), at least 5 sizes, y > 0; without a correction y = b x^-c.

    The exponential is the next term of the decay, 1 + g x^-correction, written so that the fit is linear in ln b, c and
    g: weighted, intervals from Student's t. They hold the exponent of the leading term, not the slope at these sizes.
    """
    logs, error = np.log(points.y), points.error / points.y
    place = points.x / points.x[0]
    columns = [np.ones_like(place), -np.log(place)] + ([place**-correction] if correction else [])
    coefficients, covariance, misfit = _weighted(np.stack(columns, axis=1), logs, error)
    value, spread = float(coefficients[1]), math.sqrt(covariance[1, 1])
    lack = _lack_of_fit(misfit, points.x.size - len(columns), points.degrees)
    inner, wide = (-float(special.stdtrit(points.degrees, tail / 2)) * spread for tail in (0.05, level))
    return Fit(value, (value - inner, value + inner), (value - wide, value + wide), lack)


def fit_limit(points: Points, *, decay: tuple[float, float], level: float) -> Fit:
    """Limit a of y = a + b x^-c with c anywhere in `decay`, at least 5 sizes.

    The interval is the profile {a: min over b, c of chi^2(a) - min chi^2 <= quantile of F(1, degrees)}, so it holds
    whatever b and c are: at each c of a fine grid chi^2 is a parabola in a, known in closed form, and the interval is
    the union of their level sets. If the curve does not fit, the cut is raised in proportion to chi^2.
    """
    rates = np.linspace(*decay, RATES)
    basis = (points.x[None, :] / points.x[0]) ** -rates[:, None]
    w = points.error**-2.0
    s, p, pp = w.sum(), basis @ w, basis**2 @ w
    y, py = w @ points.y, basis @ (w * points.y)
    determinant = s * pp - p * p
    centre = (pp * y - p * py) / determinant
    slope = (s * py - p * y) / determinant
    variance = pp / determinant
    residual = points.y - centre[:, None] - slope[:, None] * basis
    misfit = residual**2 @ w
    best = int(np.argmin(misfit))
    freedom = points.x.size - 3
    lack = _lack_of_fit(float(misfit[best]), freedom, points.degrees)
    fits = lack >= LACK_OF_FIT_LEVEL
    raised = 1.0 if fits else misfit[best] / freedom

    def ends(tail: float) -> tuple[float, float]:
        cut = special.stdtrit(points.degrees if fits else freedom, tail / 2) ** 2 * raised
        room = cut - (misfit - misfit[best])
        reach = np.sqrt(variance * np.maximum(room, 0))[room >= 0]
        return float(np.min(centre[room >= 0] - reach)), float(np.max(centre[room >= 0] + reach))

    note = f"b = {slope[best] * points.x[0] ** rates[best]:.3g}, c = {rates[best]:.2f}"
    return Fit(float(centre[best]), ends(0.05), ends(level), lack, note)


def _least_squares(
    place: np.ndarray, logs: np.ndarray, error: np.ndarray, order: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients from the constant up, their covariance and chi^2 of a weighted polynomial fit."""
    return _weighted(place[:, None] ** np.arange(order + 1), logs, error)


def _weighted(design: np.ndarray, logs: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients of the columns of `design`, their covariance and chi^2 of a weighted linear fit."""
    design = design / error[:, None]
    coefficients = np.linalg.lstsq(design, logs / error, rcond=None)[0]
    return (
        coefficients,
        np.linalg.inv(design.T @ design),
        float(np.sum((logs / error - design @ coefficients) ** 2)),
    )


def _lack_of_fit(misfit: float, freedom: int, degrees: int) -> float:
    return float(special.fdtrc(freedom, degrees, misfit / freedom)) if freedom > 0 else 1.0


def _floats(pair: tuple) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])

"""Claims: statements over a whole sweep, judged by a fit with its interval and a lack-of-fit check.

Supported: the 95 % interval lies within the tolerance and the curve fits. Contradicted: the interval at level 1e-3
lies wholly outside the tolerance. Undecided otherwise, and where the sweep is too short. Every builder takes one
array of draws (or one `Estimate`) for each size; spreads and the smallest misfit that matters are those of
`rmt.statistics.points`, the fits those of `rmt.statistics.fits`. Claims on two samples at one point are in
`rmt.statistics.contrasts`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy import special

from rmt.statistics.compare import decide
from rmt.statistics.estimate import Estimate, Statistic
from rmt.statistics.fits import Fit, fit_decay, fit_limit, fit_slope
from rmt.statistics.points import SMALLEST_MISFIT, Points, points
from rmt.theorems.prediction import Limit

CONTRADICTION_LEVEL = 1e-3
Side = Literal["upper", "lower"]


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

    def __post_init__(self) -> None:
        if self.expected not in (None, "supported", "contradicted"):
            raise ValueError(f"expected {self.expected!r} is no verdict to expect; say 'supported' or 'contradicted'")

    @property
    def surprising(self) -> bool:
        """Whether it was decided against what we expect."""
        return self.expected is not None and self.verdict in {"supported", "contradicted"} - {self.expected}


def exponent_claim(
    claim: str,
    x: Sequence[float],
    draws: Sequence[Any],
    *,
    predicted: float,
    tolerance: float,
    source: str,
    along: str = "n",
    expected: str | None = None,
    statistic: Statistic = "median",
    misfit: float = SMALLEST_MISFIT,
) -> Claim:
    """Judge y ~ x^predicted within an absolute `tolerance` of the exponent; at least 3 sizes, positive values.

    Where no straight line fits in log-log, the slopes of a parabola at both ends of the sweep are judged instead.
    """
    found = points(x, draws, statistic, misfit=misfit)
    problem = _problem(found, 3, positive=True)
    fit = None if isinstance(found, str) or problem else fit_slope(found, level=CONTRADICTION_LEVEL)
    band = (predicted - tolerance, predicted + tolerance)
    said = f"slope in log-log over {len(x)} sizes, tolerance {tolerance:g}"
    return _from_fit(
        Claim(claim, along, predicted, None, None, expected, "undecided", source, said), fit, problem, band
    )


def limit_claim(
    claim: str,
    x: Sequence[float],
    draws: Sequence[Any],
    *,
    predicted: float,
    tolerance: float,
    source: str,
    along: str = "n",
    expected: str | None = None,
    statistic: Statistic = "median",
    decay: tuple[float, float] = (0.25, 1.5),
    misfit: float = SMALLEST_MISFIT,
) -> Claim:
    """Judge y -> predicted, within a relative `tolerance`, by the fit y = a + b x^-c, c in `decay`; at least 5 sizes."""
    if not 0 < decay[0] < decay[1]:
        raise ValueError(f"decay = {decay}: the range of c is positive and ascending, e.g. (0.25, 1.5)")
    found = points(x, draws, statistic, misfit=misfit)
    problem = _problem(found, 5)
    fit = None if isinstance(found, str) or problem else fit_limit(found, decay=decay, level=CONTRADICTION_LEVEL)
    said = (
        f"limit a of a + b {along}^-c over {len(x)} sizes, c in {decay[0]:g}..{decay[1]:g}, tolerance {tolerance:.0%}"
    )
    blank = Claim(claim, along, predicted, None, None, expected, "undecided", source, said)
    return _from_fit(blank, fit, problem, around(predicted, tolerance))


def decay_claim(
    claim: str,
    x: Sequence[float],
    draws: Sequence[Any],
    *,
    limit: Limit,
    tolerance: float = 0.15,
    expected: str | None = None,
    misfit: float = 0.02,
) -> Claim:
    """Judge |statistic - value| ~ x^-exponent, as a limit states it, within an absolute `tolerance` of the exponent.

    At least 5 sizes, at each of which the deviation is three of its errors or more, all on one side of the value.
    `misfit` is relative to the deviation: what terms beyond the stated correction may still add to it.
    """
    blank = Claim(claim, limit.along, limit.exponent, None, None, expected, "undecided", limit.source, "")
    if limit.value is None or limit.exponent is None:
        return dataclasses.replace(blank, detail="the limit has no value or states no rate")
    away = [np.asarray(one, dtype=float).ravel() - limit.value for one in draws]
    side = 1 if sum(float(np.mean(one)) for one in away if one.size) > 0 else -1
    found = points(x, [side * one for one in away], limit.statistic, misfit=misfit)
    problem = _problem(found, 5)
    if isinstance(found, str) or problem:
        return dataclasses.replace(blank, detail=problem)
    unseen = found.x[found.y < 3 * found.error]
    if unseen.size:
        return dataclasses.replace(blank, detail=f"deviation at {limit.along} = {unseen[0]:g} below three errors")
    fit = fit_decay(found, correction=limit.correction, level=CONTRADICTION_LEVEL)
    detail = f"decay of the deviation from {limit.value:g} over {len(x)} sizes, tolerance {tolerance:g}"
    band = (limit.exponent - tolerance, limit.exponent + tolerance)
    return _from_fit(dataclasses.replace(blank, detail=detail), fit, "", band)


def constant_claim(
    claim: str,
    x: Sequence[float],
    draws: Sequence[Any],
    *,
    tolerance: float,
    source: str,
    predicted: float | None = None,
    along: str = "n",
    expected: str | None = None,
    statistic: Statistic = "median",
    misfit: float = SMALLEST_MISFIT,
) -> Claim:
    """Judge "independent of x": every size within a relative `tolerance` of `predicted`, or of their weighted mean.

    `measured` is the weighted mean. The intervals of the k deviations share the levels (Bonferroni); the measured
    interval is that of the mean.
    """
    if predicted == 0:
        raise ValueError("predicted = 0: a relative tolerance needs a value other than 0; shift the quantity")
    found = points(x, draws, statistic, misfit=misfit)
    problem = _problem(found, 2)
    blank = Claim(claim, along, predicted, None, None, expected, "undecided", source, "")
    if isinstance(found, str) or problem:
        return dataclasses.replace(blank, detail=problem)
    share = found.error**-2.0 / np.sum(found.error**-2.0)
    mean, error = float(share @ found.y), float(np.sum(found.error**-2.0) ** -0.5)
    centre = mean if predicted is None else predicted
    # a size is part of the mean it is compared with: its own weight comes off its variance
    spread = np.sqrt(found.error**2 - (error**2 if predicted is None else 0.0)) / abs(centre)
    away = found.y / centre - 1
    inner, wide = (-special.stdtrit(found.degrees, t / 2 / len(x)) * spread for t in (0.05, CONTRADICTION_LEVEL))
    verdict = verdict_of(bool(np.all(np.abs(away) + inner <= tolerance)), bool(np.any(np.abs(away) - wide > tolerance)))
    half = -float(special.stdtrit(found.degrees, 0.025)) * error
    worst = int(np.argmax(np.abs(away)))
    detail = f"largest deviation {away[worst]:+.2%} at {along} = {found.x[worst]:g}, tolerance {tolerance:.2%}"
    return dataclasses.replace(
        blank, measured=mean, interval=(mean - half, mean + half), verdict=verdict, detail=detail
    )


def bound_claim(
    claim: str,
    x: Sequence[float],
    draws: Sequence[Any],
    *,
    bound: float | Sequence[float],
    source: str,
    side: Side = "upper",
    along: str = "n",
    expected: str | None = None,
    statistic: Statistic = "mean",
) -> Claim:
    """Judge that the statistic stays below ("upper") or above ("lower") a positive bound, one value or one for each x.

    `measured` is the largest ratio of the statistic to its bound (the smallest for a lower bound), `predicted` is 1.
    Supported: every size keeps the bound at 95 % one-sided, shared by the sizes. Contradicted: one breaks it at 1e-3.
    """
    bounds = np.broadcast_to(np.asarray(bound, dtype=float), (len(x),))
    if not np.all(bounds > 0):
        raise ValueError(f"bound {bound} is not positive; judge the negated or shifted quantity instead")
    if side not in ("upper", "lower"):
        raise ValueError(f"side {side!r}: must be upper or lower")
    blank = Claim(claim, along, 1.0, None, None, expected, "undecided", source, "")
    sign = 1 if side == "upper" else -1
    band = (-math.inf, 1.0) if side == "upper" else (1.0, math.inf)
    kept, broken, found = [], [], []
    for at, sample, limit in zip(x, draws, bounds, strict=True):
        ratio = np.asarray(sample, dtype=float).ravel() / limit
        if ratio.size < 2 or not np.isfinite(ratio).all():
            return dataclasses.replace(blank, detail=f"draws at {at:g} are fewer than two or undefined")
        estimate = Estimate.from_draws(ratio, statistic)
        found.append((sign * (1 - float(estimate.value or 0.0)), float(at), estimate))
        levels = {"confidence": 1 - 2 * 0.05 / len(x), "level": 2 * CONTRADICTION_LEVEL / len(x)}  # one-sided
        supported, contradicted = decide(ratio, band, statistic=statistic, **levels)
        kept.append(found[-1][0] >= 0 if estimate.stderr == 0 else bool(supported))
        broken.append(found[-1][0] < 0 if estimate.stderr == 0 else bool(contradicted))
    if not found:
        return dataclasses.replace(blank, detail="no sizes")
    slack, at, tightest = min(found, key=lambda one: one[0])
    return dataclasses.replace(
        blank,
        measured=tightest.value,
        interval=tightest.interval,
        verdict=verdict_of(all(kept), any(broken)),
        detail=f"tightest at {along} = {at:g}, slack {slack:.3g} of the bound",
    )


def verdict_of(supported: bool, contradicted: bool) -> str:
    """The word for a pair of decisions."""
    return "supported" if supported else "contradicted" if contradicted else "undecided"


def around(value: float, fraction: float) -> tuple[float, float]:
    """The band value -+ fraction |value|."""
    return value - fraction * abs(value), value + fraction * abs(value)


def _problem(found: Points | str, least: int, *, positive: bool = False) -> str:
    """Why the points cannot be fitted, empty if they can."""
    if isinstance(found, str):
        return found
    if np.unique(found.x).size < least:
        return f"needs at least {least} sizes, has {np.unique(found.x).size}"
    return "needs positive values" if positive and np.any(found.y <= 0) else ""


def _from_fit(blank: Claim, fit: Fit | None, problem: str, band: tuple[float, float]) -> Claim:
    if fit is None:
        return dataclasses.replace(blank, detail=problem)
    inside = band[0] <= fit.inner[0] and fit.inner[1] <= band[1]
    outside = fit.wide[1] < band[0] or band[1] < fit.wide[0]
    notes = [blank.detail, f"lack of fit p = {fit.lack_of_fit:.2g}", fit.note]
    if inside and not fit.fits:
        notes.append("the curve does not describe the points, so its number supports nothing")
    return dataclasses.replace(
        blank,
        measured=fit.value,
        interval=fit.inner,
        verdict=verdict_of(inside and fit.fits, outside),
        detail="; ".join(note for note in notes if note),
    )

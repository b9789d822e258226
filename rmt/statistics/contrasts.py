"""Contrasts: claims that two samples at one point stand in a given ratio or difference."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from rmt.statistics.claims import CONTRADICTION_LEVEL, Claim, around, verdict_of
from rmt.statistics.compare import decide
from rmt.statistics.estimate import Estimate, Statistic


def ratio_claim(
    claim: str,
    numerator: Any,
    denominator: Any,
    *,
    predicted: float,
    tolerance: float,
    source: str,
    along: str = "",
    expected: str | None = None,
    statistic: Statistic = "median",
    paired: bool = False,
) -> Claim:
    """Judge that two quantities stand in the ratio `predicted`, within a relative `tolerance`.

    Draws of one number each. `paired`: the draws are made from the same matrices in the same order, and the ratio is
    taken draw by draw (the statistic is then that of the ratio); otherwise the two samples are independent and positive,
    and Welch's interval of the difference of the mean logarithms is used (a ratio of medians; of means if the two
    log-spreads agree).
    """
    blank = Claim(claim, along, predicted, None, None, expected, "undecided", source, "")
    top, bottom = _sample(numerator), _sample(denominator)
    if paired:
        with np.errstate(divide="ignore", invalid="ignore"):
            return _from_draws(blank, _paired(top, bottom, np.divide), around(predicted, tolerance), statistic)
    if not (predicted > 0 and 0 <= tolerance < 1):
        raise ValueError(f"predicted = {predicted}, tolerance = {tolerance}: a ratio of positive numbers lies above 0")
    if np.any(top <= 0) or np.any(bottom <= 0):
        return dataclasses.replace(blank, detail="a ratio of independent samples needs positive draws")
    return _from_welch(blank, np.log(top), np.log(bottom), np.log(around(predicted, tolerance)), math.exp)


def difference_claim(
    claim: str,
    first: Any,
    second: Any,
    *,
    predicted: float,
    tolerance: float,
    source: str,
    along: str = "",
    expected: str | None = None,
    statistic: Statistic = "mean",
    paired: bool = False,
) -> Claim:
    """Judge that first - second is `predicted` within an absolute `tolerance`; samples as in `ratio_claim`.

    Independent samples: Welch's interval of the difference of means.
    """
    blank = Claim(claim, along, predicted, None, None, expected, "undecided", source, "")
    one, two, band = _sample(first), _sample(second), (predicted - tolerance, predicted + tolerance)
    if paired:
        return _from_draws(blank, _paired(one, two, np.subtract), band, statistic)
    return _from_welch(blank, one, two, band, float)


def _sample(draws: Any) -> np.ndarray:
    return np.asarray(draws, dtype=float).ravel()


def _paired(first: np.ndarray, second: np.ndarray, combine: np.ufunc) -> np.ndarray:
    if first.size != second.size:
        raise ValueError(f"{first.size} and {second.size} draws are not pairs; use paired=False or equal draws")
    return combine(first, second)


def _from_draws(blank: Claim, sample: np.ndarray, band: tuple[float, float], statistic: Statistic) -> Claim:
    """Judge one statistic of draws against a band."""
    if sample.size < 2 or not np.isfinite(sample).all():
        return dataclasses.replace(blank, detail="fewer than two draws, or undefined ones")
    estimate = Estimate.from_draws(sample, statistic)
    if estimate.stderr == 0:
        inside = band[0] <= float(estimate.value or 0.0) <= band[1]
        verdict = verdict_of(inside, not inside)
    else:
        verdict = verdict_of(*map(bool, decide(sample, band, statistic=statistic, level=CONTRADICTION_LEVEL)))
    detail = f"{sample.size} pairs, {statistic}"
    return dataclasses.replace(
        blank, measured=estimate.value, interval=estimate.interval, verdict=verdict, detail=detail
    )


def _from_welch(blank: Claim, one: np.ndarray, two: np.ndarray, band: Any, restore: Callable[[float], float]) -> Claim:
    """Judge the difference of two independent means; `restore` maps it back to the quantity."""
    if min(one.size, two.size) < 2 or not (np.isfinite(one).all() and np.isfinite(two).all()):
        return dataclasses.replace(blank, detail="fewer than two draws, or undefined ones")
    shares = np.array([part.var(ddof=1) / part.size for part in (one, two)])
    error = math.sqrt(shares.sum())
    degrees = shares.sum() ** 2 / np.sum(shares**2 / [one.size - 1, two.size - 1]) if error > 0 else math.inf
    value = float(one.mean() - two.mean())
    inner, wide = (
        -float(special.stdtrit(degrees, tail / 2)) * error if error > 0 else 0.0 for tail in (0.05, CONTRADICTION_LEVEL)
    )
    return dataclasses.replace(
        blank,
        measured=restore(value),
        interval=(restore(value - inner), restore(value + inner)),
        verdict=verdict_of(
            bool(band[0] <= value - inner and value + inner <= band[1]),
            bool(value + wide < band[0] or band[1] < value - wide),
        ),
        detail=f"{one.size} and {two.size} independent draws",
    )

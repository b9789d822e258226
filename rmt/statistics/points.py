"""Points along a sweep: one value a size with its error, ready for a fit.

A size late in a sweep may hold four draws, or one: too few to know their own spread. The relative spread of one draw is
therefore smoothed over the sweep (a power of x, with as much scatter about it as the sizes themselves show), and the
errors of all sizes share the degrees of freedom of all draws. To every error the smallest misfit that matters is added
in squares: a curve that misses by less is a good enough description, however many draws could tell.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from rmt.statistics.estimate import Estimate, Statistic

SMALLEST_MISFIT = 0.005  # relative
EXACT = 10**6  # degrees of freedom of deterministic points


@dataclasses.dataclass(frozen=True)
class Points:
    """x (k,) ascending, values y (k,), errors (k,) of y, and the degrees of freedom of the errors."""

    x: np.ndarray
    y: np.ndarray
    error: np.ndarray
    degrees: int


def points(
    x: Sequence[float], draws: Sequence[Any], statistic: Statistic = "median", *, misfit: float = SMALLEST_MISFIT
) -> Points | str:
    """Points from one array of draws, or one `Estimate`, per x; a sentence instead where that cannot be done.

    The value of a median of positive draws is the exponential of the mean logarithm (the median of a lognormal and, to
    second order in the spread, of a Gaussian law); every other value is the sample's mean or median. `misfit` is the
    smallest relative misfit that matters.
    """
    if len(x) != len(draws):
        raise ValueError(f"{len(x)} sizes and {len(draws)} sets of draws; give one set for each size")
    if not misfit >= 0:
        raise ValueError(f"misfit {misfit} is negative; give a relative size such as 0.005")
    rows = []
    for at, given in sorted(zip(x, draws, strict=True), key=lambda pair: float(pair[0])):
        if not float(at) > 0:
            raise ValueError(f"size {at} is not positive; a sweep is fitted in its logarithm")
        row = _summary(given, statistic)
        if row is None:
            return f"draws at {at:g} are missing or undefined"
        rows.append((float(at), *row))
    if not rows:
        return "no sizes"
    at, y, spread, count = np.array(rows).T
    if np.any(y == 0):
        return "a value of zero has no relative error"
    if not np.any(spread >= 0):
        return "no size has two draws, so nothing is known of their spread"
    spread = _smoothed(at, spread, count)
    degrees = int(np.sum(count - 1)) if np.any(spread > 0) else EXACT
    return Points(at, y, np.abs(y) * np.hypot(spread / np.sqrt(count), misfit), degrees)


def _summary(given: Any, statistic: Statistic) -> tuple[float, float, float] | None:
    """(value, relative spread of one draw or NaN, draws); None if anything is undefined."""
    if isinstance(given, Estimate):
        if given.value is None or given.undefined:
            return None
        known = given.stderr is not None and given.value != 0
        spread = given.stderr * math.sqrt(given.draws) / abs(given.value) if known else math.nan  # type: ignore[operator]
        return given.value, spread, given.draws
    x = np.asarray(given, dtype=float).ravel()
    if x.size == 0 or not np.isfinite(x).all():
        return None
    if statistic == "median" and np.all(x > 0):
        logs = np.log(x)
        return float(np.exp(logs.mean())), float(logs.std(ddof=1)) if x.size > 1 else math.nan, x.size
    value = float(np.median(x) if statistic == "median" else x.mean())
    return value, float(x.std(ddof=1) / abs(value)) if x.size > 1 and value else math.nan, x.size


def _smoothed(x: np.ndarray, spread: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Spreads drawn towards a power of x, each as far as its few draws and the scatter of all sizes ask for."""
    if not np.any(spread > 0):
        return np.nan_to_num(spread)
    known = spread > 0
    half = (count[known] - 1) / 2
    logs = np.log(spread[known]) - (special.digamma(half) - np.log(half)) / 2
    noise = special.polygamma(1, half) / 4  # variance of the logarithm of a sample's standard deviation
    place = np.log(x / x[0])
    design = np.stack([np.ones_like(place), place], axis=1)[:, : 2 if known.sum() >= 3 else 1]
    weighted = design[known] / np.sqrt(noise)[:, None]
    line = design @ np.linalg.lstsq(weighted, logs / np.sqrt(noise), rcond=None)[0]
    residual = logs - line[known]
    freedom = known.sum() - design.shape[1]
    scatter = max(0.0, float(np.sum(residual**2 - noise)) / freedom) if freedom > 0 else 0.0
    smooth = line.copy()
    smooth[known] += residual * scatter / (scatter + noise)
    # sizes whose draws are all equal stay exact; a single draw takes the spread of the line
    return np.where(spread == 0, 0.0, np.exp(smooth))

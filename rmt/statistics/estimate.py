"""Estimates: what draws say of a mean or a median, with intervals that hold at small levels and for few draws."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import scipy.special

CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A statistic of the draws of one quantity; the draw is the independent unit.

    value: sample mean or sample median, None if no draw is finite. stderr and interval: None for a single draw, unless
    the quantity is deterministic. draws: finite draws; undefined: draws that are not finite (0/0 of a zero matrix).
    """

    statistic: str
    value: float | None
    stderr: float | None
    interval: tuple[float, float] | None
    draws: int
    undefined: int = 0

    @classmethod
    def from_draws(
        cls, draws: Any, statistic: str = "mean", *, confidence: float = CONFIDENCE, deterministic: bool = False
    ) -> Estimate:
        """The estimate from draws (n,). Raises ValueError for an unknown statistic or an array that is not 1-D."""
        draws = np.asarray(draws, dtype=np.float64)
        if draws.ndim != 1:
            raise ValueError(f"draws of shape {draws.shape}: needs one number per draw, shape (draws,)")
        _check(statistic)
        known = draws[np.isfinite(draws)]
        undefined = draws.size - known.size
        if known.size == 0:
            return cls(statistic, None, None, None, 0, undefined)
        value = float(np.mean(known) if statistic == "mean" else np.median(known))
        if known.size == 1 and not deterministic:
            return cls(statistic, value, None, None, 1, undefined)
        if known.size == 1:
            return cls(statistic, value, 0.0, (value, value), 1, undefined)
        lower, upper, stderr = (float(x) for x in interval(known, statistic, 1 - confidence))
        return cls(statistic, value, stderr, (min(lower, value), max(upper, value)), known.size, undefined)


def interval(draws: Any, statistic: str, level: float) -> tuple[Any, Any, Any]:
    """(lower, upper, stderr) of a two-sided interval for the mean or median of draws (..., n), n >= 2.

    level is the probability to miss, split evenly. All draws positive: the logarithms are taken as normal. Then
    the median has the t interval exp(m -+ t s/sqrt(n)), exact for lognormal draws, and the mean has Cox's interval
    exp(m + s^2/2 -+ t sqrt(s^2/n + s^4/(2(n - 1)))). Otherwise both have the t interval of the draws, exact for normal
    ones. Rows of one array may differ in this.

    Measured rate of missing over the stated level, at levels 0.05, 1e-3 and 1e-5, n = 16 (6e6 rows) and 64 (2e6):
        mean,   normal draws of relative sd 0.05 - 0.1:    0.8 - 1.2
        mean,   lognormal draws of log-sd 0.05, 0.1, 0.25: 1.0 - 1.4, 1.0 - 1.2, 1.0 - 1.9 (t interval: 5 at 0.25)
        median, lognormal draws of log-sd 0.05 - 0.5:      0.7 - 1.25
        median, normal draws of relative sd 0.05, 0.1:     1.0 - 1.2, 0.8 - 1.4
    Beyond: the mean of lognormal draws of log-sd 0.5 is missed 3 to 4 times too often at 1e-5, and the median of normal
    draws of relative sd 0.25 3 times: there the logarithm is the wrong scale.
    """
    _check(statistic)
    draws = np.asarray(draws, dtype=np.float64)
    n = draws.shape[-1]
    if n < 2:
        raise ValueError(f"{n} draws: an interval needs at least 2")
    if not 0 < level < 1:
        raise ValueError(f"level {level}: must be between 0 and 1")
    t = float(scipy.special.stdtrit(n - 1, 1 - level / 2))
    centre = draws.mean(axis=-1)
    spread = draws.std(axis=-1, ddof=1) / math.sqrt(n)
    lower, upper, stderr = centre - t * spread, centre + t * spread, spread
    positive = np.all(draws > 0, axis=-1)
    if np.any(positive):
        logs = np.log(np.where(positive[..., None], draws, 1.0))
        variance = logs.var(axis=-1, ddof=1)
        middle, width = logs.mean(axis=-1), np.sqrt(variance / n)
        if statistic == "mean":
            middle, width = middle + variance / 2, np.sqrt(variance / n + variance**2 / (2 * (n - 1)))
        with np.errstate(over="ignore"):
            lower = np.where(positive, np.exp(middle - t * width), lower)
            upper = np.where(positive, np.exp(middle + t * width), upper)
            stderr = np.where(positive, np.exp(middle) * width, stderr)
    same = np.ptp(draws, axis=-1) == 0  # exp(log x) is not x: equal draws are their own interval
    first = draws[..., 0]
    return np.where(same, first, lower), np.where(same, first, upper), np.where(same, 0.0, stderr)


def _check(statistic: str) -> None:
    if statistic not in ("mean", "median"):
        raise ValueError(f"statistic {statistic!r}: must be mean or median")

"""What a handful of draws says about the mean or the median of their law, at any level down to 1e-8.

The interval. Verdicts need levels near 1e-5 from 16 draws, far beyond what a normal approximation or order statistics
(2 * 2^-16 = 3e-5) can give, for numbers that are sometimes Gaussian (a logarithm, an edge) and sometimes lognormal (a
gradient norm). So two laws are entertained, each with a tail probability that is (nearly) exact at every level:

- Gaussian draws: Student's t, for mean and median alike; exact.
- lognormal draws (all positive), median: Student's t of the logarithms; exact. Mean exp(mu + sigma^2/2): with the
  hypothesis subtracted from the logarithms, mu/sigma^2 = -1/2 is one natural parameter of an exponential family and the
  sum of squares is sufficient for the other, so a conditional test is exact (Land 1971). Its tail is computed by the
  modified signed root r* = r + log(u/r)/r of Barndorff-Nielsen, in closed form (derived below in `_land_tails`; within
  2 % of the exact conditional tail from 16 draws on, 4 % at 8, 11 % at 4, measured down to tails of 1e-16).

The two tails are averaged with weights proportional to the two maximised likelihoods. A weight depends on the shape of
the sample, which for either law is nearly independent of its t statistic, so the average keeps the level of the true law.
Measured rate of misses over stated rate, at levels 5e-2, 1e-3, 1e-4, for 4, 8, 16 and 64 draws:

    Gaussian, sd/|mean| <= 0.5     mean 0.8-1.2   median 0.8-1.1
    Gaussian, sd = |mean|          mean 1.0-1.6   median 0.9-1.3
    lognormal, log-sd <= 0.5       mean 0.9-1.3   median 0.9-1.1
    lognormal, log-sd <= 1.5       mean 1.0-1.4   median 0.8-1.1

For comparison, Student's t alone misses the mean of a lognormal of log-sd 0.5 by a factor 17 at 1e-4 and 16 draws.
Draws of neither law are outside the calibration; from about a hundred draws on a large departure should be looked at.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.optimize import elementwise

Statistic = Literal["mean", "median"]
Array = Any


@dataclass(frozen=True)
class Estimate:
    """The mean or median of a law, estimated from independent draws.

    value: sample mean or median of the defined draws (None when there are none).
    stderr: standard error; 0 when all draws are equal, None for a single draw that is not deterministic.
        For a median it is the interval's width over two quantiles of Student's t.
    interval: `confidence` interval for the statistic of the law (see the module); it always contains `value`.
    draws: number of draws given; undefined: how many of them were not finite. They are left out of the numbers and a
        verdict over them stays undecided.
    """

    value: float | None
    stderr: float | None
    interval: tuple[float, float] | None
    draws: int
    statistic: Statistic = "mean"
    undefined: int = 0
    confidence: float = 0.95

    @classmethod
    def from_draws(
        cls,
        draws: ArrayLike,
        statistic: Statistic = "mean",
        *,
        confidence: float = 0.95,
        deterministic: bool = False,
    ) -> "Estimate":
        """Estimate from a one-dimensional array of draws; `deterministic` says that every draw is the quantity itself."""
        check_statistic(statistic)
        if not 0 < confidence < 1:
            raise ValueError(f"confidence {confidence} is not between 0 and 1; give e.g. 0.95")
        x = np.asarray(draws, dtype=float)
        if x.ndim != 1:
            raise ValueError(f"draws have {x.ndim} axes, one is needed; estimate each quantity by itself")
        finite = x[np.isfinite(x)]
        undefined = x.size - finite.size
        if finite.size == 0:
            return cls(None, None, None, x.size, statistic, undefined, confidence)
        value = float(np.median(finite)) if statistic == "median" else _mean(finite)
        if deterministic or (finite.size > 1 and np.ptp(finite) == 0):
            ends = (min(value, float(finite.min())), max(value, float(finite.max())))
            return cls(value, 0.0, ends, x.size, statistic, undefined, confidence)
        if finite.size == 1:
            return cls(value, None, None, x.size, statistic, undefined, confidence)
        bounds = finite_interval(finite, statistic, level=1 - confidence)
        if statistic == "mean":
            scale = np.abs(finite).max()
            stderr = float(np.std(finite / scale, ddof=1) * scale / np.sqrt(finite.size))
        elif bounds is None:
            stderr = None
        else:
            stderr = float(np.diff(bounds)[0] / (2 * special.stdtrit(finite.size - 1, (1 + confidence) / 2)))
        return cls(value, stderr, bounds, x.size, statistic, undefined, confidence)


def check_statistic(statistic: str) -> None:
    """Refuse a statistic that has no interval here."""
    if statistic not in ("mean", "median"):
        raise ValueError(f"statistic {statistic!r} is not known; use 'mean' or 'median'")


def finite_interval(draws: ArrayLike, statistic: Statistic, *, level: float) -> tuple[float, float] | None:
    """`interval` of one row as a pair of floats that contains the sample value; None when an end is not a finite number."""
    x = np.asarray(draws, dtype=float)
    lower, upper = (float(end) for end in interval(x, statistic, level=level))
    if not (np.isfinite(lower) and np.isfinite(upper)):
        return None
    value = float(np.median(x)) if statistic == "median" else _mean(x)
    return min(lower, value), max(upper, value)


def interval(draws: ArrayLike, statistic: Statistic = "mean", *, level: float = 0.05) -> tuple[Array, Array]:
    """Two-sided interval that misses the mean or median of the law with probability `level`, half on each side.

    draws: (..., k) with k >= 2; the ends have shape (...). A row with an undefined entry has ends NaN; a row of equal
    draws has that value as both ends; an end beyond the range of a float is infinite.
    """
    check_statistic(statistic)
    if not 0 < level < 1:
        raise ValueError(f"level {level} is not between 0 and 1; give the chance of missing, e.g. 0.05")
    rows = _Rows.of(draws)
    below, above = (_end(rows, statistic, level / 2, side) for side in (-1, +1))
    return np.ldexp(below, rows.exponent), np.ldexp(above, rows.exponent)


def tail_probabilities(draws: ArrayLike, value: ArrayLike, *, statistic: Statistic = "mean") -> tuple[Array, Array]:
    """Probability of a sample at least as far below, and at least as far above, if the law's statistic were `value`.

    draws (..., k), value (...). `interval` at `level` is the set of values for which both exceed level / 2.
    """
    check_statistic(statistic)
    rows = _Rows.of(draws)
    return _tails(rows, np.ldexp(np.asarray(value, dtype=float), -rows.exponent), statistic)


@dataclass(frozen=True)
class _Rows:
    """Sufficient statistics of rows of draws under both laws, in units of 2^exponent so that squares cannot underflow."""

    count: int
    mean: Array
    sd: Array
    log_mean: Array
    log_sd: Array
    lognormal: Array  # weight of the lognormal law, 0 where a draw is not positive
    exponent: Array

    @classmethod
    def of(cls, draws: ArrayLike) -> "_Rows":
        x = np.asarray(draws, dtype=float)
        if x.ndim == 0 or x.shape[-1] < 2:
            raise ValueError("an interval needs at least two draws along the last axis; add draws")
        x = np.where(np.isfinite(x).all(-1, keepdims=True), x, np.nan)
        exponent = np.frexp(np.abs(x).max(-1))[1]
        x = np.ldexp(x, -exponent[..., None])
        count = x.shape[-1]
        equal = x.max(-1) == x.min(-1)
        mean = np.where(equal, x[..., 0], x.mean(-1))
        sd = np.where(equal, 0.0, x.std(-1, ddof=1))
        positive = (x > 0).all(-1)
        logs = np.log(np.where(positive[..., None], x, 1.0))
        usable = positive & (logs.max(-1) > logs.min(-1))
        log_mean = logs.mean(-1)
        log_sd = np.where(usable, logs.std(-1, ddof=1), 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            evidence = count * (np.log(sd) - np.log(log_sd) - log_mean)  # log of the ratio of maximised likelihoods
        weight = np.where(usable, special.expit(evidence), 0.0)
        return cls(count, mean, sd, log_mean, log_sd, np.nan_to_num(weight), exponent)


def _tails(rows: _Rows, value: Array, statistic: Statistic) -> tuple[Array, Array]:
    parts: Any = np.broadcast_arrays(value, rows.mean, rows.sd, rows.log_mean, rows.log_sd, rows.lognormal)
    return tuple(_mixed_tail(*parts, side, rows.count, statistic) for side in (-1, +1))  # type: ignore[call-arg]


def _mixed_tail(
    value: Array,
    mean: Array,
    sd: Array,
    log_mean: Array,
    log_sd: Array,
    lognormal: Array,
    side: Any,
    count: int,
    statistic: Statistic,
) -> Array:
    """Chance of a sample at least as far on `side` (+1 above, -1 below) of the value."""
    side = np.asarray(side, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        student = (mean - value) * np.sqrt(count) / sd
        gaussian = special.stdtr(count - 1, -side * student)
        gaussian = np.where((sd == 0) & (mean == value), 1.0, gaussian)
        theta = np.log(np.maximum(value, 0.0))
        if statistic == "median":
            skewed = special.stdtr(count - 1, -side * (log_mean - theta) * np.sqrt(count) / log_sd)
        else:
            skewed = special.ndtr(-side * _modified_root(log_mean - theta, log_sd, count))
        # no positive law has a statistic at or below zero: there every sample lies "above"
        skewed = np.where(value > 0, skewed, np.where(side > 0, 0.0, 1.0))
    return np.where(lognormal > 0, lognormal * skewed + (1 - lognormal) * gaussian, gaussian)


def _modified_root(offset: Array, log_sd: Array, count: int) -> Array:
    """r* of the hypothesis mu + sigma^2/2 = theta for Gaussian logarithms; offset = their mean minus theta.

    With z = log x - theta, the natural parameters are mu/sigma^2 (-1/2 under the hypothesis) and -1/(2 sigma^2); the
    restricted variance v solves v^2 + 4 v = 4 mean(z^2), the information determinants are 2 n^2 sigma^6 (full) and
    n (v^3 + 2 v^2) (nuisance, restricted).
    """
    variance = log_sd**2 * (count - 1) / count
    second = variance + offset**2
    restricted = 2 * second / (np.sqrt(1 + second) + 1)
    distance = offset / variance + 0.5
    gain = np.log(restricted / variance) - 1 + second / restricted + offset + restricted / 4
    r = np.sign(distance) * np.sqrt(np.maximum(count * gain, 0.0))
    u = distance * np.sqrt(2 * count * variance / (restricted / variance) ** 2 / (restricted + 2))
    central = np.abs(r) < 1e-4  # r* has a finite limit there, but only tails are ever asked for
    safe = np.where(central, 1.0, r)
    return np.where(central, r, r + np.log(np.where(central, 1.0, u / safe)) / safe)


def _end(rows: _Rows, statistic: Statistic, tail: float, side: int) -> Array:
    """The value on `side` of the sample at which the opposite tail probability has fallen to `tail`."""
    quantile = -special.stdtrit(rows.count - 1, tail)
    gaussian = rows.mean + side * quantile * rows.sd / np.sqrt(rows.count)
    mixed = (rows.lognormal > 0) & (rows.sd > 0)
    if not mixed.any():
        return gaussian
    parts = [np.atleast_1d(part)[np.atleast_1d(mixed)] for part in (rows.mean, rows.sd, rows.log_mean, rows.log_sd)]
    weight = np.atleast_1d(rows.lognormal)[np.atleast_1d(mixed)]
    mean, sd, log_mean, log_sd = parts
    spread = log_sd * quantile / np.sqrt(rows.count)
    with np.errstate(over="ignore"):
        other = np.exp(log_mean + side * spread)
        if statistic == "mean":
            # Cox's form, generously widened, brackets Land's limit; `_bracket` widens it further where needed
            cox = np.sqrt(log_sd**2 / rows.count + log_sd**4 / (2 * (rows.count - 1)))
            other = np.exp(log_mean + log_sd**2 / 2 + side * quantile * cox)
    student = mean + side * quantile * sd / np.sqrt(rows.count)
    arguments = (mean, sd, log_mean, log_sd, weight)

    def excess(value: Array, *rest: Any) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(_mixed_tail(value, *rest, -side, rows.count, statistic)) - np.log(tail)  # type: ignore[call-arg]

    inner, outer = _bracket(excess, np.minimum(student, other), np.maximum(student, other), side, sd, arguments)
    with np.errstate(all="ignore"):
        root = elementwise.find_root(excess, (inner, outer), args=arguments, tolerances={"xrtol": 1e-10, "xatol": 0.0})
    found = np.where(np.isfinite(outer), root.x, outer)
    result = np.atleast_1d(gaussian).copy()
    result[np.atleast_1d(mixed)] = found
    return result.reshape(np.shape(gaussian))


def _bracket(excess, low: Array, high: Array, side: int, sd: Array, arguments: tuple) -> tuple[Array, Array]:
    """Ends inner (excess >= 0) and outer (excess <= 0) of each root, by doubling steps away from [low, high]."""
    inner, outer = (low, high) if side > 0 else (high, low)
    step = np.maximum(np.abs(high - low), 1e-3 * sd)
    step = np.where(np.isfinite(step), step, sd)
    inner = np.where(np.isfinite(inner), inner, arguments[0])
    for _ in range(1100):  # enough doublings to cross every float
        open_end = np.isfinite(outer) & (excess(outer, *arguments) > 0)
        open_start = excess(inner, *arguments) < 0
        if not (open_end | open_start).any():
            break
        with np.errstate(over="ignore"):
            outer = np.where(open_end, outer + side * step, outer)
            inner = np.where(open_start, inner - side * step, inner)
            step = 2 * step
    return inner, outer


def _mean(x: Array) -> float:
    return float(x[0]) if np.ptp(x) == 0 else float(np.clip(np.mean(x), x.min(), x.max()))

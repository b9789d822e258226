"""What a handful of draws says about the mean or the median of their law, at any level down to 1e-8.

The interval. Verdicts need levels near 1e-5 from 16 draws, far beyond what a normal approximation or order statistics
(2 * 2^-16 = 3e-5) can give, for numbers that are sometimes Gaussian (a logarithm, an edge) and sometimes lognormal (a
gradient norm). So two laws are entertained, each with a tail probability that is (nearly) exact at every level:

- Gaussian draws: Student's t, for mean and median alike; exact.
- lognormal draws (all positive), median: Student's t of the logarithms; exact. Mean exp(mu + sigma^2/2): with the
  hypothesis subtracted from the logarithms, mu/sigma^2 = -1/2 is one natural parameter of an exponential family and the
  sum of squares is sufficient for the other, so a conditional test is exact (Land 1971). Its tail is computed by the
  modified signed root r* = r + log(u/r)/r of Barndorff-Nielsen, in closed form (derived in `_modified_root`; within
  2 % of the exact conditional tail from 16 draws on, 4 % at 8, 11 % at 4, measured down to tails of 1e-16).

The two tails are averaged with weights proportional to the two maximised likelihoods. A weight depends on the shape of
the sample, which for either law is nearly independent of its t statistic, so the average keeps the level of the true law.
Measured rate of misses over stated rate, at levels 5e-2, 1e-3, 1e-4, for 4, 8, 16 and 64 draws:

    Gaussian, sd/|mean| <= 0.5     mean 0.8-1.2   median 0.8-1.1
    Gaussian, sd = |mean|          mean 1.0-1.6   median 0.9-1.3
    Gaussian centred on zero       1.0 for 16 draws and more, 1.0-2.0 for 4 to 8 (the few rows with one sign mislead)
    lognormal, log-sd <= 0.5       mean 0.9-1.3   median 0.9-1.1
    lognormal, log-sd <= 1.5       mean 1.0-1.4   median 0.8-1.1

For comparison, Student's t alone misses the mean of a lognormal of log-sd 0.5 by a factor 17 at 1e-4 and 16 draws.
Draws of neither law are outside
the calibration. Measured at 1e-3 with 16 and 64 draws: exponential mean 0.3 and 4, median 1.1 and 8; gamma of shape 4
mean 0.5 and 0.6, median 1.1 and 2; Gumbel of relative spread 0.06 mean 3 and 2, median 0.9 and 6; Student's t with 5
degrees mean 0.6 and 0.9; uniform mean 1.7 and 1.0. The bias behind the larger figures is below 0.2 sd of one draw.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

Statistic = Literal["mean", "median"]
Array = Any

NARROW = 1e-6  # log-sd below which the two laws cannot be told apart and Student's t serves for both


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
    rows, exponent = _rows(draws)
    with np.errstate(over="ignore"):
        return (
            np.ldexp(_end(rows, statistic, level / 2, -1), exponent),
            np.ldexp(_end(rows, statistic, level / 2, +1), exponent),
        )


def tail_probabilities(draws: ArrayLike, value: ArrayLike, *, statistic: Statistic = "mean") -> tuple[Array, Array]:
    """Probability of a sample at least as far below, and at least as far above, if the law's statistic were `value`.

    draws (..., k), value (...). `interval` at `level` is the set of values for which both exceed level / 2.
    """
    check_statistic(statistic)
    rows, exponent = _rows(draws)
    scaled = np.ldexp(np.asarray(value, dtype=float), -exponent)
    return _tail(rows, scaled, statistic, -1), _tail(rows, scaled, statistic, +1)


class _Rows(NamedTuple):
    """Sufficient statistics of rows of draws under both laws."""

    draws: int
    mean: Array
    sd: Array
    log_mean: Array
    log_sd: Array
    lognormal: Array  # weight of the lognormal law, 0 where a draw is not positive


def _rows(draws: ArrayLike) -> tuple[_Rows, Array]:
    """The rows in units of a power of two, so that no square underflows, and the exponent of that unit."""
    x = np.asarray(draws, dtype=float)
    if x.ndim == 0 or x.shape[-1] < 2:
        raise ValueError("an interval needs at least two draws along the last axis; add draws")
    count = x.shape[-1]
    x = np.where(np.isfinite(x).all(-1, keepdims=True), x, np.nan)
    exponent = np.frexp(np.abs(x).max(-1))[1]
    x = np.ldexp(x, -exponent[..., None])
    equal = x.max(-1) == x.min(-1)
    mean = np.where(equal, x[..., 0], x.mean(-1))
    sd = np.where(equal, 0.0, x.std(-1, ddof=1))
    positive = (x > 0).all(-1)
    logs = np.log(np.where(positive[..., None], x, 1.0))
    log_mean, log_sd = logs.mean(-1), logs.std(-1, ddof=1)
    usable = positive & (log_sd > NARROW)
    log_sd = np.where(usable, log_sd, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        evidence = count * (np.log(sd) - np.log(log_sd) - log_mean)  # log of the ratio of maximised likelihoods
    weight = np.where(usable & (sd > 0), special.expit(evidence), 0.0)
    return _Rows(count, mean, sd, log_mean, log_sd, weight), exponent


def _tail(rows: _Rows, value: Array, statistic: Statistic, side: int) -> Array:
    """Chance of a sample at least as far above (side +1) or below (-1) of the value, averaged over the two laws."""
    count, mean, sd, log_mean, log_sd, lognormal = rows
    with np.errstate(all="ignore"):
        gaussian = special.stdtr(count - 1, -side * (mean - value) * np.sqrt(count) / sd)
        gaussian = np.where((sd == 0) & (mean == value), 1.0, gaussian)
        offset = log_mean - np.log(np.maximum(value, 0.0))
        if statistic == "median":
            skewed = special.stdtr(count - 1, -side * offset * np.sqrt(count) / log_sd)
        else:
            skewed = special.ndtr(-side * _modified_root(offset, log_sd, count))
        # a positive law has no statistic at or below zero: from there every sample lies above
        skewed = np.where(value > 0, skewed, float(side < 0))
        skewed = np.where(value == np.inf, float(side > 0), skewed)
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
    """The value on `side` of the sample from which the sample looks as far away as a chance of `tail` allows."""
    quantile = -special.stdtrit(rows.draws - 1, tail)
    student = rows.mean + side * quantile * rows.sd / np.sqrt(rows.draws)
    mixed = np.atleast_1d(rows.lognormal > 0)
    if not mixed.any():
        return student
    inner_rows = _Rows(rows.draws, *(np.atleast_1d(part)[mixed] for part in rows[1:]))

    def excess(value: Array, *parts: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(_tail(_Rows(rows.draws, *parts), value, statistic, -side) / tail)

    from scipy.optimize import elementwise  # heavy, and one draw has no interval

    inner, outer = _bracket(excess, inner_rows, statistic, quantile, side)
    with np.errstate(all="ignore"):
        root = elementwise.find_root(
            excess, (inner, outer), args=inner_rows[1:], tolerances={"xrtol": 1e-10, "xatol": 0.0}
        )
    ends = np.atleast_1d(student).copy()
    ends[mixed] = np.where(np.isfinite(outer), root.x, outer)
    return ends.reshape(np.shape(student))


def _bracket(
    excess: Callable[..., Array], rows: _Rows, statistic: Statistic, quantile: float, side: int
) -> tuple[Array, Array]:
    """A value with excess >= 0 and one with excess <= 0 around each end: the ends of the two laws, moved apart as needed."""
    student = rows.mean + side * quantile * rows.sd / np.sqrt(rows.draws)
    centre, error = rows.log_mean, rows.log_sd / np.sqrt(rows.draws)
    if statistic == "mean":  # Cox's approximate end
        centre = centre + rows.log_sd**2 / 2
        error = np.hypot(error, rows.log_sd**2 / np.sqrt(2 * (rows.draws - 1)))
    with np.errstate(over="ignore"):
        skewed = np.exp(centre + side * quantile * error)
    low, high = np.minimum(student, skewed), np.maximum(student, skewed)
    inner, outer = (low, high) if side > 0 else (high, low)
    inner = np.where(np.isfinite(inner), inner, rows.mean)
    step = np.where(np.isfinite(high), np.maximum(high - low, 1e-3 * rows.sd), rows.sd)
    for _ in range(1100):  # doublings that cross every float
        near, far = excess(inner, *rows[1:]) < 0, np.isfinite(outer) & (excess(outer, *rows[1:]) > 0)
        if not (near | far).any():
            break
        with np.errstate(over="ignore"):
            inner = np.where(near, inner - side * step, inner)
            outer = np.where(far, outer + side * step, outer)
            step = 2 * step
    return inner, outer


def _mean(x: Array) -> float:
    return float(x[0]) if np.ptp(x) == 0 else float(np.clip(np.mean(x), x.min(), x.max()))

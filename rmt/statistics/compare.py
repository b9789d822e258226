"""Compare: a prediction meets the draws and gets a verdict.

The rule. Supported: the 95 % interval of the statistic lies inside the prediction's band. Contradicted: the interval at
level 1e-3 / comparisons is disjoint from the band, so that under true predictions a family of `comparisons` rows holds
a false contradiction with probability at most 1e-3 (attained for a band of no width; half of it for a truth on the
edge of a wide band). Otherwise undecided. A bound is judged on its one side, with the whole level there.
The intervals and their measured calibration are those of `rmt.statistics.estimate`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from scipy import special

from rmt.statistics.estimate import Estimate, Statistic, tail_probabilities
from rmt.theorems.prediction import Bound, Prediction

FAMILY_LEVEL = 1e-3
CONFIDENCE = 0.95
POWER = 0.9
MANY_DRAWS = 10**7

Band = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the draws say of a prediction; its fields are the numbers of a JSON row.

    verdict: "supported", "contradicted", "undecided", "no prediction" or "out of range".
    detectable: smallest distance of the truth from the band that these draws would contradict with probability 0.9,
        from `detectable_shift` and the observed spread; None where nothing was tested. The power is exact for Gaussian
        draws. For medians of lognormal draws it is 89 to 91 % at log-sd 0.05; at log-sd 0.5 and level 1e-5 it is
        90 % with 64 draws and 91 % downwards but 66 % upwards with 16 (not knowing the law costs power).
    """

    verdict: str
    statistic: str
    measured: float | None
    stderr: float | None
    interval: tuple[float, float] | None
    draws: int
    predicted: float | None
    band: tuple[float, float] | None
    kind: str | None
    standing: str | None
    source: str
    validity: str
    detail: str
    detectable: float | None = None


def judge(draws: Any, prediction: Prediction | None, *, comparisons: int = 1, deterministic: bool = False) -> Verdict:
    """Judge a prediction by draws (k,); `comparisons` is the number of rows in the family, at least 1.

    A single draw decides nothing unless the quantity is `deterministic`; neither do draws of which some are undefined
    (not finite): what is left is a selection. Both say so in `detail`, as an undecided row says how many draws of this
    spread would decide and which effect these could have detected.
    """
    if comparisons < 1:
        raise ValueError(f"comparisons = {comparisons}: a family has at least one row; give the number of rows")
    statistic = prediction.statistic if prediction is not None else "mean"
    estimate = Estimate.from_draws(draws, statistic, deterministic=deterministic)
    if prediction is None:
        return _verdict("no prediction", estimate, None, _undefined(estimate))
    if not prediction.in_range:
        return _verdict("out of range", estimate, prediction, _undefined(estimate))
    if estimate.value is None:
        return _verdict("undecided", estimate, prediction, _undefined(estimate) or "no draws")
    band = _band(prediction)
    if band is None:
        why = "a limit without a band: judged along the sweep, in the claims"
        return _verdict("undecided", estimate, prediction, why)
    if estimate.stderr == 0:
        inside = band[0] <= estimate.value <= band[1]
        name = "undecided" if estimate.undefined else "supported" if inside else "contradicted"
        return _verdict(name, estimate, prediction, _join(_slack(prediction, estimate), _undefined(estimate)))
    defined = np.asarray(draws, dtype=float)
    defined = defined[np.isfinite(defined)]
    if defined.size < 2:
        why = _join("one draw has no standard error: ask for more", _undefined(estimate))
        return _verdict("undecided", estimate, prediction, why)
    level = (2 if isinstance(prediction, Bound) else 1) * FAMILY_LEVEL / comparisons
    supported, contradicted = decide(defined, band, statistic=statistic, level=level)
    name = "supported" if supported else "contradicted" if contradicted else "undecided"
    if estimate.undefined:
        name = "undecided"
    spread = (estimate.stderr or math.inf) * math.sqrt(defined.size)
    detectable = detectable_shift(defined.size, level=level) * spread
    said = [_slack(prediction, estimate)]
    if estimate.undefined:
        said.append(_undefined(estimate))
    elif name == "undecided":
        said.append(_open(estimate.value, spread, defined.size, band, level))
        said.append(_power(detectable, estimate.value))
    found = detectable if math.isfinite(detectable) else None
    return dataclasses.replace(_verdict(name, estimate, prediction, _join(*said)), detectable=found)


def decide(
    draws: Any, band: Any, *, statistic: Statistic, level: float, confidence: float = CONFIDENCE
) -> tuple[Any, Any]:
    """(supported, contradicted) for rows of draws (..., k) and bands of two ends (...); the rule of the module.

    An interval at `level` ends above a value exactly when the tail probability there exceeds level / 2, so two tail
    probabilities an end decide and no interval is computed. Open sides of a band are infinite.
    """
    x = np.asarray(draws, dtype=float)
    value = np.median(x, axis=-1) if statistic == "median" else x.mean(axis=-1)
    below_low, above_low = tail_probabilities(x, band[0], statistic=statistic)
    below_high, above_high = tail_probabilities(x, band[1], statistic=statistic)
    tail = (1 - confidence) / 2
    inside = (band[0] <= value) & (value <= band[1])
    supported = inside & (above_low <= tail) & (below_high <= tail)
    contradicted = ~inside & ((below_low < level / 2) | (above_high < level / 2))
    return supported, contradicted


@functools.lru_cache(maxsize=256)
def detectable_shift(draws: int, *, level: float, power: float = POWER) -> float:
    """Distance from the band, in standard deviations of one draw, that a two-sided test at `level` finds with `power`.

    Exact for Gaussian draws: the non-centrality delta with E Phi(delta - t c) = power, t the quantile of Student's t at
    level / 2 and c^2 = chi^2/degrees (midpoint rule over the quantiles of chi^2), divided by sqrt(draws).
    """
    if draws < 2:
        return math.inf
    degrees = draws - 1
    threshold = -float(special.stdtrit(degrees, level / 2))
    chances = (np.arange(1000) + 0.5) / 1000
    bars = threshold * np.sqrt(2 * special.gammaincinv(degrees / 2, chances) / degrees)
    low, high = 0.0, float(bars.max()) + 10
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if special.ndtr(middle - bars).mean() < power else (low, middle)
    return high / math.sqrt(draws)


def draws_needed(distance: float, spread: float, *, level: float) -> int | None:
    """Fewest draws whose interval at `level` has a half-width of at most `distance`; None beyond ten million.

    spread: standard deviation of one draw, taken to stay what it is.
    """

    def enough(k: int) -> bool:
        return -float(special.stdtrit(k - 1, level / 2)) * spread <= distance * math.sqrt(k)

    if not enough(MANY_DRAWS):
        return None
    low, high = 1, 2
    while not enough(high):
        low, high = high, min(2 * high, MANY_DRAWS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _band(prediction: Prediction) -> Band | None:
    if isinstance(prediction, Bound):
        value = float(prediction.value if prediction.value is not None else math.nan)
        return (-math.inf, value) if prediction.side == "upper" else (value, math.inf)
    return prediction.band


def _open(value: float, spread: float, draws: int, band: Band, level: float) -> str:
    """What would bring this estimate to a decision, if value and spread stayed where they are."""
    inside = band[0] <= value <= band[1]
    distance = min(value - band[0], band[1] - value) if inside else max(band[0] - value, value - band[1])
    needed = draws_needed(distance, spread, level=1 - CONFIDENCE if inside else level) if distance > 0 else None
    if needed is None:
        return "the estimate lies on the edge of the band: no number of draws is sure to decide"
    side = "inside" if inside else "outside"
    return f"about {max(needed, draws + 1)} draws would decide if the estimate stayed {side} the band"


def _power(detectable: float, value: float) -> str:
    if not math.isfinite(detectable):
        return ""
    relative = f" ({detectable / abs(value):.2g} of the estimate)" if value else ""
    return f"these draws would find a truth {detectable:.2g}{relative} or more outside the band, 9 times in 10"


def _slack(prediction: Prediction, estimate: Estimate) -> str:
    if not isinstance(prediction, Bound) or prediction.value is None or estimate.value is None:
        return ""
    slack = (prediction.value - estimate.value) * (1 if prediction.side == "upper" else -1)
    return f"slack {slack:.3g}" + (f" ({slack / abs(prediction.value):.2g} of the bound)" if prediction.value else "")


def _undefined(estimate: Estimate) -> str:
    return f"{estimate.undefined} of {estimate.draws} draws undefined and left out" if estimate.undefined else ""


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _verdict(name: str, estimate: Estimate, prediction: Prediction | None, detail: str) -> Verdict:
    return Verdict(
        verdict=name,
        statistic=estimate.statistic,
        measured=estimate.value,
        stderr=estimate.stderr,
        interval=estimate.interval,
        draws=estimate.draws,
        predicted=prediction.value if prediction is not None else None,
        band=prediction.band if prediction is not None else None,
        kind=prediction.kind if prediction is not None else None,
        standing=prediction.standing if prediction is not None else None,
        source=prediction.source if prediction is not None else "",
        validity=prediction.validity if prediction is not None else "",
        detail=detail,
    )

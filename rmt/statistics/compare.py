"""Compare: a prediction meets the draws and gets a verdict."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import scipy.special

from rmt.statistics.estimate import Estimate, finite_interval
from rmt.theorems.prediction import Bound

FAMILY_LEVEL = 1e-3
POWER = 0.9
CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the draws say of a prediction; its fields are the numbers of a JSON row.

    verdict: "supported", "contradicted", "undecided", "no prediction" or "out of range".
    detectable: smallest distance of the truth from the band that these draws would contradict with power 0.9.
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


def judge(draws: Any, prediction: Any, *, comparisons: int = 1, deterministic: bool = False) -> Verdict:
    """Judge a prediction by draws (n,).

    Supported: the 95 % interval lies inside the band. Contradicted: the interval at the family-wise level 1e-3, shared
    by `comparisons` rows, is disjoint from the band. Undecided otherwise: `detail` says how many draws would decide.
    A bound is judged one-sided. A single draw decides nothing unless the quantity is deterministic.
    """
    statistic: Any = prediction.statistic if prediction is not None else "mean"
    estimate = Estimate.from_draws(draws, statistic, deterministic=deterministic)
    if prediction is None:
        return _verdict("no prediction", estimate, None, "")
    if not prediction.in_range:
        return _verdict("out of range", estimate, prediction, "")
    if estimate.value is None:
        return _verdict("undecided", estimate, prediction, f"all {estimate.undefined} draws are undefined (0/0)")
    band = _band(prediction)
    if band is None:
        return _verdict(
            "undecided", estimate, prediction, "a limit without a band: judged along the sweep, in the claims"
        )
    if estimate.interval is None:
        return _verdict("undecided", estimate, prediction, "one draw has no standard error: ask for more")
    wide = _family_interval(draws, estimate, FAMILY_LEVEL / comparisons)
    name = decide(estimate.interval, wide, band)
    stderr = estimate.stderr or 0.0
    detectable = float(_quantile(estimate.draws, FAMILY_LEVEL / comparisons) + scipy.special.ndtri(POWER)) * stderr
    detail = _explain(name, estimate, prediction, band, wide, comparisons)
    return dataclasses.replace(_verdict(name, estimate, prediction, detail), detectable=detectable)


def decide(inner: tuple[float, float], wide: tuple[float, float], band: tuple[float, float]) -> str:
    """The rule itself: inner is the 95 % interval, wide the interval at the family-wise level."""
    if band[0] <= inner[0] and inner[1] <= band[1]:
        return "supported"
    if wide[1] < band[0] or band[1] < wide[0]:
        return "contradicted"
    return "undecided"


def _band(prediction: Any) -> tuple[float, float] | None:
    if isinstance(prediction, Bound):
        value = float(prediction.value or 0.0)
        return (-math.inf, value) if prediction.side == "upper" else (value, math.inf)
    return prediction.band


def _family_interval(draws: Any, estimate: Estimate, level: float) -> tuple[float, float]:
    known = np.asarray(draws, dtype=np.float64)
    known = known[np.isfinite(known)]
    if known.size < 2 or estimate.stderr == 0:
        assert estimate.interval is not None
        return estimate.interval
    return finite_interval(known, estimate.statistic, level=level) or (-math.inf, math.inf)


def _quantile(draws: int, level: float) -> float:
    return float(scipy.special.stdtrit(draws - 1, 1 - level / 2)) if draws > 1 else 0.0


def _explain(
    name: str,
    estimate: Estimate,
    prediction: Any,
    band: tuple[float, float],
    wide: tuple[float, float],
    comparisons: int,
) -> str:
    value, stderr = estimate.value, estimate.stderr or 0.0
    assert value is not None
    said = []
    if isinstance(prediction, Bound):
        said.append(f"slack {abs((prediction.value or 0.0) - value):.3g}")
    if name == "undecided":
        said.append(_needed(value, stderr, estimate.draws, band, comparisons))
    if estimate.undefined:
        said.append(f"{estimate.undefined} draws are undefined and left out")
    return "; ".join(said)


def _needed(value: float, stderr: float, draws: int, band: tuple[float, float], comparisons: int) -> str:
    """How many draws would bring this estimate to a decision, if it stayed where it is."""
    spread = stderr * math.sqrt(draws)
    if band[0] < value < band[1]:
        distance, factor = min(value - band[0], band[1] - value), float(scipy.special.ndtri((1 + CONFIDENCE) / 2))
    else:
        distance = max(band[0] - value, value - band[1])
        factor = -float(scipy.special.ndtri(FAMILY_LEVEL / comparisons / 2))
    if not distance > 0:
        return "the estimate lies on the edge of the band: no number of draws is sure to decide"
    needed = max(draws + 1, math.ceil((factor * spread / distance) ** 2))
    return f"about {needed} draws would decide"


def _verdict(name: str, estimate: Estimate, prediction: Any, detail: str) -> Verdict:
    known = prediction is not None
    return Verdict(
        verdict=name,
        statistic=estimate.statistic,
        measured=estimate.value,
        stderr=estimate.stderr,
        interval=estimate.interval,
        draws=estimate.draws,
        predicted=prediction.value if known else None,
        band=prediction.band if known else None,
        kind=prediction.kind if known else None,
        standing=prediction.standing if known else None,
        source=prediction.source if known else "",
        validity=prediction.validity if known else "",
        detail=detail,
    )

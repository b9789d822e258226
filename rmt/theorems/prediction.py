"""Predictions: what a theorem says of one measured number, how surely, and where it may be believed.

The family is closed: `Exact`, `Limit`, `Approximation`, `PowerLaw`, `Bound` and `SpectrumTends`. All say of which
statistic of the draws they speak (mean or median), from which source, with which standing, and in which range.
Out of its range a prediction keeps its form and gives no number (`out_of_range`).

The band (lo, hi), in the units of the quantity, is where the statistic may lie if the theory is right: the size of
the next-order term, or an error calibrated once and stated where the prediction is made. It holds no sampling error
of the draws being judged; that belongs to the estimate. `Exact` carries a band too, since no measured interval fits
into a point: it is the precision at which the statement is worth checking.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

__all__ = [
    "MOST_RANKS",
    "Approximation",
    "Bound",
    "Exact",
    "Limit",
    "PowerLaw",
    "Prediction",
    "Predictions",
    "SpectrumTends",
    "absolute_band",
    "out_of_range",
    "relative_band",
    "values_out_of_range",
]

Statistic: TypeAlias = Literal["mean", "median"]
Standing: TypeAlias = Literal["theorem", "derived", "fitted", "simulated"]


@dataclass(frozen=True, kw_only=True)
class _Statement:
    """The fields every number-valued form shares, and the rules they obey."""

    value: float | None
    source: str
    validity: str
    band: tuple[float, float] | None = None
    statistic: Statistic = "mean"
    standing: Standing = "derived"

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        _check_words(self.statistic, self.standing, self.source, self.validity)
        if self.value is None:
            if self.band is not None:
                raise ValueError(f"band = {self.band} without a value: out of range there is no number to hold")
            return
        object.__setattr__(self, "value", float(self.value))
        if not math.isfinite(self.value):
            raise ValueError(f"value = {self.value} must be finite: say out_of_range(...) where the theory ends")
        if self.band is None:
            return
        low, high = float(self.band[0]), float(self.band[1])
        object.__setattr__(self, "band", (low, high))
        if not (math.isfinite(low) and math.isfinite(high) and low <= self.value <= high):
            raise ValueError(f"band = {self.band} must be finite and hold the value {self.value}")

    @property
    def in_range(self) -> bool:
        """Whether the prediction gives a number."""
        return self.value is not None


@dataclass(frozen=True, kw_only=True)
class Exact(_Statement):
    """An identity at finite size: the statistic equals `value`. The band is the precision asked of a check."""

    kind: ClassVar[str] = "exact"


@dataclass(frozen=True, kw_only=True)
class Limit(_Statement):
    """The value the statistic tends to. Judged along a sweep; at one size only if it has a band.

    exponent: |statistic - value| ~ along^-exponent as the size named `along` grows; None where the rate is not known.
    correction: the term after that one is smaller by along^-correction; None where it does not matter or is not known.
    """

    along: str = "n"
    exponent: float | None = None
    correction: float | None = None

    kind: ClassVar[str] = "limit"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("exponent", "correction"):
            rate = getattr(self, name)
            if rate is not None and not (rate > 0 and math.isfinite(rate)):
                raise ValueError(f"{name} = {rate}: a limit is approached at a positive, finite rate, or at none known")


@dataclass(frozen=True, kw_only=True)
class Approximation(_Statement):
    """A finite-size formula with an error that the band bounds."""

    kind: ClassVar[str] = "approximation"


@dataclass(frozen=True, kw_only=True)
class PowerLaw(_Statement):
    """value = prefactor * at ** exponent, `at` being the value of the parameter named `along`."""

    along: str
    at: float
    exponent: float
    prefactor: float

    kind: ClassVar[str] = "power law"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.at > 0 and math.isfinite(self.exponent) and math.isfinite(self.prefactor)):
            raise ValueError(
                f"at = {self.at}, exponent = {self.exponent}, prefactor = {self.prefactor}: not a power law"
            )
        said = self.prefactor * self.at**self.exponent
        if self.value is not None and not math.isclose(self.value, said, rel_tol=1e-9):
            raise ValueError(f"value = {self.value} is not prefactor * at ** exponent = {said}")


@dataclass(frozen=True, kw_only=True)
class Bound(_Statement):
    """The statistic lies below (`side` "upper") or above ("lower") `value`. Judged one-sided; needs no band."""

    side: Literal["upper", "lower"]

    kind: ClassVar[str] = "bound"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.side not in ("upper", "lower"):
            raise ValueError(f"side = {self.side!r} is neither 'upper' nor 'lower'")


@dataclass(frozen=True, kw_only=True)
class SpectrumTends:
    """The spectrum tends to a law (an object with `cdf` and `quantile`); `scale` is what the spectrum is multiplied by.

    It has no single number, so `value` and `band` are None; `distance` is the Kolmogorov distance to be expected.
    """

    law: object | None
    scale: float
    source: str
    validity: str
    distance: float | None = None
    standing: Standing = "derived"

    kind: ClassVar[str] = "limit"
    statistic: ClassVar[Statistic] = "mean"
    value: ClassVar[None] = None
    band: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check_words(self.statistic, self.standing, self.source, self.validity)
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale = {self.scale} must be positive and finite")
        if self.distance is not None and not 0 <= self.distance <= 1:
            raise ValueError(f"distance = {self.distance} is no Kolmogorov distance: it lies in [0, 1]")

    @property
    def in_range(self) -> bool:
        """Whether there is a law to compare with."""
        return self.law is not None


Prediction: TypeAlias = Exact | Limit | Approximation | PowerLaw | Bound | SpectrumTends
MOST_RANKS = 8  # leading singular values that are predicted
Predictions: TypeAlias = dict[str, Prediction | Mapping[int, Prediction]]  # by quantity, or by quantity and rank


def out_of_range(
    rule: str, *, source: str, statistic: Statistic = "mean", standing: Standing = "derived"
) -> Approximation:
    """A prediction that gives no number; `rule` says the offending value, the rule and, if there is one, the remedy."""
    return Approximation(value=None, source=source, validity=rule, statistic=statistic, standing=standing)


def values_out_of_range(names: Iterable[str], rule: str, *, source: str) -> Predictions:
    """The quantities `names` of a matrix, and its leading singular values by rank, none of which gets a number."""
    refused = out_of_range(rule, source=source)
    return {**dict.fromkeys(names, refused), "singular_value": dict.fromkeys(range(1, MOST_RANKS + 1), refused)}


def relative_band(value: float, fraction: float) -> tuple[float, float]:
    """value (1 -+ fraction), in order also for negative values."""
    return absolute_band(value, fraction * abs(value))


def absolute_band(value: float, width: float) -> tuple[float, float]:
    """value -+ width."""
    if not (math.isfinite(width) and width >= 0):
        raise ValueError(f"half-width {width} of a band must be finite and not negative")
    return value - width, value + width


def _check_words(statistic: str, standing: str, source: str, validity: str) -> None:
    if statistic not in get_args(Statistic):
        raise ValueError(f"statistic = {statistic!r} is not one of {get_args(Statistic)}")
    if standing not in get_args(Standing):
        raise ValueError(f"standing = {standing!r} is not one of {get_args(Standing)}")
    if not source or not validity:
        raise ValueError("a prediction names its source and its validity: give both as non-empty text")

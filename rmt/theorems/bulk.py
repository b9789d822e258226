"""The whole spectrum of one attention layer: which law it follows, how closely, and what that says in numbers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from rmt.laws.causal import CausalLaw
from rmt.laws.keyquery import KeyQueryLaw
from rmt.laws.law import SpectralLaw
from rmt.laws.quarter_circle import QuarterCircle
from rmt.theorems.causal import causal_predictions
from rmt.theorems.layer import Layer, layer
from rmt.theorems.light_weights import LightWeights
from rmt.theorems.phases import Phase
from rmt.theorems.prediction import Approximation, Bound, Prediction, Predictions, out_of_range, relative_band

LEADING = 8
SOURCE = "bordenave2012; derived, see rmt.laws.keyquery"


@dataclasses.dataclass(frozen=True)
class Bulk:
    """The singular values of sqrt(n) (I - 11^T/n) A without the exact zero, n - 1 of them; of A itself if causal, all n.

    head_dim: d_k of key-query logits, None for iid weights; beta: logit deviation, None for light weights ("uniform",
    "exponential", "gamma"); mask: "none" or "causal".

    Laws. iid: the quarter circle with the effective variance sigma_n^2. Key-query: `KeyQueryLaw`. Kolmogorov distance to
    one measured spectrum, mean over draws, as calibrated (4 draws, n = 300 / 1024): iid, beta .5: .010 / .004, .83: .018 /
    .0065, 1: .024 / .0115; key-query, d_k = 64, beta .5: .015 / .007, .83: .018 / .010; d_k = 32, beta 1: .013 / .010;
    d_k = 16, beta 1: .017 / .018. Hence `distance`: .015 from n = 1000 on for iid weights and d_k >= 32, else .03.
    Causal: `CausalLaw`, bulk and ladder together, beta .2 to .85, 6 draws, n = 300 / 500: iid .015-.026 / .012-.018; d_k = 64:
    .020-.024 / .017-.021; 32: .026-.031 / .019-.027; 3 draws at n = 1000: iid, beta .5: .008, 1: .013; d_k = 64, beta .8: .019;
    32, .5: .026, 1: .032; 16, 1: .05. `distance` .02 for iid and .03 for key-query logits from n = 500 on, .01 more below, up to
    beta = .85 and from d_k = 32 on for key-query logits.
    """

    n: int
    beta: float | None
    head_dim: int | None = None
    weights: str = "lognormal"
    mask: str = "none"

    @property
    def scale(self) -> float:
        """What the singular values are multiplied by."""
        return 1.0 if self.mask == "causal" else self.n**0.5

    @functools.cached_property
    def layer(self) -> Layer:
        """The one-layer model with the effective variance."""
        light = None if self.beta is not None else LightWeights(self.weights)
        return layer(self.n, self.beta or 0.0, self.head_dim, light)

    @functools.cached_property
    def law(self) -> SpectralLaw:
        """The law of the values; it exists for every beta > 0, trusted or not (`limits`), but for causal light weights."""
        if self.mask == "causal":
            if self.beta is None:
                raise ValueError(f"causal {self.weights} weights: the causal law is that of a softmax; use lognormal")
            return CausalLaw(self.n, self.beta, self.head_dim)
        if self.head_dim is None:
            return QuarterCircle(self.layer.variance)
        return KeyQueryLaw(self.n, self.head_dim, float(self.beta or 0.0))

    @property
    def rival(self) -> QuarterCircle:
        """The law of independent entries with the same mean square."""
        return QuarterCircle(self.layer.variance if self.mask == "none" else self.law.moment(2))

    @property
    def distance(self) -> float:
        """The Kolmogorov distance within which one spectrum follows the law."""
        if self.mask == "causal":
            return (0.02 if self.head_dim is None else 0.03) + (0.01 if self.n < 500 else 0.0)
        wide = self.n < 1000 or (self.head_dim or 32) < 32
        return 0.03 if wide else 0.015

    def limits(self) -> str | None:
        """Why the law is not trusted to that distance, or None where it is."""
        if self.n < 300:
            return f"n = {self.n}: calibrated for n >= 300"
        if self.mask == "causal" and self.head_dim is not None and (self.beta or 0) > 0.85:
            return f"beta = {self.beta:g}: the causal bulk of key-query logits is calibrated up to .85"
        if self.mask == "causal" and (self.head_dim or 32) < 32:
            return f"head_dim = {self.head_dim}: the causal bulk of key-query logits is calibrated for head_dim >= 32"
        if isinstance(self.law, KeyQueryLaw | CausalLaw) and not self.law.in_range:
            return self.law.validity
        if self.beta is not None and self.beta > (1.0 if self.head_dim is None else 1.25):
            return f"beta = {self.beta:g}: rows of such heavy weights differ too much at this n; lower beta"
        return None

    def top(self, rank: int) -> Prediction:
        """The rank-th largest value, scaled, a median; its range is smaller: no single entry may carry it."""
        if self.mask == "causal":
            reason = self.limits()
            if reason is None:
                model = "iid" if self.head_dim is None else "keyquery"
                known = causal_predictions(self.n, float(self.beta or 0.0), model=model, head_dim=self.head_dim)
                ranks = known["singular_value"]
                assert isinstance(ranks, Mapping)
                return ranks[rank]
        elif self.head_dim is None:
            reason = self.layer.limits()
            if reason is None:
                value, detached = self.layer.leading[rank - 1]
                return _about(value * self.n**0.5, 0.10 if detached else 0.03, "median")
        else:
            reason = self.limits()
            if reason is None and Phase(self.n, float(self.beta or 0.0), self.head_dim).entry > -0.1:
                reason = f"beta = {self.beta:g}: single entries carry the leading values; lower beta or raise n"
            if reason is None:
                assert isinstance(self.law, KeyQueryLaw)
                return _about(float(self.law.top_value(rank)), 0.05 if self.n < 1000 else 0.03, "median")
        return out_of_range(reason, source=SOURCE, statistic="median")


def bulk_predictions(bulk: Bulk) -> Predictions:
    """kolmogorov_distance (a bound), decile {1..9}, mean_square, mean_fourth_power, leading_value {1..8}.

    A decile's band is where a cdf within `Bulk.distance` of the law can have it. mean_square 3 % and mean_fourth_power 5 %
    (closed forms; single rows of heavy weights move the fourth power, so it stops at beta = 0.9 for iid weights).
    """
    reason = bulk.limits()
    ranks = {rank: bulk.top(rank) for rank in range(1, LEADING + 1)}
    names = ("kolmogorov_distance", "mean_square", "mean_fourth_power")
    if reason:
        refused = out_of_range(reason, source=SOURCE)
        gone: Predictions = dict.fromkeys(names, refused)
        return gone | {"decile": dict.fromkeys(range(1, 10), refused), "leading_value": ranks}
    fourth: Prediction
    if bulk.mask == "causal":
        fourth = out_of_range("causal: the ladder, which does not average out, carries the fourth power", source=SOURCE)
    elif bulk.head_dim is None and bulk.beta is not None and bulk.beta > 0.9:
        fourth = out_of_range(f"beta = {bulk.beta:g}: single entries carry the fourth power above 0.9", source=SOURCE)
    else:
        fourth = _about(bulk.layer.fourth_moment if bulk.head_dim is None else bulk.law.moment(4), 0.05)
    found: Predictions = {
        "kolmogorov_distance": Bound(
            value=bulk.distance, side="upper", source=SOURCE, validity="see rmt.theorems.bulk.Bulk"
        ),
        "decile": {tenth: _decile(bulk, tenth / 10) for tenth in range(1, 10)},
        "mean_square": _about(bulk.law.moment(2), 0.03),
        "mean_fourth_power": fourth,
        "leading_value": ranks,
    }
    return found


def _decile(bulk: Bulk, share: float) -> Prediction:
    low, value, high = np.asarray(bulk.law.quantile(share + bulk.distance * np.array([-1.0, 0.0, 1.0])), dtype=float)
    return Approximation(
        value=float(value), band=(float(low), float(high)), source=SOURCE, validity="bulk", statistic="mean"
    )


def _about(value: float, fraction: float, statistic: str = "mean") -> Prediction:
    return Approximation(
        value=value,
        band=relative_band(value, fraction),
        statistic="median" if statistic == "median" else "mean",
        source=SOURCE,
        validity="see rmt.theorems.bulk.Bulk",
    )

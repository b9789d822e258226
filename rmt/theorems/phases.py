"""Phases of one softmax-attention layer in the plane of context length n and logit deviation beta, at fixed d_k.

Five regimes, by what carries the second singular value s_2 of A (derived; the first that holds names the regime):

    condensed      beta >= sqrt(2 ln n): a row's weight sits on a few tokens, there is no bulk (random energy model).
    entry outlier  the largest entry theta/sqrt(n) has left the bulk: s_2 = (theta + sigma^2/theta)/sqrt(n), one pair of
                   tokens. At small n it needs a beta of about 1; the threshold grows like sqrt(ln n).
    saturated      s_2 is within a tenth of beta/sqrt(d_k), its value for n -> infinity: more tokens open no gap.
    iid            s_2 is within a tenth of 2 sigma_n/sqrt(n), as for independent logits: n is far below d_k.
    proportional   between the two: n ~ d_k, the spectrum is neither a quarter circle nor frozen.

Where both tenths hold at once (beta near 0 and n near 4 d_k) the layer counts as saturated. The edge is that of the
all-degrees law (`rmt.laws.hermite`), for independent Gaussian queries and keys; it is calibrated where
`Layer.limits()` is None, beyond it the map is the asymptotic picture.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from rmt.laws.hermite import HermiteLaw
from rmt.theorems.layer import Layer, layer
from rmt.theorems.prediction import Approximation, Exact, Predictions, relative_band
from rmt.theorems.spectral_gap import ROWS, matrix_predictions

REGIMES = ("iid", "proportional", "saturated", "entry outlier", "condensed")
CLOSE = 1.1


@dataclasses.dataclass(frozen=True)
class Phase:
    """Where a layer of n tokens, logit deviation beta > 0 and head width head_dim stands: four indicators, one regime."""

    n: int
    beta: float
    head_dim: int

    def __post_init__(self) -> None:
        if not (self.n >= 2 and self.beta > 0 and self.head_dim >= 1):
            raise ValueError(f"n = {self.n}, beta = {self.beta}, head_dim = {self.head_dim}: needs n >= 2 and beta > 0")

    @property
    def layer(self) -> Layer:
        """Its one-layer model."""
        return layer(self.n, self.beta, self.head_dim)

    @property
    def condensation(self) -> float:
        """beta/sqrt(2 ln n): condensed from 1 on."""
        return self.layer.condensation

    @property
    def participation(self) -> float:
        """E sum_j A_ij^2, exact: one over the number of tokens that share a row's weight."""
        return (1 + self.layer.variance) / self.n

    @functools.cached_property
    def law(self) -> HermiteLaw:
        """The all-degrees law of the n - 1 singular values of (I - J) A that are not zero."""
        return HermiteLaw(self.n, self.layer.variance * self.n / (self.n - 1), self.beta, self.head_dim)

    @functools.cached_property
    def bulk(self) -> float:
        """s_2 of A as the edge of the bulk."""
        return math.sqrt(self.law.edge().square / self.n)

    @property
    def limit(self) -> float:
        """beta/sqrt(d_k)."""
        return self.beta / math.sqrt(self.head_dim)

    @property
    def spread(self) -> float:
        """The bulk's edge over that of independent logits, 2 sigma_n/sqrt(n): iid up to 1.1."""
        return self.bulk / (2 * math.sqrt(self.law.variance / self.n))

    @property
    def saturation(self) -> float:
        """The bulk's edge over its limit beta/sqrt(d_k): saturated up to 1.1."""
        return self.bulk / self.limit

    @functools.cached_property
    def entry(self) -> float:
        """How far the largest entry stands outside the bulk, in [-1, 1]: outside above 0.

        Minus half the logarithmic slope of z(g) = (1 + g R(g))^2/g^2 at g = sqrt(n)/theta, which changes sign at the edge.
        """
        law = self.law
        g = 1 / max(self.layer.largest_entry - self.n**-0.5, 1e-300)  # above the mean, which is no part of the bulk
        weight, ratio, _ = law.pieces
        if weight.size and g >= math.sqrt(float(np.min(ratio / weight))):
            return -1.0
        step = 1e-5

        def level(at: float) -> float:
            return math.log1p(at * float(law.r_transform(at))) - math.log(at)

        slope = (level(g * (1 + step)) - level(g * (1 - step))) / (2 * step)
        return -min(max(slope, -1.0), 1.0)

    @property
    def regime(self) -> str:
        """One of REGIMES."""
        if self.condensation >= 1:
            return "condensed"
        if self.entry > 0:
            return "entry outlier"
        if self.saturation <= CLOSE:
            return "saturated"
        return "iid" if self.spread <= CLOSE else "proportional"


def entry_threshold(n: int, head_dim: int) -> float:
    """The beta from which one entry stands outside the bulk, to 1 % (bisection; between 0.1 and sqrt(2 ln n))."""
    low, high = 0.1, math.sqrt(2 * math.log(n))
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if Phase(n, middle, head_dim).entry > 0 else (middle, high)
    return high


def phase_predictions(n: int, beta: float, head_dim: int) -> Predictions:
    """participation, second_singular_value, and saturation = s_2 sqrt(d_k)/beta, of key-query attention.

    Participation is exact; the other two are those of `matrix_predictions`, with its range and bands.
    """
    phase = Phase(n, beta, head_dim)
    known = matrix_predictions(phase.layer, removed=False)
    found = {"second_singular_value": known["second_singular_value"]}
    share = phase.participation
    found["participation"] = Exact(
        value=share, band=relative_band(share, 0.05), source=ROWS, standing="theorem", validity="any n, any beta"
    )
    second = found["second_singular_value"]
    if isinstance(second, Approximation):
        found["saturation"] = _scaled(second, 1 / phase.limit)
    return found


def _scaled(prediction: Approximation, factor: float) -> Approximation:
    if prediction.value is None or prediction.band is None:
        return prediction
    low, high = prediction.band
    return dataclasses.replace(prediction, value=prediction.value * factor, band=(low * factor, high * factor))

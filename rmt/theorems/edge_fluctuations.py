"""Fluctuations of the largest singular value of (I - 11^T/n) A: Tracy-Widom 1, with centring, scale and first correction.

iid weights (derived). Rows of A - J have covariance sigma_n^2/(n (n - 1)) on the n - 1 directions orthogonal to 1, and so
do its columns: with Gaussian entries n s_1^2 would be the edge of an (n - 1) x (n - 1) Wishart matrix of entry variance
sigma_n^2/(n - 1), centred as by Ma (2012), and
    xi = (n s_1^2 - centre)/scale  ~  TW_1.
Real weights change the length of the rows: |row|^2 has relative variance (2 + kappa)/n, where a row's normalisation
takes part of the entries' kurtosis away (delta method, weights a of mean 1, q = E a^2)
    kappa = [Var a^2 - 4 q Cov(a^2, a) + 4 q^2 Var a]/(q - 1)^2 - 2.
To first order the spectrum is that of a Gaussian matrix whose rows and columns carry independent multipliers of variance
kappa/(2n) each (both give the same E s^4), and a multiplier of variance v moves the edge 4 of n s^2/sigma^2 by 4 v. So
    E xi = E TW_1 + 2^(2/3) kappa n^(-1/3) + ...:
the correction is of the order n^(-1/3), not n^(-2/3), and vanishes slowly. kappa: uniform .13, gamma(2) 1, exponential 2,
lognormal of beta .3 .86, .5 3.3.

Measured, mean of xi / this formula: n = 100 (1500 draws, error .035): uniform -1.16/-1.16, gamma -.88/-.87, exponential
-.55/-.52, lognormal .3 -.91/-.91, .5 -.08/-.08; n = 300 (2500 draws, .027): uniform -1.19/-1.18, exponential -.74/-.73,
lognormal .3 -.98/-1.00, .5 -.30/-.42; n = 600 (900 draws, .043): exponential -.87/-.83. The variance exceeds that of
TW_1 by a factor of about 1 + .6 kappa n^(-1/3).

Key-query logits: centre and scale are those of the all-degrees law (`HermiteLaw.edge`), kappa is left out. Measured, mean
and sd of xi (400 draws): n = 256, beta = .5: d_k = 16 -1.46, 1.28; 64 -1.36, 1.35; 256 -1.27, 1.25 (TW_1: -1.21, 1.27).
"""

from __future__ import annotations

import dataclasses
import functools
import math

import scipy.special

from rmt.laws.edge_scaling import EdgeScaling, wishart_edge
from rmt.laws.tracy_widom import TracyWidom
from rmt.theorems.layer import Layer, layer
from rmt.theorems.light_weights import LightWeights
from rmt.theorems.phases import Phase
from rmt.theorems.prediction import Approximation, Predictions, absolute_band, out_of_range, relative_band

SOURCE = "johnstone2001; ma2012; derived, see rmt.theorems.edge_fluctuations"
SHAPED = 0.2  # kappa n^(-1/3) up to which the shape of the law of xi is that of TW_1 to the bands below
TENTHS = tuple(tenth / 10 for tenth in range(1, 10))


@dataclasses.dataclass(frozen=True)
class EdgeFluctuation:
    """The end of the spectrum of one layer, as in `rmt.theorems.bulk.Bulk`: beta None for light weights."""

    n: int
    beta: float | None
    head_dim: int | None = None
    weights: str = "lognormal"

    @functools.cached_property
    def layer(self) -> Layer:
        """The one-layer model with the effective variance."""
        light = None if self.beta is not None else LightWeights(self.weights)
        return layer(self.n, self.beta or 0.0, self.head_dim, light)

    @functools.cached_property
    def scaling(self) -> EdgeScaling:
        """n s_1^2 = centre + scale xi."""
        if self.head_dim is None:
            m = self.n - 1
            return wishart_edge(m, m, variance=self.layer.variance / m)
        edge = self.layer.law.edge()
        return EdgeScaling(edge.square, edge.scale)

    @property
    def kappa(self) -> float:
        """n times the relative variance of a row's squared length, less 2; 0 for key-query logits, where it is left out."""
        if self.head_dim is not None:
            return 0.0
        if self.beta is not None:  # the same for lognormal weights, where it would cancel at small beta
            q = math.exp(self.beta**2)
            return q * q * (q * q + 2 * q - 1) - 2
        q, third, fourth = (self._moment(k) for k in (2, 3, 4))
        return (fourth - q * q - 4 * q * (third - q) + 4 * q * q * (q - 1)) / (q - 1) ** 2 - 2

    @property
    def shift(self) -> float:
        """E xi - E TW_1."""
        return 2 ** (2 / 3) * self.kappa * self.n ** (-1 / 3)

    def limits(self) -> str | None:
        """Why the law is not calibrated here, or None."""
        if self.n < 64:
            return f"n = {self.n}: calibrated for n >= 64"
        if self.head_dim is not None:
            if self.n < 200 or (self.beta or 0) > 0.6 or self.head_dim < 16:
                return (
                    f"n = {self.n}, beta = {self.beta:g}, d_k = {self.head_dim}: needs n >= 200, beta <= .6, d_k >= 16"
                )
            if Phase(self.n, float(self.beta or 0.0), self.head_dim).entry > -0.1:
                return f"beta = {self.beta:g}: single entries come close to the edge; lower beta or raise n"
            return None
        if self.kappa * self.n ** (-1 / 3) > 0.5:
            return f"kappa n^(-1/3) = {self.kappa * self.n ** (-1 / 3):.2g}: the expansion needs at most .5; raise n"
        return None

    def _moment(self, k: int) -> float:
        """E a^k of light weights, E a = 1."""
        if self.weights == "uniform":
            return 2**k / (k + 1)
        shape = {"exponential": 1.0, "gamma": 2.0}[self.weights]
        return float(scipy.special.poch(shape, k)) / shape**k


def edge_predictions(edge: EdgeFluctuation) -> Predictions:
    """edge_coordinate (mean of xi), edge_variance (mean of (xi - E xi)^2), share_below {1..9} of the deciles of TW_1.

    `share_below` is the share of xi - shift below the k-th decile. Bands: mean .08 + a fifth of the shift (key-query .3);
    variance 20 % and shares .04, both where kappa n^(-1/3) <= .2 (key-query 25 % and .1).
    """
    reason = edge.limits()
    tenths = range(1, 10)
    if reason:
        refused = out_of_range(reason, source=SOURCE)
        gone: Predictions = {"edge_coordinate": refused, "edge_variance": refused}
        return gone | {"share_below": dict.fromkeys(tenths, refused)}
    law, keyquery = TracyWidom(beta=1), edge.head_dim is not None
    mean = law.mean + edge.shift
    width = 0.3 if keyquery else 0.08 + 0.2 * abs(edge.shift)
    found: Predictions = {"edge_coordinate": _about(mean, absolute_band(mean, width))}
    strong = edge.kappa * edge.n ** (-1 / 3)
    if strong > SHAPED:
        refused = out_of_range(
            f"kappa n^(-1/3) = {strong:.2g}: the shape is calibrated up to {SHAPED}; raise n", source=SOURCE
        )
        return found | {"edge_variance": refused, "share_below": dict.fromkeys(tenths, refused)}
    variance = law.variance
    found["edge_variance"] = _about(variance, relative_band(variance, 0.25 if keyquery else 0.2))
    slack = 0.1 if keyquery else 0.04
    found["share_below"] = {k: _about(k / 10, absolute_band(k / 10, slack)) for k in tenths}
    return found


def _about(value: float, band: tuple[float, float]) -> Approximation:
    return Approximation(value=value, band=band, source=SOURCE, validity="see rmt.theorems.edge_fluctuations")

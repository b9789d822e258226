"""Predictions for softmax with a sink, A_ij = e^l_ij/(e^b + sum_k e^l_ik): without a mask it only shortens the rows."""

from __future__ import annotations

import math

from rmt.theorems.layer import Layer
from rmt.theorems.outlier_and_bulk import Errors, OutlierAndBulk, Predictions
from rmt.theorems.prediction import values_out_of_range

SOURCE = "derived, see rmt.theorems.sinks"


def sink_predictions(layer: Layer, sink: float, *, removed: bool, widths: tuple[int, ...] = ()) -> Predictions:
    """What to expect of A, or of A centred, (I - 11^T/n) A, where `removed`; `sink` is b, 0 being softmax-off-by-one.

    Row i sums to rho_i = 1/(1 + e^(b - v_i/2)/n), v_i its log-variance: the n keys put n e^(v/2) against the sink. So the
    outlier and the bulk shrink alike by rho, and the gap ratio stays. Key-query rows differ in v_i, hence the mean of rho^2
    over rows. At beta .7, n = 1000, b = 0, 3, 6, ln n: .9995 .9848 .7603 .5611, measured .9995 .9848 .7601 .5612.
    widths: of independent value tokens, for those after A.
    Bands: rho 0.1 %, variance 4 %, s_1^2 - rho^2 15 %, values of the bulk 4 % (12 % where one entry carries it).
    """
    reason = layer.limits()
    if reason:
        names = ["frobenius_norm_squared", "top_singular_value", "second_singular_value", "gap_ratio"]
        names += ["attention_stable_rank"] if removed else ["attention_stable_rank", "spectral_gap"]
        return values_out_of_range(names, reason, source=SOURCE)
    types, weights = layer.temperatures
    shares = [1 / (1 + math.exp(min(sink - layer.beta**2 * r / 2, 700.0)) / layer.n) for r in types]
    level = math.sqrt(sum(w * rho**2 for w, rho in zip(weights, shares, strict=True)))
    detached = any(entry for _, entry in layer.leading)
    model = OutlierAndBulk(
        n=layer.n,
        variance=layer.variance,
        effect=layer.column_effect,
        level=level,
        bulk=tuple(level * value for value, _ in layer.leading),
        errors=Errors(variance=0.04, top=0.15, bulk=0.12 if detached else 0.04, level=0.001),
        source=SOURCE,
        validity="n >= 200, beta <= 1",
    )
    return model.removed() if removed else model.kept() | (model.tokens(widths) if widths else {})

"""The dose-response of the outlier: what A - (1 - eta) 11^T/n does to tokens and gradients, layer by layer.

The logarithm of the excess of the Gram stable rank falls by
    ln(n^2/sigma_n^4) + 4 ln eta - [ratio of fourth moments]
a layer while the outlier leads (`rmt.theorems.depth`), and ||dX_L/dW_l||_F^2 = d (s^2 d)^(L-1) F_L with F_L the exact
second moment at that dose (`rmt.theorems.moments`): F_L ~ eta^(2L) while eta^2 >> sigma^2/n. So with s = 1 a gradient
grows by n eta^2 a layer, and with s^2 = 1/d by eta^2 (1 + O(1/n)) down to sigma_n^2/n at eta = 0 (derived).

Measured, n = d = 128, 256, 512, beta = 0.8326, L = 4, 16 draws, eta = 0 ... 1: growth within 0.003 a layer; collapse rate
0.01 to 0.04 above (the logarithm of a mean against the mean of a logarithm); rank within 3 %.
"""

from __future__ import annotations

import math

import numpy as np

from rmt.theorems.depth import depth_predictions
from rmt.theorems.layer import layer
from rmt.theorems.moments import moments_along_depth
from rmt.theorems.prediction import Approximation, Prediction, absolute_band, out_of_range

__all__ = ["dose_predictions"]

SOURCE = "nait-saada2024; derived, see rmt.theorems.dose"
VALIDITY = "iid logits or key-query ones, orthonormal tokens, one head, no skip, no norm"


def dose_predictions(
    *,
    model: str,
    n: int,
    width: int,
    beta: float,
    head_dim: int | None,
    depth: int,
    eta: float,
    unit_weights: bool,
    tokens: str,
) -> dict[str, Prediction]:
    """Predictions of branch_stable_rank, collapse_rate and gradient_growth.

    Bands: the rank 5 %; the rate that of the last layer's logarithm over the layers it spans; the growth 5 % of the
    squared norm over them, and what the mean of a logarithm loses to the scatter of the rank, 2/d a layer.
    """
    if model not in ("iid", "keyquery") or tokens != "orthonormal" or beta == 0 or n < 3 or not 0 <= eta <= 1:
        return {}
    along = depth_predictions(
        model=model,
        n=n,
        width=width,
        value_width=width,
        beta=beta,
        head_dim=head_dim,
        depth=depth,
        variant="outlier_scaled",
        eta=eta,
    )
    found: dict[str, Prediction] = {}
    if "token_stable_rank" in along:
        found["branch_stable_rank"] = along["token_stable_rank"][1]
    steps = max(depth - 1, 1)
    logs = along.get("log_gram_stable_rank_excess", {})
    if depth > 1 and logs:
        first, last = logs[1], logs[depth]
        if first.value is None or last.value is None:
            found["collapse_rate"] = out_of_range(last.validity, source=SOURCE)
        else:
            rate = (first.value - last.value) / steps
            width_of_last = last.band[1] - last.value if last.band else 0.0
            band = absolute_band(rate, width_of_last / steps)
            found["collapse_rate"] = Approximation(value=rate, band=band, source=SOURCE, validity=VALIDITY)
    if depth > 1:
        one = layer(n, float(beta), head_dim if model == "keyquery" else None)
        energy = np.array([m.energy for m in moments_along_depth(n, one.variance, depth, removed=1 - eta)])
        growth = math.log(width if unit_weights else 1.0) + math.log(energy[depth] / energy[1]) / steps
        band = absolute_band(growth, 0.05 / steps + 2 / width + one.column_effect)
        found["gradient_growth"] = Approximation(value=growth, band=band, source=SOURCE, validity=VALIDITY)
    return found

"""E ||dX_L/dW_l||_F^2 for the value weights of attention that does not look at its tokens, without skip and norm.

dX_L/dW_l = (P X_0 W_1 ... W_(l-1)) (x) (W_(l+1) ... W_L)^T with P = A_L ... A_1. Entries of W have variance s^2, so every
further factor multiplies the expected square by s^2 d, and rows of X_0 orthonormal (or of mean square one) give

    E ||dX_L/dW_l||_F^2 = d (s^2 d)^(L-1) F_L,     F_L = E ||P||_F^2,     the same for every l              (exact, derived)
    kept:     F_L = 1 + sigma_n^2 (L = 1), ~ 1 + 2 sigma_n^2/n (2), ~ 1 + sigma_n^2/n (more);   removed: ~ sigma_n^(2L) n^(1-L)

(`rmt.theorems.moments`). So with s = 1 and d = n the gradient grows like n^L kept and like n removed; with the usual
s^2 = 1/d it is flat in depth kept (~ d) and vanishes like n^(2-L) removed: "exploding" and "controlled" are statements
about the weight scale. A removed outlier with its bulk rescaled by sqrt(n)/sigma has F_L ~ n and is flat in both.

Measured over this, L = 3, 64 draws of 16 weight draws: n = d = 50 1.003, 100 1.001, 200 1.001 (kept), 0.998, 1.000, 0.999
(removed); standard errors 0.005 or less. Band 5 %.
"""

from __future__ import annotations

import math

from rmt.theorems.layer import layer
from rmt.theorems.moments import moments_along_depth
from rmt.theorems.prediction import Exact, Prediction, out_of_range, relative_band

__all__ = ["gradient_predictions"]

SOURCE = "nait-saada2024; derived, see rmt.theorems.gradient_norms"
VALIDITY = "attention independent of the tokens, no skip, no norm, one head; every n, d, L"


def gradient_predictions(
    *,
    model: str,
    n: int,
    width: int,
    beta: float,
    head_dim: int | None,
    depth: int,
    variant: str,
    unit_weights: bool,
    factorises: bool,
) -> dict[str, dict[int, Prediction]]:
    """Predictions of gradient_norm_squared by layer; {} for what has no theory.

    variant: "plain", "outlier_removed", or "rescaled" (the bulk times sqrt(n)/sigma, sigma^2 = e^(beta^2) - 1).
    """
    if variant == "rescaled" and beta == 0:
        return {}
    if not factorises or variant not in ("plain", "outlier_removed", "rescaled", "identity") or n < 2:
        return {}
    one = layer(n, float(beta), head_dim if model == "keyquery" else None)
    if model == "keyquery" and one.row_limits():
        reason = out_of_range(one.row_limits() or "", source=SOURCE)
        return {"gradient_norm_squared": dict.fromkeys(range(1, depth + 1), reason)}
    share = 0.05 + one.column_effect  # rows that share their keys are not independent
    removed = variant in ("outlier_removed", "rescaled")
    energy = moments_along_depth(n, one.variance, depth, removed=float(removed))[-1].energy
    if variant == "identity":
        energy = float(n)
    log = math.log(width) + (depth - 1) * math.log(width if unit_weights else 1.0)
    log += math.log(energy) if energy > 0 else -math.inf
    if variant == "rescaled":
        log += depth * math.log(n / math.expm1(beta**2))
    if log > 690 or -math.inf < log < -690:
        gone = out_of_range(f"e^{log:.0f} leaves the range of a double", source=SOURCE)
        return {"gradient_norm_squared": dict.fromkeys(range(1, depth + 1), gone)}
    value = math.exp(log)
    said = Exact(value=value, band=relative_band(value, share), source=SOURCE, validity=VALIDITY)
    return {"gradient_norm_squared": dict.fromkeys(range(1, depth + 1), said)}

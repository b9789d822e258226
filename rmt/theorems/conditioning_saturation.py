"""What a shift does to attention at initialisation: the softmax hardens onto the diagonal and queries and keys freeze.

One head, n tokens of unit variance (layer norm), logits x_i^T (W_Q + shift E)(W_K + shift E)^T x_j / sqrt(head_dim), weights of
scale s = std sqrt(width). Derived, CLT for head_dim large: logits off the diagonal have variance v = (s^2 + shift^2)^2, the
one on it is N(shift^2 sqrt(head_dim), s^4 + 2 s^2 shift^2 + 2 shift^4), and the sum over the other keys is (n - 1) e^(v/2)
(annealed). Hence
    E P_ii = E_g p(g),   p = 1/(1 + (n - 1) exp(v/2 - shift^2 sqrt(head_dim) - spread g)),   g ~ N(0, 1),
and the other keys share 1 - p like independent lognormal weights: entropy h(p) + (1 - p)(ln(n - 1) - v/2), h the entropy of one
choice, and 1 - sum_j p_j^2 = 1 - p^2 - (1 - p)^2 e^v/(n - 1).
Ratio to measurement at width 768, head_dim 64, n = 256 (4 draws): s = .554: .99 1.00 1.04 .97 at shift .25 .5 .75 1; s = 1: 1.01
1.03 .99 .98. The part of shift alone, 1/(1 + (n - 1) exp(-shift^2 sqrt(head_dim) + shift^4/2)), misses s = 1, shift 1 by half.
The annealed sum fails as single keys win: at s = 1.36 (v = 3.4) P_ii is 18 % low. head_dim 32 is up to 13 % off.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from rmt.theorems.prediction import Approximation, Prediction, out_of_range, relative_band

__all__ = ["saturation", "soft_window", "usable_window"]

SOURCE = "derived, see rmt.theorems.conditioning_saturation"
LARGEST_VARIANCE = 0.35  # of ln n: beyond it single keys carry the sum
SMALLEST_HEAD = 64
FEWEST_TOKENS = 48


def saturation(n: int, head_dim: int, *, scale: float, shift: float) -> dict[str, Prediction]:
    """E P_ii, mean row entropy (nats) and mean 1 - sum_j p_j^2 at initialisation of a shifted head; scale is s = std sqrt(width).

    In range: n >= 48, head_dim >= 64, logit variance v = (s^2 + shift^2)^2 <= 0.35 ln n; a limit of exactly 1 is never
    claimed. Bands 8 %, 2 %, 4 %. Beyond, the entropy leaves its band first, as single keys carry the row: its error is 0.8
    of the band at v = 0.35 ln n, 1.0 to 1.3 at 0.40, 1.8 at 0.47 (n = 48 to 1024, 192 draws).
    """
    names = ("diagonal_attention", "attention_entropy", "softmax_sensitivity")
    variance = (scale**2 + shift**2) ** 2
    if head_dim < SMALLEST_HEAD or n < FEWEST_TOKENS:
        return dict.fromkeys(
            names, out_of_range(f"head_dim = {head_dim}, n = {n}: needs 64 and 48 at least", source=SOURCE)
        )
    if variance > LARGEST_VARIANCE * math.log(n):
        rule = f"logit variance {variance:.3g} > 0.35 ln n = {LARGEST_VARIANCE * math.log(n):.3g}: single keys carry the row"
        return dict.fromkeys(names, out_of_range(rule, source=SOURCE))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    spread = math.sqrt(scale**4 + 2 * scale**2 * shift**2 + 2 * shift**4)
    odds = (n - 1) * np.exp(variance / 2 - shift**2 * math.sqrt(head_dim) - spread * nodes)
    p, rest = 1 / (1 + odds), odds / (1 + odds)
    entropy = -special.xlogy(p, p) - special.xlogy(rest, rest) + rest * (math.log(n - 1) - variance / 2)
    sensitivity = 1 - p**2 - rest**2 * math.exp(variance) / (n - 1)
    validity = f"head_dim {head_dim} >= 64, logit variance {variance:.3g} <= 0.35 ln n"
    found: dict[str, Prediction] = {}
    for name, values, fraction in zip(names, (p, entropy, sensitivity), (0.08, 0.02, 0.04), strict=True):
        value = float(weights / weights.sum() @ values)
        found[name] = Approximation(value=value, band=relative_band(value, fraction), source=SOURCE, validity=validity)
    return found


def soft_window(n: int, head_dim: int) -> float:
    """The shift below which attention stays soft at initialisation: shift^2 sqrt(head_dim) - shift^4/2 < (ln n)/2 (derived).

    0.60 for n = 256, head_dim = 64. Where the left side never gets there (very small heads) its maximum is returned.
    """
    root, target = math.sqrt(head_dim), math.log(n) / 2
    inner = root**2 - 2 * target
    return math.sqrt(root - math.sqrt(inner)) if inner > 0 else math.sqrt(root)


def usable_window(n: int, head_dim: int, *, scale: float) -> tuple[float, float] | None:
    """Shifts that improve kappa of a square weight (shift > scale) and keep attention soft; None where there is none.

    n = 256, head_dim = 64: none at scale 1 (Xavier), (0.554, 0.60) at std 0.02, width 768.
    """
    top = soft_window(n, head_dim)
    return (scale, top) if scale < top else None

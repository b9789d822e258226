"""Bounds of the condition number of an attention Jacobian: the paper's, what is wrong with it, and one that holds.

spectral-conditioning, Theorem 3.4: kappa(J) <= kappa(X)^3 kappa(Lambda) kappa(W_V) (kappa(W_Q) + kappa(W_K)) + kappa(X) kappa(P),
Lambda the derivative of the row softmax. Literally it is infinite: Lambda maps a constant shift of a row of logits to zero, so
n of its singular values vanish exactly; and layer-normed tokens have rank <= width - 1, so kappa(X) is infinite too from
n = width on.
In pseudo form (non-zero singular values) it held in every random draw tried, with a slack of 70 to 3e5, but not in general: the
right side does not change when W_V -> c W_V while kappa(J) grows like c if value_dim >= n (n = 4, width = head_dim = 8,
c = 1e6: kappa(J) = 8.6e7 above 2.6e7).

Replacement (derived). Let P X have rank n, so n <= width. J J^T >= J_V J_V^T = (P X)(P X)^T (x) I, hence
    sigma_min(J) >= sigma_min(P X)   and   kappa(J) <= sqrt(|J_Q|^2 + |J_K|^2 + |J_V|^2)/sigma_min(P X),   |J_V| = |P X|.
If X W_V w = 1 can be solved (value_dim >= n and X W_V of rank n) then sigma_min(J) = sigma_min(P X) exactly: with u the last
left singular vector of P X, J_Q^T and J_K^T annihilate u (x) w because (diag p - p p^T) 1 = 0. The weights enter through P and
|J| only.
Median slack of the bound 1.07 to 1.12 where value_dim >= n; for value_dim < n it grows without limit: n = 512, head 64 gives 500.
"""

from __future__ import annotations

import math

from rmt.theorems.prediction import Bound, Exact, Prediction, relative_band

__all__ = ["gauge_bound", "jacobian_predictions", "paper_bound", "replacement_bound"]

SOURCE = "derived, see rmt.theorems.conditioning_bounds"
ROUNDING = 1e-8


def paper_bound(*, tokens: float, softmax: float, attention: float, query: float, key: float, value: float) -> float:
    """Theorem 3.4 from condition numbers: of X, of Lambda, of P, of W_Q, W_K and W_V. Infinite if one of them is."""
    return tokens**3 * softmax * value * (query + key) + tokens * attention


def replacement_bound(*, query_norm: float, key_norm: float, mixed_norm: float, mixed_smallest: float) -> float:
    """The bound that holds, from |J_Q|, |J_K|, |P X| and sigma_n(P X); infinite where P X has not rank n."""
    if mixed_smallest <= 0:
        return math.inf
    return math.sqrt(query_norm**2 + key_norm**2 + mixed_norm**2) / mixed_smallest


def jacobian_predictions(*, n: int, rank: int, value_dim: int) -> dict[str, Prediction]:
    """sigma_min(J)/sigma_min(P X), an identity or a bound, and kappa(J) over its bound, for tokens of that rank.

    Softmax attention; nothing is said for n > rank.
    """
    if n > rank:
        return {}
    if value_dim >= n:
        ratio: Prediction = Exact(
            value=1.0,
            band=relative_band(1.0, ROUNDING),
            source=SOURCE,
            validity=f"value_dim {value_dim} >= n, n <= {rank}",
        )
    else:
        ratio = Bound(
            value=1.0 - ROUNDING, side="lower", source=SOURCE, validity=f"n = {n} <= rank {rank} of the tokens"
        )
    over = Bound(value=1.0 + ROUNDING, side="upper", source=SOURCE, validity=f"n = {n} <= rank {rank} of the tokens")
    return {"smallest_over_mixed": ratio, "condition_over_bound": over}


def gauge_bound() -> Prediction:
    """|J g|/(|J| |g|) for g = (W_Q G, -W_K G^T, 0): zero, up to rounding."""
    return Bound(value=1e-10, side="upper", source=SOURCE, validity="scores depend on W_Q W_K^T alone")

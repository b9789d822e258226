"""Predictions for the tokens after one layer whose queries, keys and values are made of the same tokens X."""

from __future__ import annotations

import math

from rmt.theorems.coherent_tokens import layer
from rmt.theorems.prediction import Approximation, Prediction, out_of_range, relative_band

SOURCE = "derived: coherent and incoherent parts of the tokens, see rmt.theorems.coherent_tokens"
# Measured over predicted stable rank: 0.94 to 1.00 at .43 to .58; 0.75 at .93, 0.72 at 1.07, 0.52 at 1.9.
MOST_RIVALS = 0.6
_RANKS = ("token_stable_rank", "gram_stable_rank", "gram_stable_rank_excess")
_NAMES = (*_RANKS, "token_cosine", "rank_one_residual")


def shared_token_predictions(
    n: int,
    beta: float,
    *,
    width: int,
    head_dim: int,
    tokens: str,
    value_width: int,
    heads: int = 1,
    kv_heads: int | None = None,
    position: str = "none",
    norm: str = "none",
) -> dict[str, Prediction]:
    """What to expect of T = A X W_V, by quantity; all are means over tokens and weights.

    Measured over predicted, 40, 24, 8 draws at n = width = value_width = 256, 512, 1024, and 10-24 at (n, width, value width) =
    (1024, 256, 64), (512, 512, 64), (1024, 768, 64), d_k = 64, beta 0.3 to 1, Gaussian and layer-normalised tokens: mean
    eigenvalue of T_c^T T_c 0.97 to 1.01; token stable rank 0.98 to 1.01 for value_width >= 256, else 0.95 to 1.07 (values from
    independent tokens would give 1 + sigma^2, up to 2.3 times less); excess of the Gram stable rank 0.95 to 1.08, for
    value_width 64 0.81 to 1.21 at standard errors of 0.05 to 0.18; cosine 0.97 to 1.05, for value_width 64 to 1.09.
    Heads 4, width 256 and 512, value width = width, beta .5 and 1 (16 draws): all within 3.5 %, excess within 7 %.
    Heads that share keys and values (heads/kv_heads 4/1, 4/2, 8/1, 8/2, n = 300 to 1024, width 256 and 512, beta .5 to 1, 16-48
    draws): token stable rank 0.99 to 1.01 (errors 0.01 to 0.05), excess 0.95 to 1.00 (0.05 to 0.12), cosine 0.99 to 1.03. As
    queries of two heads are independent, what they share, |M^T Z M|_F^2 with Z iid, depends on |M|_F alone, shared or not.
    RoPE, QK-norm and both, n = 300 to 1024, width 128 and 256, value width 64 to 256, heads/kv_heads 1/1 and 4/2, beta .5 to 1
    (12-32 draws): token stable rank 0.98 to 1.02 (errors 0.01 to 0.04), cosine 0.99 to 1.03 (0.01 to 0.05), residual 0.99 to
    1.01, excess 0.89 to 1.14 (0.07 to 0.09). At n = 16 width the mean eigenvalue is 0.98 to 1.02, its second moment under
    RoPE 0.81 to 0.96 (slow pairs are not all kept or lost): refused beyond.
    Bands: 5 %, excess 15 %; with fewer than 256 different value columns 10 % and 25 %; RoPE, QK-norm: excess 25 %.
    Raises ValueError for unknown tokens.
    """
    if tokens not in ("gaussian", "layernorm"):
        raise ValueError(f"tokens {tokens}: predicted are gaussian and layernorm")
    if beta == 0:
        return {}
    reason = f"head_dim = {head_dim} over width {width}: the head must not be wider than the tokens"
    one = (
        layer(n, float(beta), width, head_dim, value_width, tokens, heads, kv_heads, position, norm)
        if head_dim <= width
        else None
    )
    if one is None or (reason := one.limits() or ""):
        return dict.fromkeys(_NAMES, out_of_range(reason, source=SOURCE))
    excess, apart = one.excess, 1 - one.mean_token / one.energy
    band, rest = (0.05, 0.15) if one.columns >= 256 else (0.10, 0.25)
    rest = rest if position == norm == "none" else 0.25
    found = {
        "token_stable_rank": _about(one.energy / one.top_squared, band),
        "gram_stable_rank": _about(1 + excess, rest * excess / (1 + excess)),
        "gram_stable_rank_excess": _about(excess, rest),
        "token_cosine": _about(one.cosine, band),
        "rank_one_residual": _about(math.sqrt(apart), 0.05),
    }
    if one.rivals > MOST_RIVALS:
        mixed = (
            f"n beta^2 = {n * beta**2:.4g}, width {width}, head_dim {head_dim}: single directions rival the mean token"
        )
        found |= dict.fromkeys(_RANKS, out_of_range(f"{mixed}; widen the tokens or lower beta", source=SOURCE))
    return found


def _about(value: float, width: float) -> Prediction:
    return Approximation(
        value=value,
        band=relative_band(value, width),
        source=SOURCE,
        validity="n >= 256, beta <= 1, head_dim >= 16, value width >= 32, effective dimension >= 12",
    )

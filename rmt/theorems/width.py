"""Every prediction for one attention layer, in one call."""

from __future__ import annotations

from rmt.theorems.layer import layer
from rmt.theorems.rank_collapse import token_predictions
from rmt.theorems.spectral_gap import Predictions, matrix_predictions


def width_predictions(
    *,
    model: str,
    n: int,
    beta: float,
    head_dim: int | None,
    variant: str,
    tokens: str,
    width: int,
    value_width: int,
) -> Predictions:
    """Predictions by quantity for model "iid" or "keyquery", variant "plain" or "outlier_removed".

    tokens: "orthonormal", or "independent" for Gaussian value tokens. Raises ValueError for an unknown model or variant.
    """
    if model not in ("iid", "keyquery") or variant not in ("plain", "outlier_removed"):
        raise ValueError(f"model {model}, variant {variant}: predicted are iid, keyquery; plain, outlier_removed")
    one = layer(n, float(beta), head_dim if model == "keyquery" else None)
    removed = variant == "outlier_removed"
    after = token_predictions(
        one, removed=removed, orthonormal=tokens == "orthonormal", width=width, value_width=value_width
    )
    return matrix_predictions(one, removed=removed) | after

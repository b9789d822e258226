"""Every prediction for one attention layer, in one call."""

from __future__ import annotations

import dataclasses

from rmt.theorems.layer import layer
from rmt.theorems.light_weights import LIGHT, LightWeights
from rmt.theorems.rank_collapse import token_predictions
from rmt.theorems.spectral_gap import Predictions, matrix_predictions

MODELS = ("iid", "keyquery")
MASKS = ("none", "causal")
WEIGHTS = ("lognormal", *LIGHT)
TOKENS = ("independent", "orthonormal")
VARIANTS = ("plain", "outlier_removed", "centred", "running_mean_removed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneLayer:
    """One layer of attention over n tokens, in the words of the command line.

    model: "iid" logits or "keyquery" logits of head width head_dim; beta: nominal standard deviation of the logits.
    weights: law of the iid weights; beta matters to lognormal ones only. mask: which keys a query sees.
    tokens: "independent" Gaussian value tokens, or "orthonormal" ones; width, value_width: of tokens and value weights.
    variant: how the layer is altered.
    """

    n: int
    model: str = "keyquery"
    beta: float | None = 1.0
    weights: str | None = "lognormal"
    head_dim: int | None = 64
    mask: str = "none"
    tokens: str = "independent"
    width: int
    value_width: int
    variant: str = "plain"

    def __post_init__(self) -> None:
        choices = (
            ("model", MODELS),
            ("weights", (None, *WEIGHTS)),
            ("mask", MASKS),
            ("tokens", TOKENS),
            ("variant", VARIANTS),
        )
        for name, known in choices:
            if getattr(self, name) not in known:
                raise ValueError(f"{name} {getattr(self, name)}: must be one of {', '.join(k for k in known if k)}")

    def unknown(self) -> str | None:
        """Why no theorem here speaks of this layer, or None."""
        if self.mask != "none":
            return f"mask {self.mask}: no prediction"
        if self.variant not in ("plain", "outlier_removed"):
            return f"variant {self.variant}: no prediction"
        return None


def width_predictions(one: OneLayer) -> Predictions:
    """Predictions by quantity; what no theorem speaks of is absent, what is out of a theorem's range gives no number."""
    if one.unknown():
        return {}
    light = LightWeights(one.weights) if one.model == "iid" and one.weights in LIGHT else None
    beta = 0.0 if light else float(one.beta or 0.0)
    model = layer(one.n, beta, one.head_dim if one.model == "keyquery" else None, light)
    removed = one.variant == "outlier_removed"
    after = token_predictions(
        model,
        removed=removed,
        orthonormal=one.tokens == "orthonormal",
        width=one.width,
        value_width=one.value_width,
    )
    return matrix_predictions(model, removed=removed) | after

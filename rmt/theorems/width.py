"""Every prediction for one attention layer, in one call."""

from __future__ import annotations

import dataclasses
import math

from rmt.theorems.causal import causal_predictions
from rmt.theorems.causal_ladder import causal_cosine, ladder_predictions
from rmt.theorems.eigenvalues import eigenvalue_predictions
from rmt.theorems.layer import layer
from rmt.theorems.light_weights import LIGHT, LightWeights
from rmt.theorems.normalised_heads import qk_norm_predictions
from rmt.theorems.rank_collapse import token_predictions
from rmt.theorems.shared_layer import shared_predictions
from rmt.theorems.shared_tokens import shared_token_predictions
from rmt.theorems.spectral_gap import Predictions, matrix_predictions

MODELS = ("iid", "keyquery")
MASKS = ("none", "causal", "window")
WEIGHTS = ("lognormal", *LIGHT)
TOKENS = ("independent", "orthonormal", "gaussian", "layernorm")
ATTENTIONS = ("softmax", "sigmoid", "relu", "linear", "tanh")
VARIANTS = ("plain", "outlier_removed", "centred", "running_mean_removed")
KNOWN = {"none": ("plain", "outlier_removed"), "causal": ("plain", "running_mean_removed")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneLayer:
    """One layer of attention over n tokens, in the words of the command line of width_collapse.

    model: "iid" logits or "keyquery" logits of head width head_dim; beta: nominal standard deviation of the logits.
    weights: law of the iid weights; beta matters to lognormal ones only. mask, window: which keys a query sees.
    tokens: "independent" Gaussian value tokens, or tokens that queries, keys and values share; any other name is given
    tokens of unknown law. width, value_width: of tokens and of the values of all heads. weight_init: law of the weights.
    attention: from logits to weights. cap, norm, sink, position, slope: soft cap, QK-norm, sink, RoPE or ALiBi.
    variant: how the layer is altered.
    """

    n: int
    model: str = "keyquery"
    beta: float | None = 1.0
    weights: str | None = "lognormal"
    head_dim: int | None = 64
    mask: str = "none"
    window: int | None = None
    tokens: str = "independent"
    width: int
    value_width: int
    weight_init: str = "gaussian"
    heads: int = 1
    kv_heads: int | None = None
    attention: str = "softmax"
    cap: float | None = None
    norm: str = "none"
    sink: float | None = None
    position: str = "none"
    slope: float | None = None
    variant: str = "plain"

    def __post_init__(self) -> None:
        choices = (
            ("model", MODELS),
            ("weights", (None, *WEIGHTS)),
            ("mask", MASKS),
            ("attention", ATTENTIONS),
            ("variant", VARIANTS),
        )
        for name, known in choices:
            if getattr(self, name) not in known:
                raise ValueError(f"{name} {getattr(self, name)}: must be one of {', '.join(k for k in known if k)}")

    @property
    def shared(self) -> bool:
        """Whether it matters that logits and values come from the same tokens.

        Orthonormal tokens times weights with iid entries have queries, keys and values as good as independent.
        """
        if self.model != "keyquery" or self.tokens == "independent":
            return False
        return self.tokens != "orthonormal" or self.weight_init == "orthogonal"

    def unknown(self) -> str | None:
        """Why no theorem here speaks of the attention matrix of this layer, or None."""
        if self.mask == "window":
            return f"mask {self.mask}: no prediction"
        if self.attention != "softmax":
            return f"{self.attention} attention: no prediction"
        for name in ("cap", "sink", "slope"):
            if getattr(self, name) is not None:
                return f"{name} {getattr(self, name):g}: no prediction"
        if self.norm != "none" and (self.shared or self.mask != "none"):
            return f"norm {self.norm} over {self.tokens} tokens, mask {self.mask}: no prediction"
        if self.shared and (self.tokens not in ("gaussian", "layernorm") or self.mask != "none"):
            mask = "" if self.mask == "none" else f" and mask {self.mask}"
            return f"{self.tokens} tokens with {self.weight_init} weights{mask}: no prediction"
        if self.shared and self.position == "rope":
            return f"rope over {self.tokens} tokens: no prediction"
        if self.mask == "causal" and self.model == "iid" and self.weights in LIGHT:
            return f"mask causal with {self.weights} weights: no prediction"
        if self.variant not in KNOWN[self.mask]:
            return f"variant {self.variant} with mask {self.mask}: no prediction"
        return None

    def unknown_tokens(self) -> str | None:
        """Why no theorem here speaks of the tokens after this layer, or None."""
        if self.heads > 1:
            return f"{self.heads} heads: no prediction for their tokens"
        if self.mask == "causal" and self.variant != "plain":
            return f"variant {self.variant} with mask {self.mask}: no prediction for its tokens"
        if self.tokens not in TOKENS or self.weight_init == "orthogonal":
            return f"{self.tokens} tokens with {self.weight_init} weights: no prediction"
        return None


def width_predictions(one: OneLayer, *, equations_up_to: float = math.inf) -> Predictions:
    """Predictions by quantity; what no theorem speaks of is absent, what is out of a theorem's range gives no number.

    equations_up_to: causal attention over more tokens has the closed forms of its first rungs only. Its equations take a
    fraction of a second at n = 512 and seconds at n = 10^5; all else takes a fraction of a second.

    RoPE leaves the law of independent isotropic queries and keys as it is, and so all of this: q_i^T R_(i-j) k_j is the
    product of the turned q_i and k_j, which are as Gaussian as before (exact).
    """
    if one.unknown():
        return {}
    if one.mask == "causal":
        return _causal(one, equations_up_to)
    light = LightWeights(one.weights) if one.model == "iid" and one.weights in LIGHT else None
    beta = 0.0 if light else float(one.beta or 0.0)
    model = layer(one.n, beta, one.head_dim if one.model == "keyquery" else None, light)
    removed = one.variant == "outlier_removed"
    if one.norm == "qk" and not model.uniform:
        return qk_norm_predictions(one.n, beta, head_dim=one.head_dim or 64, removed=removed)
    if one.shared and not model.uniform:
        head_dim = one.head_dim or 64
        shared = shared_predictions(
            one.n,
            beta,
            head_dim=head_dim,
            width=one.width,
            tokens=one.tokens,
            weight_init=one.weight_init,
            removed=removed,
        )
        if not removed and one.unknown_tokens() is None:
            after = shared_token_predictions(
                one.n, beta, width=one.width, head_dim=head_dim, tokens=one.tokens, value_width=one.value_width
            )
            shared.update(after)
        return shared
    found = matrix_predictions(model, removed=removed) | eigenvalue_predictions(model, removed=removed)
    if one.unknown_tokens() is None:
        orthonormal = one.tokens == "orthonormal"
        found |= token_predictions(
            model, removed=removed, orthonormal=orthonormal, width=one.width, value_width=one.value_width
        )
    return found


def _causal(one: OneLayer, equations_up_to: float) -> Predictions:
    beta, head_dim = float(one.beta or 0.0), one.head_dim if one.model == "keyquery" else None
    if one.n > equations_up_to and beta > 0:
        found = ladder_predictions(one.n, beta, head_dim=head_dim, variant=one.variant)
    else:
        found = causal_predictions(one.n, beta, model=one.model, head_dim=head_dim, variant=one.variant)
    if one.unknown_tokens() is None:
        found |= causal_cosine(one.n, beta, head_dim=head_dim, width=min(one.width, one.value_width))
    return found

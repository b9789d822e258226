"""Every prediction for one attention layer, in one call."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from rmt.theorems.attention_functions import capped_predictions, function_predictions
from rmt.theorems.causal import causal_predictions
from rmt.theorems.causal_centred import CENTRED, causal_centred_predictions
from rmt.theorems.causal_ladder import causal_cosine, causal_entropy, ladder_predictions, light_ladder
from rmt.theorems.causal_options import causal_option_predictions
from rmt.theorems.causal_sinks import causal_sink_predictions
from rmt.theorems.causal_tokens import causal_token_predictions
from rmt.theorems.eigenvalues import eigenvalue_predictions
from rmt.theorems.layer import Layer, layer
from rmt.theorems.light_weights import LIGHT, LightWeights
from rmt.theorems.local_attention import local_predictions
from rmt.theorems.normalised_heads import qk_norm_predictions
from rmt.theorems.prediction import Approximation, Exact, out_of_range, relative_band
from rmt.theorems.rank_collapse import token_predictions
from rmt.theorems.shared_layer import shared_predictions
from rmt.theorems.shared_tokens import shared_token_predictions
from rmt.theorems.sinks import sink_predictions
from rmt.theorems.spectral_gap import Predictions, matrix_predictions

MODELS = ("iid", "keyquery")
MASKS = ("none", "causal", "window")
WEIGHTS = ("lognormal", *LIGHT)
TOKENS = ("independent", "orthonormal", "gaussian", "layernorm")
ATTENTIONS = ("softmax", "sigmoid", "relu", "linear", "tanh")
VARIANTS = ("plain", "outlier_removed", "centred", "running_mean_removed")


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

        odd = self.position == "rope" and (self.head_dim or 0) % 2 == 1
        rules = (
            (self.light and (self.options or self.window or self.slope), f"weights {self.weights}: have no logits"),
            (self.model == "iid" and self.norm == "qk", "norm qk: iid logits have no queries; choose model keyquery"),
            (self.model == "iid" and self.position == "rope", "position rope: iid logits have no queries"),
            (odd, f"position rope with head_dim {self.head_dim}: turns pairs of coordinates; choose an even head_dim"),
            (self.sink is not None and self.attention != "softmax", f"sink: belongs to softmax, not {self.attention}"),
        )
        for broken, reason in rules:
            if broken:
                raise ValueError(reason)

    @property
    def shared(self) -> bool:
        """Whether it matters that logits and values come from the same tokens.

        Orthonormal tokens times weights with iid entries have queries, keys and values as good as independent.
        """
        if self.model != "keyquery" or self.tokens == "independent":
            return False
        return self.tokens != "orthonormal" or self.weight_init == "orthogonal"

    @property
    def options(self) -> tuple[str, ...]:
        """What is unusual about the way from logits to weights."""
        found = [] if self.attention == "softmax" else [f"{self.attention} attention"]
        found += [f"{name} {value:g}" for name in ("cap", "sink") if (value := getattr(self, name)) is not None]
        return (*found, *([f"norm {self.norm}"] if self.norm != "none" else []))

    @property
    def causal_option(self) -> bool:
        """Whether the only unusual thing about a causal layer is its sink, its cap, or that queries and keys are normalised."""
        if self.mask != "causal" or self.slope is not None or self.attention != "softmax":
            return False
        return self.variant == "plain" or (self.norm == "qk" and self.variant == "running_mean_removed")

    def unknown(self) -> str | None:
        """Why no theorem here speaks of the attention matrix of this layer, or None."""
        tokens = f"{self.tokens} tokens with {self.weight_init} weights"
        local = self.mask == "window" or self.slope is not None
        known = VARIANTS if self.mask == "causal" else VARIANTS[:3]
        masked = self.mask != "none"
        rules = (
            (masked and (self.beta or 0.0) > 6, f"beta {self.beta} with mask {self.mask}"),
            (masked and self.keys == 1, f"head_dim 1 with mask {self.mask}"),
            (local and self.n < 2, "one token"),
            (local and self.variant != "plain", f"variant {self.variant} of local attention"),
            (self.slope is not None and self.mask != "causal", f"slope {self.slope} with mask {self.mask}"),
            (len(self.options) > 1, " and ".join(self.options)),
            (
                self.mask != "none" and len(self.options) > 0 and not self.causal_option,
                f"mask {self.mask} with {' and '.join(self.options)}",
            ),
            (self.shared and self.options not in ((), ("norm qk",)), f"{tokens} with {' and '.join(self.options)}"),
            (self.shared and self.position == "rope" and self.mask == "window", f"rope over {tokens} with mask window"),
            (self.shared and self.tokens not in ("gaussian", "layernorm"), tokens),
            (self.shared and self.mask != "none" and self.weight_init == "orthogonal", f"{tokens}, mask {self.mask}"),
            (
                self.mask == "causal" and self.light is not None and self.variant in CENTRED,
                f"{self.weights} weights, {self.variant}",
            ),
            (self.variant not in known, f"variant {self.variant} with mask {self.mask}"),
        )
        return next((f"{what}: no prediction" for broken, what in rules if broken), None)

    def unknown_tokens(self) -> str | None:
        """Why no theorem here speaks of the tokens after this layer, or None."""
        grouped, masked = self.kv_heads not in (None, self.heads), self.mask != "none"
        if self.heads > 1 and ((grouped and masked) or (not self.shared and (self.options or masked))):
            return f"{self.heads} heads, {' and '.join((*self.options, f'mask {self.mask}'))}: no prediction for their tokens"
        if self.mask == "causal" and (self.variant != "plain" or self.shared or self.light is not None):
            return f"variant {self.variant} with mask {self.mask}, {self.tokens} tokens: no prediction for the tokens"
        if (self.options or self.shared) and self.variant != "plain":
            return (
                f"variant {self.variant} of {' and '.join(self.options) or self.tokens}: no prediction for the tokens"
            )
        if self.tokens not in TOKENS or self.weight_init == "orthogonal":
            return f"{self.tokens} tokens with {self.weight_init} weights: no prediction"
        return None

    @property
    def light(self) -> LightWeights | None:
        """The law of iid weights with light tails, where there is one."""
        return LightWeights(self.weights) if self.model == "iid" and self.weights in LIGHT else None

    @property
    def keys(self) -> int | None:
        """d_k, None for iid logits."""
        return (self.head_dim or 64) if self.model == "keyquery" else None

    @property
    def widths(self) -> tuple[int, ...]:
        """The Gaussian factors of the values: their own width, and that of the tokens unless these are orthonormal."""
        return (self.value_width,) if self.tokens == "orthonormal" else (self.value_width, self.width)


def width_predictions(one: OneLayer, *, equations_up_to: float = math.inf) -> Predictions:
    """Predictions by quantity; what no theorem speaks of is absent, what is out of a theorem's range gives no number.

    equations_up_to: causal attention over more tokens has the closed forms of its first rungs only. Its equations take a
    fraction of a second at n = 512 and seconds at n = 10^5; all else takes a fraction of a second.

    RoPE leaves the law of independent isotropic queries and keys as it is, and so all of this: q_i^T R_(i-j) k_j is the
    product of the turned q_i and k_j, which are as Gaussian as before (exact).
    Under a causal mask queries and keys of shared tokens are taken for independent ones, with RoPE too: it brings them closer.
    Measured over predicted with RoPE, 16-24 draws at n = 512, (width, d_k) = (256, 64), (128, 32), (512, 64), beta .4 to 1:
    s_1 0.994 to 1.001, s_2 0.977 to 1.006, s_3 to s_8 0.978 to 1.042 (errors .002 to .02), ||A||_F^2 0.997 to 1.001, count 0.1 to
    0.3 more; of A - C s_1 0.96(3), s_2 to s_8 0.966 to 1.024.
    """
    if one.unknown():
        return {}
    if one.mask == "window" or one.slope is not None:
        return _local(one)
    return _causal(one, equations_up_to) if one.mask == "causal" else _bidirectional(one)


def _bidirectional(one: OneLayer) -> Predictions:
    beta, head_dim = 0.0 if one.light else float(one.beta or 0.0), one.keys
    model, removed = layer(one.n, beta, head_dim, one.light), one.variant != "plain"
    if model.uniform and one.options:
        return {}
    words: dict[str, Any] = {"removed": removed, "widths": () if one.unknown_tokens() else one.widths}
    if one.attention != "softmax":
        return function_predictions(one.n, beta, function=one.attention, head_dim=head_dim, **words)
    if one.cap is not None:
        return capped_predictions(one.n, beta, cap=one.cap, head_dim=head_dim, **words)
    if one.sink is not None:
        return sink_predictions(model, one.sink, **words)
    if one.norm == "qk" and (not one.shared or one.weight_init == "orthogonal"):  # isotropic queries and keys
        return qk_norm_predictions(one.n, beta, head_dim=head_dim or 64, **words)
    if one.shared and not model.uniform:
        return _shared(one, beta)
    found = matrix_predictions(model, removed=removed) | eigenvalue_predictions(model, removed=removed)
    if one.unknown_tokens() is None:
        found |= token_predictions(
            model,
            removed=removed,
            orthonormal=one.tokens == "orthonormal",
            width=one.width,
            value_width=one.value_width,
            heads=one.heads,
            kv_heads=one.kv_heads or one.heads,
        )
    return found | (_centred(model) if one.variant == "centred" and not model.uniform else {})


def _centred(model: Layer) -> Predictions:
    """Where (I - 11^T/n) A differs from A - 11^T/n: the mean row is gone, not replaced; so are the tokens' means."""
    value = model.variance * (1 - 1 / model.n) - model.column_effect
    rows = "derived: exact average over rows less the mean row, see rmt.theorems.layer"
    squared = Approximation(value=value, band=relative_band(value, 0.02), source=rows, validity="beta <= 1")
    if model.head_dim is not None and model.beta > 1:  # then the column effect, first order in 1/n, may exceed all else
        squared = out_of_range(f"beta = {model.beta:g}: calibrated for beta <= 1 with key-query logits", source=rows)
    fixed = {"token_cosine": (-1 / (model.n - 1), 1 / model.n), "rank_one_residual": (1.0, 1e-6)}
    apart = {
        name: Approximation(
            value=at, band=(at - slack, at + slack), source="algebra: centred tokens", validity="always"
        )
        for name, (at, slack) in fixed.items()
    }
    return {"frobenius_norm_squared": squared, **apart}


def _shared(one: OneLayer, beta: float) -> Predictions:
    sizes: dict[str, Any] = {"width": one.width, "head_dim": one.head_dim or 64, "tokens": one.tokens}
    removed = one.variant != "plain"
    sizes |= {"position": one.position, "norm": one.norm}
    found = shared_predictions(one.n, beta, weight_init=one.weight_init, removed=removed, **sizes)
    if one.unknown_tokens() is None:
        after = shared_token_predictions(
            one.n, beta, value_width=one.value_width, heads=one.heads, kv_heads=one.kv_heads, **sizes
        )
        found.update(after)
    return found


def _local(one: OneLayer) -> Predictions:
    found: Predictions = {}
    found |= local_predictions(
        one.n,
        float(one.beta or 0.0),
        window=one.window if one.mask == "window" else None,
        slope=one.slope,
        model=one.model,
        head_dim=one.head_dim,
        widths=() if one.unknown_tokens() else one.widths,
    )
    if one.unknown_tokens() or min(one.width, one.value_width) < 256:
        found.pop("token_cosine", None)
    return found


def _causal(one: OneLayer, equations_up_to: float) -> Predictions:
    found = _causal_of_independent(one, equations_up_to)
    squared = found.get("frobenius_norm_squared")
    if one.shared and isinstance(squared, Exact):  # exact for independent queries and keys alone: measured 0.98 to 1.01
        told = {name: getattr(squared, name) for name in ("value", "band", "statistic", "source")}
        found["frobenius_norm_squared"] = Approximation(validity="queries and keys taken for independent", **told)
    return found


def _causal_of_independent(one: OneLayer, equations_up_to: float) -> Predictions:
    beta, head_dim = float(one.beta or 0.0), one.keys
    if one.light is not None:
        return light_ladder(one.n, one.light, variant=one.variant)
    if one.sink is not None:
        return dict(causal_sink_predictions(one.n, beta, one.sink, head_dim=head_dim))
    if one.options and beta > 0:
        way: dict[str, Any] = {"cap": one.cap, "variant": one.variant, "equations": one.n <= equations_up_to}
        return causal_option_predictions(one.n, beta, head_dim=head_dim, **way)
    if one.variant in CENTRED:
        quick = one.n <= equations_up_to
        return causal_centred_predictions(one.n, beta, head_dim=head_dim, variant=one.variant, equations=quick)
    if one.n > equations_up_to and beta > 0:
        found = ladder_predictions(one.n, beta, head_dim=head_dim, variant=one.variant)
    else:
        found = causal_predictions(one.n, beta, model=one.model, head_dim=head_dim, variant=one.variant)
    if one.variant == "plain" and not one.shared:
        found |= causal_entropy(one.n, beta, head_dim=head_dim)
    if one.unknown_tokens() is None:
        found |= causal_cosine(one.n, beta, head_dim=head_dim, width=min(one.width, one.value_width))
    plain = one.variant == "plain" and one.unknown_tokens() is None
    repaired = one.variant != "plain" and one.heads == 1 and not one.shared and one.tokens in TOKENS
    if (plain or repaired) and beta > 0 and one.n <= equations_up_to:
        found |= causal_token_predictions(one.n, beta, head_dim=head_dim, widths=one.widths, removed=repaired)
    return found

"""One layer of attention: the flags that describe it, which of their combinations have no meaning, and its ensemble."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real, text

SQRT_LN2 = math.sqrt(math.log(2.0))  # beta for which the weights have standard deviation equal to their mean
WINDOW, SLOPE = 256, 0.0625  # defaults of a sliding window and of ALiBi, where they apply
TOKENS = ("independent", "orthonormal", "gaussian", "layernorm")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One layer of attention over n tokens."""

    n: int = integer(1024, "context length")
    model: str = choice("iid", "logits: independent, or queries times keys", ("iid", "keyquery"))
    beta: float | None = real(SQRT_LN2, "nominal standard deviation of the logits", at_least=0, at_most=1e4)
    weights: str | None = choice(
        "lognormal", "law of the iid weights", ("lognormal", "exponential", "uniform", "gamma")
    )
    head_dim: int | None = integer(64, "width d_k of queries and keys")
    mask: str = choice("none", "which keys a query sees", ("none", "causal", "window"))
    window: int | None = integer(None, f"keys that a query sees under mask window ({WINDOW})")
    tokens: str = text("independent", "independent, orthonormal, gaussian, layernorm, or FILE.npy")
    width: int | None = integer(None, "token width d (the smaller of n and 1024)")
    value_width: int | None = integer(None, "columns of the values of all heads together (the token width)")
    weight_init: str = choice(
        "gaussian", "law of the weights", ("gaussian", "uniform", "truncated", "orthogonal", "rademacher")
    )
    heads: int = integer(1, "query heads; their outputs stand side by side, matrices are those of the first")
    kv_heads: int | None = integer(None, "heads of keys and values (as many as query heads)")
    attention: str = choice("softmax", "from logits to weights", ("softmax", "sigmoid", "relu", "linear", "tanh"))
    cap: float | None = real(None, "soft cap c of the logits, c tanh(l/c) (none)", above=0)
    norm: str = choice("none", "qk puts queries and keys on a sphere", ("none", "qk"))
    sink: float | None = real(
        None, "logit of a sink in the denominator; 0 is softmax-off-by-one (none)", at_least=-500, at_most=500
    )
    position: str = choice("none", "how the place of a token enters the logits", ("none", "rope", "alibi"))
    slope: float | None = real(None, f"slope of ALiBi ({SLOPE})", above=0)
    variant: str = choice(
        "plain",
        "how the layer is altered; running_mean_removed is the repair under a causal mask",
        ("plain", "outlier_removed", "centred", "running_mean_removed"),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        derived: dict[str, Any] = {}
        if self.model == "iid":
            derived |= {"head_dim": None, "weights": self.weights or "lognormal"}
            if self.tokens == "gaussian":
                derived["tokens"] = "independent"  # values from Gaussian tokens that no logit looks at
        else:
            derived |= {"weights": None, "head_dim": self.head_dim or 64}
        light = self.model == "iid" and derived["weights"] != "lognormal"
        derived["beta"] = None if light else SQRT_LN2 if self.beta is None else self.beta  # light weights have none
        derived["window"] = (self.window or WINDOW) if self.mask == "window" else None
        derived["slope"] = (self.slope or SLOPE) if self.position == "alibi" else None
        if self.kv_heads == self.heads:
            derived["kv_heads"] = None
        width = self.width or min(self.n, 1024)
        if self.tokens.partition("#")[0].endswith(".npy"):
            derived["tokens"], width = self._from_file()
        elif self.tokens not in TOKENS:
            raise ValueError(f"--tokens {self.tokens}: must be one of {', '.join(TOKENS)}, or a file that ends in .npy")
        derived |= {"width": width, "value_width": self.value_width or width}
        for name, value in derived.items():  # so that settings that say the same are one
            object.__setattr__(self, name, value)
        self._refuse(light)

    @property
    def but_for_size(self) -> tuple[Any, ...]:
        """All that a curve against n keeps fixed."""
        fields = dataclasses.asdict(self)
        return tuple(value for name, value in fields.items() if name not in ("n", "width", "value_width"))

    @property
    def plain_scores(self) -> bool:
        """Softmax of the logits as they are, over all keys or the causal ones: it has kernels of its own."""
        unusual = (self.window, self.slope, self.cap, self.sink)
        return self.attention == "softmax" and all(value is None for value in unusual)

    def _from_file(self) -> tuple[str, int]:
        """The name of the file with a digest of its content, and the width of its tokens."""
        from rmt.ensembles.token_files import named, tokens_from

        name = named(self.tokens)
        tokens, width = tokens_from(name).shape
        if self.n > tokens:
            raise Meaningless(f"n = {self.n} tokens of {name}: it holds {tokens}; lower n")
        if self.width not in (None, width):
            raise Meaningless(f"--width {self.width} of {name}: its tokens have width {width}; leave --width out")
        return name, width

    def _refuse(self, light: bool) -> None:
        """What has no meaning, one line each."""
        stochastic = self.attention == "softmax" and self.sink is None
        rules = (
            (light and not self.plain_scores, f"{self.weights} weights have no logits: choose --weights lognormal"),
            (self.model == "iid" and self.norm == "qk", "--norm qk without queries and keys: choose --model keyquery"),
            (
                self.model == "iid" and self.position == "rope",
                "--position rope without queries: choose --model keyquery",
            ),
            (
                self.position == "rope" and (self.head_dim or 0) % 2 == 1,
                f"--position rope with head_dim {self.head_dim}: turns pairs of coordinates; choose an even head_dim",
            ),
            (
                self.attention != "softmax" and self.sink is not None,
                f"--sink with {self.attention} attention: belongs to softmax",
            ),
            (
                self.variant == "running_mean_removed" and self.mask != "causal",
                "running_mean_removed without a causal mask: choose --mask causal, or outlier_removed",
            ),
            (
                self.variant in ("outlier_removed", "running_mean_removed") and not stochastic,
                f"{self.variant} needs rows that sum to one (softmax, no sink): choose --variant centred",
            ),
            (
                self.tokens == "orthonormal" and self.n > (self.width or 0),
                f"n = {self.n} orthonormal tokens of width {self.width}: needs n <= width; raise --width",
            ),
            (
                self.tokens == "layernorm" and self.width == 1,
                "layernorm tokens of width 1 are zero: raise --width",
            ),
            (
                self.weight_init != "gaussian" and self.tokens == "independent" and self.model == "keyquery",
                f"--weight-init {self.weight_init}: independent queries and keys are no product of weights; "
                "choose --tokens gaussian, layernorm or orthonormal",
            ),
            (
                self.heads % (self.kv_heads or self.heads) > 0,
                f"--kv-heads {self.kv_heads}: must divide --heads {self.heads}",
            ),
            (
                (self.value_width or 0) % self.heads > 0,
                f"--heads {self.heads}: must divide the value width {self.value_width}",
            ),
        )
        for broken, reason in rules:
            if broken:
                raise Meaningless(reason)


def heads(setting: Setting) -> Any:
    """The ensemble of a setting."""
    from rmt.attention.heads import AttentionHeads
    from rmt.attention.masks import Mask
    from rmt.attention.scores import Score
    from rmt.ensembles.token_files import is_file, tokens_from

    return AttentionHeads(
        n=setting.n,
        model=setting.model,
        beta=setting.beta or 0.0,
        weights=setting.weights or "lognormal",
        head_dim=setting.head_dim or 64,
        tokens=setting.tokens,
        given=tokens_from(setting.tokens) if is_file(setting.tokens) else None,
        width=setting.width or setting.n,
        value_width=setting.value_width or setting.n,
        weight_init=setting.weight_init,
        heads=setting.heads,
        kv_heads=setting.kv_heads or setting.heads,
        position="rope" if setting.position == "rope" else "none",
        norm=setting.norm,
        score=Score(
            mask=Mask(setting.mask, setting.window),
            cap=setting.cap,
            slope=setting.slope,
            sink=setting.sink,
            function=setting.attention,
        ),
    )

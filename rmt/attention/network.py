"""A transformer at initialisation, drawn layer by layer: memory O(n d) for any depth.

Nothing of a layer but its d x d weights is held: attention matrices are made again from the stream, or from the tokens,
at every use, and a layer can be drawn again at any time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmt.arrays import CPU
from rmt.attention.layer import Layer, Rules, Weights, layer_forward, looking
from rmt.attention.masks import MASKS, Mask
from rmt.attention.mixing import Mixing
from rmt.attention.mixture import Mixed
from rmt.attention.mlp import ACTIVATIONS
from rmt.attention.positions import POSITIONS
from rmt.attention.repairs import Circumstances, mixture_of
from rmt.attention.rows import iid_attention
from rmt.attention.scores import Score
from rmt.attention.split import SplitTokens, split
from rmt.attention.wiring import Wiring
from rmt.ensembles.attention import KeyQueryAttention
from rmt.ensembles.parameters import check_beta, check_choice, check_count, check_dtype
from rmt.ensembles.weights import WEIGHT_INITS, initial_weights, orthonormal
from rmt.kernels import kernels_for
from rmt.streams import Stream, Words

__all__ = ["MODELS", "NORMS", "TOKENS", "Network"]

MODELS = ("iid", "keyquery", "own")
NORMS = ("none", "pre", "post", "branch")
TOKENS = ("orthonormal", "gaussian")


@dataclass(frozen=True, kw_only=True)
class Network:
    """What is drawn and how it is wired.

    model: "iid" logits; "keyquery" logits from queries and keys of their own, redrawn in every layer; "own": queries and
        keys are the layer's tokens times Gaussian weights, which is what transformers do.
    tokens: X_0 (n, width), "orthonormal" rows (n <= width) or "gaussian"; the squared norm of a row is 1 with
        token_norm "one", width with "width" (unit entries). An array may take their place (`tokens_given`).
    value_width: columns of all heads together; value weights have iid N(0, s^2) entries, s^2 = 1/width, or 1 with
        unit_weights. output_weights: whether W_O (variance 1/value_width) follows; needed where value_width != width.
    beta: nominal deviation of the logits; for "own" tokens, at the norm that X_0 (or a norm layer) gives the tokens.
    mask: "none", "causal", or "window" (the last `window` keys). position: "none", "rope", which turns queries and keys, or
        "alibi", which takes slope |i - j| from the logits. weight_init: law of all weight matrices. mlp: activation of a
        perceptron of mlp_width (4 width) behind each attention, None for none; its weights keep unit energy.
    weight_deviation: standard deviation of value, output and MLP weights, in place of the rules above.
    skip: s in X' = X + s branch(X), None for X' = branch(X).
    """

    n: int
    width: int
    model: str = "iid"
    beta: float = 1.0
    weights: str = "lognormal"
    head_dim: int = 64
    heads: int = 1
    kv_heads: int | None = None
    mask: str = "none"
    window: int | None = None
    position: str = "none"
    slope: float = 0.02
    variant: str = "plain"
    tokens: str = "orthonormal"
    tokens_given: np.ndarray | None = dataclasses.field(default=None, compare=False, repr=False)
    token_norm: str = "width"
    value_width: int | None = None
    unit_weights: bool = False
    weight_init: str = "gaussian"
    weight_deviation: float | None = None
    mlp: str | None = None
    mlp_width: int | None = None
    output_weights: bool | None = None
    skip: float | None = None
    norm: str = "none"
    norm_kind: str = "rms"
    eta: float = 0.0
    differential_lambda: float = 0.2
    branch: float = 0.5
    temperature: float = 1.0
    growth: float = 0.5
    dtype: str = "float32"
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("n", "width", "head_dim", "heads"):
            check_count(name, getattr(self, name))
        check_beta(self.beta)
        choices = {"model": MODELS, "norm": NORMS, "token_norm": ("one", "width"), "weight_init": WEIGHT_INITS}
        for name, known in {**choices, "position": POSITIONS, "mask": MASKS}.items():
            check_choice(name, getattr(self, name), known)
        if self.mlp is not None:
            check_choice("mlp", self.mlp, tuple(ACTIVATIONS))
        Mask(self.mask, self.window)
        if self.position == "rope" and (self.model == "iid" or self.head_dim % 2):
            raise ValueError(f"position rope with model {self.model}, head_dim {self.head_dim}: turns pairs of queries")
        check_dtype(self.dtype)
        if self.heads % self.groups:
            raise ValueError(f"kv_heads {self.groups} does not divide heads {self.heads}; choose a divisor")
        if self.values % self.heads:
            raise ValueError(f"heads {self.heads} does not divide value width {self.values}; choose a divisor")
        if self.tokens_given is None and self.tokens == "orthonormal" and self.n > self.width:
            raise ValueError(f"n = {self.n} orthonormal tokens of width {self.width}: needs n <= width; raise width")
        if self.output_weights is False and self.values != self.width:
            raise ValueError(f"value width {self.values} is not the token width {self.width}: needs output weights")
        self.rules  # noqa: B018  # refuses unknown variants

    @property
    def groups(self) -> int:
        """Key-value heads."""
        return self.kv_heads or self.heads

    @property
    def values(self) -> int:
        """Value columns of all heads together."""
        return self.value_width or self.width

    @property
    def projects(self) -> bool:
        """Whether output weights follow the heads."""
        return self.values != self.width if self.output_weights is None else self.output_weights

    @property
    def homogeneous(self) -> bool:
        """Whether X_0 -> c X_0 only multiplies every layer by c, so that scales can be kept apart."""
        return self.model != "own" and self.norm == "none" and self.mlp is None

    @property
    def token_variance(self) -> float:
        """Mean square of an entry of the tokens that attention looks at."""
        return 1.0 if self.token_norm == "width" or self.norm in ("pre", "post") else 1 / self.width

    @property
    def score(self) -> Score:
        """How logits become weights."""
        return Score(Mask(self.mask, self.window), slope=self.slope if self.position == "alibi" else None)

    @property
    def rules(self) -> Rules:
        """The wiring of every layer."""
        mixture = mixture_of(
            self.variant,
            Circumstances(
                n=self.n,
                width=self.width,
                beta=self.beta,
                head_dim=self.head_dim,
                mask=self.mask,
                eta=self.eta,
                differential_lambda=self.differential_lambda,
                branch=self.branch,
                temperature=self.temperature,
                growth=self.growth,
            ),
        )
        beta = self.beta if mixture.beta is None else mixture.beta
        return Rules(
            mixture=mixture,
            heads=self.heads,
            kv_heads=self.groups,
            score=self.score,
            rope=self.position == "rope",
            beta=beta,
            head_dim=self.head_dim,
            wiring=Wiring(self.skip, self.norm, self.norm_kind),
            activation=self.mlp,
            logit_scale=beta / (math.sqrt(self.head_dim) * self.token_variance),
            dtype=self.dtype,
            workers=self.workers,
        )

    def start(self, stream: Stream, draw: int) -> SplitTokens:
        """X_0."""
        if self.tokens_given is not None:
            return split(self.tokens_given)
        words = self._stream(stream).within(f"n={self.n}").words("tokens", draw)
        X = kernels_for(CPU).variates(words, 0, self.n, self.width).astype(np.float64)
        if self.tokens == "orthonormal":
            X = math.sqrt(self.width) * orthonormal(X.T).T
        return split(X if self.token_norm == "width" else X / math.sqrt(self.width))

    def value_weights(self, stream: Stream, draw: int, number: int, *, again: int = 0) -> np.ndarray:
        """W_V of layer `number`, (width, columns of all groups); `again` = 1, 2, ... gives further, independent ones."""
        here = self._stream(stream).within(f"layer={number}")
        columns = self.groups * (self.values // self.heads)
        name = f"value again {again}" if again else "value"
        variance = self._variance(1.0 if self.unit_weights else 1 / self.width)
        return self._weights(here.words(name, draw), self.width, columns, variance)

    def _variance(self, otherwise: float) -> float:
        return otherwise if self.weight_deviation is None else self.weight_deviation**2

    def layer(self, stream: Stream, draw: int, number: int) -> Layer:
        """Layer number 1, 2, ...: the same at every call."""
        here = self._stream(stream).within(f"layer={number}")
        rules = self.rules

        def weights(name: str, rows: int, columns: int, variance: float) -> np.ndarray:
            return self._weights(here.words(name, draw), rows, columns, variance)

        d, own = self.width, self.model == "own"
        keys = self.groups * self.head_dim
        second = own and rules.mixture.second != 0
        looks = own and rules.mixture.attention != 0
        hidden = self.mlp_width or 4 * d
        energy = ACTIVATIONS[self.mlp].energy if self.mlp is not None else 1.0
        held = Weights(
            value=self.value_weights(stream, draw, number),
            output=weights("output", self.values, d, self._variance(1 / self.values)) if self.projects else None,
            query=weights("query", d, self.heads * self.head_dim, 1 / d) if looks else None,
            key=weights("key", d, keys, 1 / d) if looks else None,
            second_query=weights("second query", d, self.heads * self.head_dim, 1 / d) if second else None,
            second_key=weights("second key", d, keys, 1 / d) if second else None,
            inner=weights("inner", d, hidden, self._variance(1 / d)) if self.mlp else None,
            outer=weights("outer", hidden, d, self._variance(1 / (hidden * energy))) if self.mlp else None,
        )
        fixed = None if own else tuple(self._fixed(here, draw, rules, head) for head in range(self.heads))
        return Layer(rules, held, fixed)

    def layers(self, stream: Stream, draw: int, depth: int) -> Iterator[tuple[Layer, SplitTokens]]:
        """(layer, tokens after it) from the first layer to layer `depth`."""
        X = self.start(stream, draw)
        for number in range(1, depth + 1):
            layer = self.layer(stream, draw, number)
            X = layer_forward(layer, X)
            if self.homogeneous:
                X = X.levelled()
            yield layer, X

    def _fixed(self, here: Stream, draw: int, rules: Rules, head: int) -> Mixed:
        """The operator of a head whose attention does not look at the tokens."""
        mixture = rules.mixture
        first = self._drawn(here, draw, rules, f"head={head}") if mixture.attention else None
        other = self._drawn(here, draw, rules, f"second head={head}") if mixture.second else None
        return Mixed(mixture, self.n, first, other)

    def _drawn(self, here: Stream, draw: int, rules: Rules, name: str) -> Mixing:
        if self.model == "iid":
            sizes: dict[str, Any] = {"n": self.n, "beta": rules.beta, "weights": self.weights}
            how: dict[str, Any] = {"score": rules.score, "dtype": np.dtype(self.dtype), "backend": CPU}
            return Mixing(iid_attention(here.within(name), draw, **sizes, **how), self.workers)
        pairs = KeyQueryAttention(n=self.n, head_dim=self.head_dim)
        queries, keys = pairs.queries_and_keys(here.within(name), draw)
        return looking(rules, queries, keys, rules.beta / math.sqrt(self.head_dim))

    def _weights(self, words: Words, rows: int, columns: int, variance: float) -> np.ndarray:
        """Initial weights in float64."""
        return math.sqrt(variance) * initial_weights(words, rows, columns, init=self.weight_init).astype(np.float64)

    def _stream(self, stream: Stream) -> Stream:
        return stream.within(f"network/width={self.width}")

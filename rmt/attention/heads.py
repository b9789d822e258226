"""The heads of one attention layer at initialisation, over tokens that queries, keys and values may share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmt.arrays import CPU, Array, Backend
from rmt.attention.positions import POSITIONS, rotated
from rmt.attention.rows import iid_attention, key_query_attention
from rmt.attention.scores import Score
from rmt.ensembles.attention import KeyQueryAttention
from rmt.ensembles.matrix import AttentionMatrix, attention_matrix
from rmt.ensembles.parameters import check_beta, check_choice, check_count, check_dtype
from rmt.ensembles.tokens import value_tokens
from rmt.ensembles.weights import WEIGHT_INITS, initial_weights, orthonormal
from rmt.kernels import kernels_for
from rmt.streams import Stream

MODELS = ("iid", "keyquery")
TOKENS = ("independent", "orthonormal", "gaussian", "layernorm")
NORMS = ("none", "qk")


@dataclass(frozen=True, kw_only=True)
class AttentionHeads:
    """What is drawn.

    model: "iid" logits of deviation beta (or normalised iid `weights`), or "keyquery" logits beta q.k/sqrt(head_dim).
    tokens: "independent": queries and keys have iid N(0, 1) entries and values come from Gaussian tokens of their own.
        Otherwise queries, keys and values are the same tokens X (n, width) times weights of variance 1/width (values:
        1): "gaussian" entries, "layernorm" rows of them (mean 0, variance 1), "orthonormal" rows times sqrt(width), or the
        rows of an array (`given`). Orthonormal tokens with Gaussian weights are drawn as independent ones: the same law.
    weight_init: law of the weights. heads, kv_heads: query heads, and the heads of keys and values that groups share.
    value_width: columns of the values of all heads together. position: "rope" turns queries and keys. norm: "qk" puts
        every query and key on the sphere of radius sqrt(head_dim). score: how logits become weights.
    """

    n: int
    model: str = "keyquery"
    beta: float = 1.0
    weights: str = "lognormal"
    head_dim: int = 64
    tokens: str = "independent"
    given: np.ndarray | None = field(default=None, repr=False, compare=False)
    width: int
    value_width: int
    weight_init: str = "gaussian"
    heads: int = 1
    kv_heads: int = 1
    position: str = "none"
    norm: str = "none"
    score: Score = field(default_factory=Score)

    def __post_init__(self) -> None:
        for name in ("n", "head_dim", "width", "value_width", "heads", "kv_heads"):
            check_count(name, getattr(self, name))
        check_beta(self.beta)
        choices = (("model", MODELS), ("weight_init", WEIGHT_INITS), ("position", POSITIONS), ("norm", NORMS))
        for name, known in choices:
            check_choice(name, getattr(self, name), known)
        if self.given is None:
            check_choice("tokens", self.tokens, TOKENS)
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads {self.kv_heads} does not divide heads {self.heads}; choose a divisor")
        if self.value_width % self.heads:
            raise ValueError(f"heads {self.heads} does not divide value_width {self.value_width}; choose a divisor")
        if self.weights != "lognormal" and not self.score.plain:
            raise ValueError(f"weights {self.weights} have no logits: cap, slope, sink and window need lognormal ones")

    @property
    def shared(self) -> bool:
        """Whether queries, keys and values are made from one drawn X."""
        if self.tokens == "orthonormal" and self.given is None:
            return self.weight_init != "gaussian"
        return self.tokens != "independent"

    def matrix(
        self,
        stream: Stream,
        draw: int = 0,
        *,
        head: int = 0,
        backend: Backend = CPU,
        dtype: Any = np.float32,
        workers: int = 1,
        memory_budget: int | None = None,
    ) -> AttentionMatrix:
        """A (n, n) of one head."""
        how: dict[str, Any] = {"score": self.score, "dtype": check_dtype(dtype), "backend": backend}
        if self.model == "iid":
            here = stream.within(f"head={head}") if head else stream
            rows = iid_attention(here, draw, n=self.n, beta=self.beta, weights=self.weights, **how)
        else:
            queries, keys = (backend.asarray(x) for x in self.queries_and_keys(stream, draw, head=head))
            rows = key_query_attention(queries, keys, self.beta / math.sqrt(self.head_dim), **how)
        return attention_matrix(rows, workers=workers, memory_budget=memory_budget)

    def queries_and_keys(self, stream: Stream, draw: int = 0, *, head: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Q and K (n, head_dim) float32 of one head, on the host."""
        group = head * self.kv_heads // self.heads
        if self.shared:
            X = self.inputs(stream, draw)
            q, k = (self.projection(stream, draw, kind, at) for kind, at in (("query", head), ("key", group)))
            queries, keys = X @ q, X @ k
        else:
            ensemble = KeyQueryAttention(n=self.n, head_dim=self.head_dim)
            queries = ensemble.queries_and_keys(stream.within(f"head={head}") if head else stream, draw)[0]
            keys = ensemble.queries_and_keys(stream.within(f"head={group}") if group else stream, draw)[1]
        if self.norm == "qk":
            queries, keys = (
                x * (math.sqrt(self.head_dim) / np.linalg.norm(x, axis=1))[:, None] for x in (queries, keys)
            )
        if self.position == "rope":
            queries, keys = rotated(queries), rotated(keys)
        return queries.astype(np.float32), keys.astype(np.float32)

    def values(
        self,
        stream: Stream,
        draw: int = 0,
        *,
        head: int = 0,
        backend: Backend = CPU,
        dtype: Any = np.float32,
        workers: int = 1,
    ) -> Array:
        """V (n, value_width / heads) of one head."""
        group, columns = head * self.kv_heads // self.heads, self.value_width // self.heads
        simple = self.weight_init == "gaussian" and self.heads == 1
        if not self.shared and simple:
            kind = "orthonormal" if self.tokens == "orthonormal" else "gaussian"
            size: dict[str, Any] = {"width": self.width, "value_width": self.value_width, "tokens": kind}
            return value_tokens(stream, draw, self.n, backend=backend, dtype=dtype, workers=workers, **size)
        X = self.inputs(stream, draw)
        words = self._named(stream).words(f"value/{group}", draw)
        weights = initial_weights(words, self.width, columns, init=self.weight_init)
        return backend.asarray(X @ weights, check_dtype(dtype))

    def projection(self, stream: Stream, draw: int, kind: str, at: int) -> np.ndarray:
        """The weights of one query or key head, (width, head_dim) float32, entries of variance 1/width."""
        words = self._named(stream).words(f"{kind}/{at}", draw)
        return initial_weights(words, self.width, self.head_dim, init=self.weight_init) / np.float32(
            math.sqrt(self.width)
        )

    def inputs(self, stream: Stream, draw: int = 0) -> np.ndarray:
        """X (n, width) float32 on the host."""
        if self.given is not None:
            return np.asarray(self.given[: self.n], dtype=np.float32)
        words = stream.within(f"inputs/n={self.n}/width={self.width}").words("tokens", draw)
        X = kernels_for(CPU).variates(words, 0, self.n, self.width)
        if self.tokens == "layernorm":
            X = X - X.mean(axis=1, keepdims=True)
            return X / np.sqrt(np.mean(X**2, axis=1, keepdims=True))
        if self.tokens == "orthonormal":
            return (math.sqrt(self.width) * orthonormal(X.T.astype(np.float64)).T).astype(np.float32)
        return X

    def _named(self, stream: Stream) -> Stream:
        sizes = f"width={self.width}/head_dim={self.head_dim}/value_width={self.value_width}"
        return stream.within(f"projections/{sizes}/heads={self.heads}/{self.kv_heads}/{self.weight_init}")

"""One attention layer at initialisation: what it holds, and what it does to tokens.

branch(Z) = [M_h Z W_V^g(h)]_h W_O with one altered attention matrix M_h a head, heads sharing the values (and keys) of
their group g(h). Skip and norm wire it in (`rmt.attention.wiring`); an MLP, where there is one, follows by the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rmt.arrays import CPU
from rmt.attention.mixing import Mixing
from rmt.attention.mixture import Mixed, Mixture
from rmt.attention.mlp import mlp
from rmt.attention.positions import rotated
from rmt.attention.rows import key_query_attention
from rmt.attention.scores import Score
from rmt.attention.split import SplitTokens
from rmt.attention.wiring import Wiring, wired

__all__ = [
    "Layer",
    "Rules",
    "Weights",
    "attended",
    "attention",
    "concatenated",
    "group_columns",
    "heads_of",
    "layer_forward",
    "looking",
    "perceptron",
]


@dataclass(frozen=True)
class Rules:
    """How a layer is built; the same for every layer of a network.

    beta: deviation of drawn logits. logit_scale multiplies Q K^T where attention looks at its own tokens; rope turns
    queries and keys. activation: of the MLP, None where there is none.
    """

    mixture: Mixture
    heads: int = 1
    kv_heads: int = 1
    score: Score = field(default_factory=Score)
    rope: bool = False
    beta: float = 1.0
    head_dim: int = 64
    wiring: Wiring = field(default_factory=Wiring)
    activation: str | None = None
    logit_scale: float = 1.0
    dtype: str = "float64"
    workers: int = 1


@dataclass(frozen=True, eq=False)
class Weights:
    """value (d, kv_heads d_v); output (heads d_v, d) or None; query (d, heads d_k) and key (d, kv_heads d_k), where
    attention looks at its tokens, and a second pair for the mixtures that need one; inner (d, hidden), outer of the MLP."""

    value: np.ndarray
    output: np.ndarray | None = None
    query: np.ndarray | None = None
    key: np.ndarray | None = None
    second_query: np.ndarray | None = None
    second_key: np.ndarray | None = None
    inner: np.ndarray | None = None
    outer: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer: its wiring, its weights and, for attention that does not look at its tokens, one operator a head."""

    rules: Rules
    weights: Weights
    fixed: tuple[Mixed, ...] | None = None


def layer_forward(layer: Layer, X: SplitTokens) -> SplitTokens:
    """The tokens after the layer."""
    X = attended(layer, X)
    return wired(layer.rules.wiring, X, partial(perceptron, layer)) if layer.weights.inner is not None else X


def attended(layer: Layer, X: SplitTokens) -> SplitTokens:
    """The tokens after the attention of the layer, before its MLP."""
    return wired(layer.rules.wiring, X, partial(attention, layer))


def attention(layer: Layer, Z: SplitTokens) -> SplitTokens:
    """The branch of attention."""
    heads = concatenated(layer, Z)
    return heads if layer.weights.output is None else heads.times(layer.weights.output)


def perceptron(layer: Layer, Z: SplitTokens) -> SplitTokens:
    """The branch of the MLP."""
    inner, outer, activation = layer.weights.inner, layer.weights.outer, layer.rules.activation
    assert inner is not None and outer is not None and activation is not None
    return mlp(Z, inner, outer, activation)


def concatenated(layer: Layer, Z: SplitTokens) -> SplitTokens:
    """[M_h Z W_V^g(h)]_h, the heads side by side."""
    rules = layer.rules
    values = Z.times(layer.weights.value)
    means, rests = [], []
    for head, operator in enumerate(heads_of(layer, Z)):
        columns = group_columns(rules, values.mean.size, head)
        mixed = operator.on_split(SplitTokens(values.mean[columns], values.rest[:, columns], values.log_scale))
        means.append(mixed.mean)
        rests.append(mixed.rest)
    return SplitTokens(np.concatenate(means), np.concatenate(rests, axis=1), values.log_scale)


def group_columns(rules: Rules, columns: int, head: int) -> slice:
    """The columns of the key-value group that a head reads, of `columns` in all groups together."""
    width = columns // rules.kv_heads
    group = head * rules.kv_heads // rules.heads
    return slice(group * width, (group + 1) * width)


def heads_of(layer: Layer, Z: SplitTokens) -> tuple[Mixed, ...]:
    """The operators of all heads on tokens Z (normalised already)."""
    if layer.fixed is not None:
        return layer.fixed
    return tuple(_looking(layer, Z, head) for head in range(layer.rules.heads))


def _looking(layer: Layer, Z: SplitTokens, head: int) -> Mixed:
    """Softmax attention of one head on its own tokens.

    Keys are made from the rest alone: the mean key shifts every logit of a row alike, and softmax does not see it (it
    does where positions turn the keys).
    """
    rules, weights, n = layer.rules, layer.weights, Z.shape[0]
    mixture = rules.mixture

    def mixing(query: np.ndarray | None, key: np.ndarray | None) -> Mixing | None:
        if query is None or key is None:
            return None
        q = query[:, head * rules.head_dim : (head + 1) * rules.head_dim]
        k = key[:, group_columns(rules, key.shape[1], head)]
        size = np.exp(Z.log_scale)
        queries, keys = size * (Z.mean @ q + Z.rest @ q), size * (Z.rest @ k)
        if rules.rope:
            keys = keys + size * (Z.mean @ k)
        return looking(rules, queries, keys, rules.logit_scale)

    first = mixing(weights.query, weights.key) if mixture.attention else None
    other = mixing(weights.second_query, weights.second_key) if mixture.second else None
    return Mixed(mixture, n, first, other)


def looking(rules: Rules, queries: np.ndarray, keys: np.ndarray, scale: float) -> Mixing:
    """Attention with logits scale Q K^T, turned, biased and masked by the rules."""
    if rules.rope:
        queries, keys = rotated(queries), rotated(keys)
    rows = key_query_attention(queries, keys, scale, score=rules.score, dtype=np.dtype(rules.dtype), backend=CPU)
    return Mixing(rows, rules.workers)

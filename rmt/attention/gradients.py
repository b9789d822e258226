"""Gradients of a network at initialisation: backwards layer by layer, everything made again, nothing n x n held.

`network_backward` gives the gradient of <G, X_L>, or of any loss through its cotangent, with respect to every weight and
to the tokens before every layer. It is exact, through softmax, norms, skips, heads and masks; of a repair whose gain is
measured (`rmt.attention.repairs`) the gain counts as a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rmt.attention.layer import Layer, concatenated, group_columns, heads_of, joined, layer_forward, projected
from rmt.attention.mixture import Mixed
from rmt.attention.network import Network
from rmt.attention.norms import normed, normed_backward
from rmt.attention.positions import rotated
from rmt.attention.softmax_backward import attention_backward
from rmt.attention.split import SplitTokens
from rmt.streams import Stream

__all__ = ["LayerGradients", "layer_backward", "network_backward"]

Cotangent = np.ndarray | Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class LayerGradients:
    """Gradients with respect to the weights of one layer (None where there are none) and to the tokens before it."""

    tokens: np.ndarray
    value: np.ndarray
    output: np.ndarray | None = None
    query: np.ndarray | None = None
    key: np.ndarray | None = None
    second_query: np.ndarray | None = None
    second_key: np.ndarray | None = None


def layer_backward(layer: Layer, X: SplitTokens, G: np.ndarray, *, frozen: bool = False) -> LayerGradients:
    """Gradients of one layer, given its input X and the cotangent G (n, d) of its output.

    frozen: attention matrices count as constants, so that only the paths through the values are followed.
    """
    rules, weights = layer.rules, layer.weights
    Z = normed(X, rules.norm_kind) if rules.norm == "pre" else X
    heads = None
    if rules.norm in ("post", "branch") or weights.output is not None:
        heads = concatenated(layer, Z)
    if rules.norm == "post":
        assert heads is not None
        G = normed_backward(joined(layer, X, projected(layer, heads)).dense(), G, rules.norm_kind)
    back = np.zeros(X.shape) if rules.skip is None else G
    branch = G if rules.skip is None else rules.skip * G
    if rules.norm == "branch":
        assert heads is not None
        branch = normed_backward(projected(layer, heads).dense(), branch, rules.norm_kind)
    output = None
    if weights.output is not None:
        assert heads is not None
        output, branch = heads.dense().T @ branch, branch @ weights.output.T
    found, dZ = _heads_backward(layer, Z, branch, frozen)
    back = back + (normed_backward(X.dense(), dZ, rules.norm_kind) if rules.norm == "pre" else dZ)
    return LayerGradients(tokens=back, output=output, **found)


def _heads_backward(
    layer: Layer, Z: SplitTokens, branch: np.ndarray, frozen: bool
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Gradients of the weights of all heads, and the cotangent of Z."""
    rules, weights = layer.rules, layer.weights
    dense = Z.dense()
    values = dense @ weights.value
    dV = np.zeros(values.shape)
    width = branch.shape[1] // rules.heads
    cotangents: dict[str, np.ndarray] = {}
    for name in ("query", "key", "second_query", "second_key"):
        held = getattr(weights, name)
        if held is not None and not frozen:
            cotangents[name] = np.zeros((dense.shape[0], held.shape[1]))
    for head, operator in enumerate(heads_of(layer, Z)):
        columns = group_columns(rules, values.shape[1], head)
        U = branch[:, head * width : (head + 1) * width]
        if layer.fixed is not None or frozen:
            dV[:, columns] += operator.transposed(U)
        else:
            dV[:, columns] += _look_backward(layer, operator, head, values[:, columns], U, cotangents)
    dZ = dV @ weights.value.T
    found = {"value": dense.T @ dV}
    for name, cotangent in cotangents.items():
        found[name] = dense.T @ cotangent
        dZ = dZ + cotangent @ getattr(weights, name).T
    return found, dZ


def _look_backward(
    layer: Layer, operator: Mixed, head: int, V: np.ndarray, U: np.ndarray, cotangents: dict[str, np.ndarray]
) -> np.ndarray:
    """The cotangent of one head's values; those of its queries and keys are added to `cotangents`."""
    rules, mix = layer.rules, operator.mixture
    queries = slice(head * rules.head_dim, (head + 1) * rules.head_dim)
    inner, entered = mix.gain * operator.outgoing_transposed(U), operator.incoming(V)
    dV = operator.linear_transposed(inner)
    for coefficient, attention, first, second in (
        (mix.attention, operator.first, "query", "key"),
        (-mix.second, operator.other, "second_query", "second_key"),
    ):
        if attention is None or not coefficient:
            continue
        found = attention_backward(attention, entered, coefficient * inner)
        keys = group_columns(rules, cotangents[second].shape[1], head)
        dQ, dK = found.queries, found.keys
        if rules.rope:
            dQ, dK = rotated(dQ, back=True), rotated(dK, back=True)
        cotangents[first][:, queries] += rules.logit_scale * dQ
        cotangents[second][:, keys] += dK
        dV = dV + found.values
    return operator.incoming(dV)


def network_backward(
    network: Network, stream: Stream, draw: int, depth: int, cotangent: Cotangent, *, frozen: bool = False
) -> Iterator[tuple[int, LayerGradients]]:
    """(number, gradients) from layer `depth` down to layer 1.

    cotangent: G (n, d), or a function of the last tokens that gives it (the gradient of a loss). Tokens are kept at every
    sqrt(depth)-th layer and made again between: memory O(sqrt(depth) n d). frozen: see `layer_backward`.
    """
    stride = max(1, math.isqrt(depth))
    kept = {0: network.start(stream, draw)}
    X = kept[0]
    for number in range(1, depth + 1):
        X = layer_forward(network.layer(stream, draw, number), X)
        if number % stride == 0:
            kept[number] = X
    G = cotangent(X.dense()) if callable(cotangent) else cotangent
    for first in range((depth - 1) // stride * stride, -1, -stride):
        stretch = [kept.pop(first)]
        last = min(first + stride, depth)
        for number in range(first + 1, last):
            stretch.append(layer_forward(network.layer(stream, draw, number), stretch[-1]))
        for number in range(last, first, -1):
            found = layer_backward(network.layer(stream, draw, number), stretch.pop(), G, frozen=frozen)
            yield number, found
            G = found.tokens

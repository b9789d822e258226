"""Gradients of a network at initialisation: backwards layer by layer, everything made again, nothing n x n held.

`network_backward` gives the gradient of <G, X_L>, or of any loss through its cotangent, with respect to every weight and
to the tokens before every layer. It is exact, through softmax, norms, skips, heads and masks; of a repair whose gain is
measured (`rmt.attention.repairs`) the gain counts as a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from rmt.attention.layer import (
    Layer,
    Weights,
    attended,
    attention,
    concatenated,
    group_columns,
    heads_of,
    layer_forward,
    perceptron,
)
from rmt.attention.mixture import Mixed
from rmt.attention.mlp import mlp_backward
from rmt.attention.network import Network
from rmt.attention.positions import rotated
from rmt.attention.softmax_backward import attention_backward
from rmt.attention.split import SplitTokens
from rmt.attention.wiring import wired_backward
from rmt.streams import Stream

__all__ = ["LayerGradients", "layer_backward", "network_backward"]

Cotangent = np.ndarray | Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerGradients(Weights):
    """Gradients with respect to the weights of one layer, each by its name, and to the tokens before it."""

    tokens: np.ndarray


def layer_backward(layer: Layer, X: SplitTokens, G: np.ndarray, *, frozen: bool = False) -> LayerGradients:
    """Gradients of one layer, given its input X and the cotangent G (n, d) of its output.

    frozen: attention matrices count as constants, so that only the paths through the values are followed.
    """
    wiring, weights = layer.rules.wiring, layer.weights
    found: dict[str, np.ndarray] = {}
    if weights.inner is not None and weights.outer is not None:
        inner, outer, activation = weights.inner, weights.outer, str(layer.rules.activation)
        G, found = wired_backward(
            wiring,
            attended(layer, X),
            G,
            partial(perceptron, layer),
            lambda Z, cotangent: mlp_backward(Z, inner, outer, activation, cotangent),
        )
    back, more = wired_backward(
        wiring,
        X,
        G,
        partial(attention, layer),
        lambda Z, cotangent: _attention_backward(layer, Z, cotangent, frozen),
    )
    return LayerGradients(tokens=back, **found, **more)


def _attention_backward(
    layer: Layer, Z: SplitTokens, branch: np.ndarray, frozen: bool
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Gradients of all weights of the attention, and the cotangent of Z."""
    output = layer.weights.output
    if output is None:
        return _heads_backward(layer, Z, branch, frozen)
    found, dZ = _heads_backward(layer, Z, branch @ output.T, frozen)
    return {"output": concatenated(layer, Z).dense().T @ branch, **found}, dZ


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
    for coefficient, matrix, first, second in (
        (mix.attention, operator.first, "query", "key"),
        (-mix.second, operator.other, "second_query", "second_key"),
    ):
        if matrix is None or not coefficient:
            continue
        found = attention_backward(matrix, entered, coefficient * inner)
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

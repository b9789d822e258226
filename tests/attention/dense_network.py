"""The oracle of the network tests: the same layer on dense arrays, written out. Complex arrays pass through, so that a
complex step differentiates it to full precision: f(x + i h v) = f(x) + i h <grad, v> + O(h^2), h = 1e-40."""

import numpy as np
from scipy.special import erf

STEP = 1e-40


def dense_layer(network, layer, X, weights):
    """Tokens after the layer; `weights` maps the names of `Weights` to arrays."""
    rules, wiring, n = layer.rules, layer.rules.wiring, X.shape[0]

    def norm(Y):
        if wiring.norm_kind == "layer":
            Y = Y - Y.mean(axis=1, keepdims=True)
        return Y / np.sqrt(np.mean(Y**2, axis=1, keepdims=True) + 1e-12)

    def softmax(query, key, head, group):
        q = np.split(Z @ weights[query], rules.heads, axis=1)[head]
        k = np.split(Z @ weights[key], rules.kv_heads, axis=1)[group]
        if rules.rope:
            q, k = turned(q), turned(k)
        logits = rules.logit_scale * q @ k.T
        distance = np.arange(n)[:, None] - np.arange(n)[None, :]
        logits = logits - (rules.score.slope or 0) * np.abs(distance)
        weight = np.exp(logits - logits.real.max(axis=1, keepdims=True))
        if rules.score.mask.name != "none":
            weight = np.where((distance >= 0) & (distance < (rules.score.mask.window or n)), weight, 0)
        return weight / weight.sum(axis=1, keepdims=True)

    Z = norm(X) if wiring.norm == "pre" else X
    J, C = np.full((n, n), 1 / n), np.tri(n) / np.arange(1, n + 1)[:, None]
    mix, heads = rules.mixture, []
    for head in range(rules.heads):
        group = head * rules.kv_heads // rules.heads
        values = np.split(Z @ weights["value"], rules.kv_heads, axis=1)[group]
        M = mix.identity * np.eye(n) - mix.uniform * J - mix.running * C
        if mix.attention:
            own = layer.fixed is None
            M = M + mix.attention * (softmax("query", "key", head, group) if own else layer.fixed[head].first.dense())
        if mix.second:
            own = layer.fixed is None
            other = softmax("second_query", "second_key", head, group) if own else layer.fixed[head].other.dense()
            M = M - mix.second * other
        position = np.arange(1.0, n + 1)
        gains = {"none": np.ones(n), "root": np.sqrt(position), "late": 1.0 * (position > 32)}
        M = mix.gain * gains[mix.output_gain][:, None] * M * gains[mix.input_gain]
        heads.append((np.eye(n) - J) @ M @ values if mix.centred else M @ values)
    branch = np.concatenate(heads, axis=1)
    branch = branch if weights.get("output") is None else branch @ weights["output"]

    def joined(X, branch):
        branch = norm(branch) if wiring.norm == "branch" else branch
        out = branch if wiring.skip is None else X + wiring.skip * branch
        return norm(out) if wiring.norm == "post" else out

    X = joined(X, branch)
    if weights.get("inner") is None:
        return X
    hidden = (norm(X) if wiring.norm == "pre" else X) @ weights["inner"]
    hidden = (
        hidden * (1 + erf(hidden / np.sqrt(2))) / 2
        if rules.activation == "gelu"
        else np.where(hidden.real > 0, hidden, 0)
    )
    return joined(X, hidden @ weights["outer"])


def turned(X):
    """RoPE by complex numbers: coordinate pairs (k, k + d/2) as real and imaginary part, written out."""
    n, d = X.shape
    angle = np.arange(n)[:, None] * 10000.0 ** (-2 * np.arange(d // 2) / d)
    a, b = X[:, : d // 2], X[:, d // 2 :]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=1)


def weights_of(layer):
    """The weights of a layer by name, those that it has."""
    names = ("value", "output", "query", "key", "second_query", "second_key", "inner", "outer")
    return {name: getattr(layer.weights, name) for name in names if getattr(layer.weights, name) is not None}


def dense_network(network, layers, X, weights):
    """Tokens after all layers; `weights` is one mapping a layer."""
    for layer, held in zip(layers, weights, strict=True):
        X = dense_layer(network, layer, X, held)
    return X

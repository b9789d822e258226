"""Gradients against complex steps through an independent dense network (exact to rounding), and against torch."""

import numpy as np
import pytest

from rmt.attention.gradient_norms import exact_norms, factorised_norms, probed_norms
from rmt.attention.gradients import network_backward
from rmt.attention.layer import layer_forward
from rmt.attention.network import Network
from rmt.streams import stream
from tests.attention.dense_network import STEP, dense_network, weights_of

SMALL = {"n": 14, "width": 16, "head_dim": 4, "beta": 0.9, "dtype": "float64"}
WIRINGS = [
    {},
    {"skip": 1.0},
    {"skip": 0.7, "norm": "pre", "norm_kind": "layer", "mask": "causal"},
    {"skip": 0.7, "norm": "post", "heads": 4, "kv_heads": 2},
    {"skip": 1.0, "norm": "branch", "norm_kind": "layer", "heads": 2, "kv_heads": 1, "mask": "causal"},
    {"norm": "post", "norm_kind": "layer", "heads": 2, "value_width": 6},
    {"norm": "pre", "output_weights": True, "heads": 4, "kv_heads": 4},
    {"skip": 1.0, "norm": "branch", "output_weights": True},
    {"skip": 1.0, "norm": "pre", "mlp": "relu", "mlp_width": 24},
    {"skip": 0.8, "norm": "post", "norm_kind": "layer", "mlp": "gelu", "output_weights": True, "heads": 2},
    {"norm": "branch", "mlp": "gelu", "weight_deviation": 0.3},
    {"skip": 1.0, "mask": "window", "window": 5, "position": "alibi", "slope": 0.1},
]
TURNED = {"position": "rope", "mask": "causal", "skip": 1.0, "heads": 2}
CAUSAL = {"mask": "causal", "skip": 1.0}
REPAIRED = [
    {"variant": "outlier_removed"},
    {"variant": "centred", "skip": 1.0},
    {"variant": "differential", "differential_lambda": 0.4, "heads": 2},
    {"variant": "shaped"},
    {"variant": "running_mean_removed", "norm": "pre", **CAUSAL},
    {"variant": "identity_plus_centred", **CAUSAL},
    {"variant": "row_gain", **CAUSAL},
    {"variant": "two_sided_gain", **CAUSAL},
    {"variant": "identity"},
]


def drawn(network, depth):
    layers = [network.layer(stream(2), 0, number) for number in range(1, depth + 1)]
    return layers, [weights_of(layer) for layer in layers], network.start(stream(2), 0).dense()


def directional(network, depth, G):
    """{(layer, name): (direction, derivative of <G, X_L>)} by complex steps; layer 0 is X_0."""
    layers, weights, X = drawn(network, depth)
    generator = np.random.default_rng(7)
    found = {}
    V = generator.standard_normal(X.shape)
    found[0, "tokens"] = V, np.sum(G * dense_network(network, layers, X + 1j * STEP * V, weights).imag) / STEP
    for at in range(depth):
        for name, held in weights[at].items():
            V = generator.standard_normal(held.shape)
            moved = [dict(one) for one in weights]
            moved[at][name] = held + 1j * STEP * V
            found[at + 1, name] = V, np.sum(G * dense_network(network, layers, X, moved).imag) / STEP
    return found


@pytest.mark.parametrize("model", ["iid", "own"])
@pytest.mark.parametrize("wiring", [*WIRINGS, *REPAIRED], ids=str)
def test_gradients_are_exact(model, wiring):
    """Every weight of every layer and the input, to 1e-8 of the gradient's norm along a random direction."""
    network = Network(**SMALL, model=model, **wiring)
    depth = 3
    G = np.random.default_rng(5).standard_normal((network.n, network.width))
    gradients = dict(network_backward(network, stream(2), 0, depth, G))
    assert list(gradients) == [3, 2, 1]
    for (number, name), (V, exact) in directional(network, depth, G).items():
        held = getattr(gradients[max(number, 1)], name)
        scale = np.linalg.norm(held) * np.linalg.norm(V) / np.sqrt(V.size)
        assert np.sum(held * V) == pytest.approx(exact, abs=1e-8 * scale + 1e-13), (number, name)


def test_gradients_are_exact_through_turned_queries():
    """RoPE, complex steps as above."""
    test_gradients_are_exact("own", TURNED)


def test_a_gradient_is_its_finite_difference():
    """Two-sided differences through the package's own forward pass: error h^2, here 1e-6 relative."""
    network = Network(**SMALL, model="own", skip=1.0, norm="pre", mask="causal", heads=2)
    G = np.random.default_rng(0).standard_normal((network.n, network.width))
    layer, X = network.layer(stream(2), 0, 1), network.start(stream(2), 0)
    ((_, found),) = network_backward(network, stream(2), 0, 1, G)
    V = np.random.default_rng(1).standard_normal(X.shape)
    ends = [
        np.sum(G * layer_forward(layer, type(X)(X.mean + s * V.mean(0), X.rest + s * (V - V.mean(0)))).dense())
        for s in (1e-5, -1e-5)
    ]
    assert np.sum(found.tokens * V) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_a_loss_enters_through_its_cotangent():
    """Half the squared norm has cotangent X_L: the gradient in X_0 of a homogeneous network obeys Euler's rule."""
    network = Network(**SMALL, model="iid", skip=1.0)
    *_, (_, gradients) = network_backward(network, stream(2), 0, 3, lambda X: X)
    *_, (_, last) = network.layers(stream(2), 0, 3)
    start = network.start(stream(2), 0).dense()
    assert np.sum(gradients.tokens * start) == pytest.approx(np.sum(last.dense() ** 2), rel=1e-12)


@pytest.mark.parametrize("variant", ["plain", "outlier_removed"])
def test_factorised_norms_are_the_exact_ones(variant):
    """Against the sum over all unit cotangents; both conventions of the weights; to 1e-10."""
    for unit in (False, True):
        network = Network(n=6, width=7, beta=0.8, dtype="float64", variant=variant, unit_weights=unit, token_norm="one")
        factorised = factorised_norms(network, stream(1), 0, 3)
        np.testing.assert_allclose(np.exp(factorised[0]), exact_norms(network, stream(1), 0, 3)["value"], rtol=1e-10)


def test_probed_norms_are_unbiased():
    """1000 Gaussian probes: within 5 standard errors (false alarm 1e-6 a layer) of the exact norms, here through softmax."""
    network = Network(n=6, width=7, model="own", head_dim=3, dtype="float64", skip=1.0, norm="pre")
    probes = probed_norms(network, stream(1), 0, 2, probes=1000)["value"]
    exact = exact_norms(network, stream(1), 0, 2)["value"]
    error = probes.std(axis=0) / np.sqrt(len(probes))
    assert np.all(np.abs(probes.mean(axis=0) - exact) < 5 * error)
    assert np.all(error < 0.06 * exact)  # a factor of two would be seen
    assert np.all(np.abs(probes.mean(axis=0) - 2 * exact) > 5 * error)  # negative control


def test_norms_that_do_not_factorise_are_refused():
    with pytest.raises(ValueError, match="use probed_norms"):
        factorised_norms(Network(n=6, width=7, skip=1.0), stream(0), 0, 2)


@pytest.mark.parametrize("depth", [1, 4, 7])
def test_tokens_kept_at_some_layers_give_the_same_gradients(depth):
    """Checkpoints at every sqrt(depth)-th layer: the chain of token cotangents matches layer by layer."""
    from rmt.attention.gradients import layer_backward

    network = Network(**SMALL, model="own", skip=1.0, norm="pre")
    G = np.random.default_rng(3).standard_normal((network.n, network.width))
    tokens = [network.start(stream(2), 0)]
    for number in range(1, depth + 1):
        tokens.append(layer_forward(network.layer(stream(2), 0, number), tokens[-1]))
    for number, found in network_backward(network, stream(2), 0, depth, G):
        plain = layer_backward(network.layer(stream(2), 0, number), tokens[number - 1], G)
        assert np.array_equal(plain.tokens, found.tokens) and np.array_equal(plain.value, found.value)
        G = plain.tokens


@pytest.mark.models
@pytest.mark.parametrize("wiring", [*WIRINGS, *REPAIRED], ids=str)
def test_gradients_agree_with_torch(wiring):
    """Independent automatic differentiation, float64, to 1e-8 of the largest entry of every gradient."""
    import torch

    network = Network(**SMALL, model="own", **wiring)
    depth = 2
    layers, weights, start = drawn(network, depth)
    G = np.random.default_rng(5).standard_normal(start.shape)
    leaves = [{k: torch.tensor(v, requires_grad=True) for k, v in one.items()} for one in weights]
    X0 = torch.tensor(start, requires_grad=True)
    X = X0
    for layer, held in zip(layers, leaves, strict=True):
        X = torch_layer(torch, layer, X, held)
    torch.sum(torch.tensor(G) * X).backward()
    for number, found in network_backward(network, stream(2), 0, depth, G):
        for name, leaf in leaves[number - 1].items():
            exact = leaf.grad.numpy()
            np.testing.assert_allclose(getattr(found, name), exact, atol=1e-8 * np.abs(exact).max(), rtol=0)
    np.testing.assert_allclose(found.tokens, X0.grad.numpy(), atol=1e-8 * np.abs(X0.grad.numpy()).max(), rtol=0)


def torch_layer(torch, layer, X, weights):
    """The layer in torch's own operations."""
    rules, wiring, n = layer.rules, layer.rules.wiring, X.shape[0]
    mix = rules.mixture

    def norm(Y):
        if wiring.norm_kind == "layer":
            return torch.nn.functional.layer_norm(Y, (Y.shape[1],), eps=1e-12)
        return torch.nn.functional.rms_norm(Y, (Y.shape[1],), eps=1e-12)

    Z = norm(X) if wiring.norm == "pre" else X
    keep = torch.tensor(rules.score.mask.seen(0, n, n, xp=np))
    far = (torch.arange(n)[:, None] - torch.arange(n)[None, :]).abs().double()
    position = torch.arange(1, n + 1, dtype=torch.float64)
    C = torch.tril(torch.ones(n, n, dtype=torch.float64)) / position[:, None]
    eye, heads = torch.eye(n, dtype=torch.float64), []
    gains = {"none": torch.ones(n, dtype=torch.float64), "root": position.sqrt()}
    for head in range(rules.heads):
        group = head * rules.kv_heads // rules.heads

        def attend(query, key, head=head, group=group):
            q, k = (
                torch.chunk(Z @ weights[query], rules.heads, 1)[head],
                torch.chunk(Z @ weights[key], rules.kv_heads, 1)[group],
            )
            return torch.softmax(
                (rules.logit_scale * q @ k.T - (rules.score.slope or 0) * far).masked_fill(~keep, -torch.inf), 1
            )

        M = mix.identity * eye - mix.uniform / n - mix.running * C
        if mix.attention:
            M = M + mix.attention * attend("query", "key")
        if mix.second:
            M = M - mix.second * attend("second_query", "second_key")
        Y = (
            mix.gain
            * gains[mix.output_gain][:, None]
            * (M @ (gains[mix.input_gain][:, None] * torch.chunk(Z @ weights["value"], rules.kv_heads, 1)[group]))
        )
        heads.append(Y - Y.mean(0) if mix.centred else Y)
    branch = torch.cat(heads, 1)
    branch = branch @ weights["output"] if "output" in weights else branch

    def joined(X, branch):
        branch = norm(branch) if wiring.norm == "branch" else branch
        out = branch if wiring.skip is None else X + wiring.skip * branch
        return norm(out) if wiring.norm == "post" else out

    X = joined(X, branch)
    if "inner" not in weights:
        return X
    phi = {"relu": torch.relu, "gelu": torch.nn.functional.gelu}[rules.activation]
    return joined(X, phi((norm(X) if wiring.norm == "pre" else X) @ weights["inner"]) @ weights["outer"])

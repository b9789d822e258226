"""Networks at initialisation: exact identities, and split tokens against dense ones."""

import numpy as np
import pytest

from rmt.attention.layer import layer_forward
from rmt.attention.network import Network
from rmt.attention.norms import normed, normed_backward
from rmt.attention.split import split
from rmt.streams import stream
from tests.attention.dense_network import dense_layer, weights_of

EXACT = {"dtype": "float64", "beta": 0.8}


@pytest.mark.parametrize("model", ["iid", "keyquery", "own"])
@pytest.mark.parametrize("variant", ["plain", "outlier_removed"])
@pytest.mark.parametrize(
    "wiring",
    [
        {},
        {"skip": 1.0, "norm": "pre", "norm_kind": "layer"},
        {"skip": 0.5, "norm": "post", "mask": "causal"},
        {"skip": 1.0, "norm": "branch", "heads": 4, "kv_heads": 2},
        {"heads": 2, "value_width": 20, "norm": "post", "norm_kind": "layer"},
    ],
)
def test_split_tokens_follow_the_dense_layer(model, variant, wiring):
    network = Network(n=30, width=32, model=model, variant=variant, head_dim=8, **EXACT, **wiring)
    X = network.start(stream(1), 0)
    for number in (1, 2, 3):
        layer = network.layer(stream(1), 0, number)
        before = X.dense()  # A V - mean(V) of nearly equal tokens loses digits against V in either way
        expected = dense_layer(network, layer, before, weights_of(layer))
        X = layer_forward(layer, X)
        tolerance = 1e-11 * np.abs(expected).max() + 1e-14 * np.abs(before).max()
        np.testing.assert_allclose(X.dense(), expected, atol=tolerance)
        np.testing.assert_allclose(X.rest.sum(axis=0), 0, atol=1e-12 * np.abs(X.rest).max())


def test_centred_tokens_are_products_of_centred_matrices():
    """(I - J) A_l ... A_1 = B_l ... B_1 with B = (I - J) A (I - J), and prod (A_i - J) = (A_l - J) A_(l-1) ... A_1: 1e-12."""
    n, depth = 40, 4
    kept = Network(n=n, width=n, variant="plain", **EXACT)
    removed = Network(n=n, width=n, variant="outlier_removed", **EXACT)
    matrices = [kept.layer(stream(0), 0, number).fixed[0].first.dense() for number in range(1, depth + 1)]
    J = np.full((n, n), 1 / n)
    centre = np.eye(n) - J
    P, B, Q = np.eye(n), np.eye(n), np.eye(n)
    for A in matrices:
        before, P, B, Q = P, A @ P, centre @ A @ centre @ B, (A - J) @ Q
    np.testing.assert_allclose(centre @ P @ centre, B, atol=1e-12 * np.abs(B).max() + 1e-17)
    np.testing.assert_allclose(centre @ P, B + centre @ P @ J, atol=1e-15)
    np.testing.assert_allclose(Q, (matrices[-1] - J) @ before, atol=1e-14)
    # The two networks carry the same centred tokens up to the last layer's mean.
    *_, (_, X) = kept.layers(stream(0), 0, depth)
    *_, (_, Y) = removed.layers(stream(0), 0, depth)
    rest, other = X.rest * np.exp(X.log_scale), Y.rest * np.exp(Y.log_scale)
    np.testing.assert_allclose(other, rest, atol=1e-12 * np.abs(rest).max())
    exact = B @ network_weights(kept, depth)
    np.testing.assert_allclose(rest, exact, atol=1e-11 * np.abs(exact).max())


def network_weights(network, depth):
    """X_0 W_1 ... W_depth."""
    X = network.start(stream(0), 0).dense()
    for number in range(1, depth + 1):
        X = X @ network.layer(stream(0), 0, number).weights.value
    return X


def test_a_layer_drawn_again_is_the_same_and_other_layers_differ():
    network = Network(n=20, width=24, model="own", beta=0.8)
    one, again, other = (network.layer(stream(5), 1, number) for number in (2, 2, 3))
    assert np.array_equal(one.weights.query, again.weights.query)
    assert not np.array_equal(one.weights.query, other.weights.query)
    assert not np.array_equal(one.weights.query, network.layer(stream(5), 2, 2).weights.query)


def test_variants_and_beta_share_their_matrices():
    """The same normals: log A_ij - log A_ik doubles when beta does."""
    one = Network(n=20, width=24, beta=0.4, dtype="float64").layer(stream(0), 0, 1).fixed[0].first.dense()
    two = Network(n=20, width=24, beta=0.8, dtype="float64", variant="centred").layer(stream(0), 0, 1).fixed[0]
    log, double = np.log(one), np.log(two.first.dense())
    np.testing.assert_allclose(double - double[:, :1], 2 * (log - log[:, :1]), atol=1e-6)


def test_orthonormal_rows_have_the_asked_norm():
    for norm, square in (("one", 1.0), ("width", 24.0)):
        X = Network(n=20, width=24, token_norm=norm).start(stream(0), 0).dense()
        np.testing.assert_allclose(X @ X.T, square * np.eye(20), atol=1e-12 * square)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"depth_of_no_kind": 1}, None),
        ({"heads": 3}, "does not divide value width"),
        ({"heads": 4, "kv_heads": 3}, "does not divide heads"),
        ({"n": 40}, "needs n <= width"),
        ({"variant": "magic"}, "is unknown"),
        ({"model": "magic"}, "is unknown"),
        ({"value_width": 8, "output_weights": False}, "needs output weights"),
    ],
)
def test_impossible_networks_are_refused(fields, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Network(**{"n": 16, "width": 32, **fields})


@pytest.mark.parametrize("kind", ["rms", "layer"])
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-9])
def test_norms_of_split_tokens_keep_the_digits_of_the_rest(kind, size):
    """Oracle: 60-digit arithmetic. The rest is 1e-9 of the mean, and right to 1e-9 of itself."""
    mpmath = pytest.importorskip("mpmath")
    generator = np.random.default_rng(0)
    n, d = 5, 4
    rest = size * generator.standard_normal((n, d))
    X = split(rest)
    X = type(X)(generator.standard_normal(d), X.rest)
    found = normed(X, kind)
    with mpmath.workdps(60):
        rows = [
            [mpmath.mpf(float(m)) + mpmath.mpf(float(r)) for m, r in zip(X.mean, row, strict=True)] for row in X.rest
        ]
        if kind == "layer":
            rows = [[x - sum(row) / d for x in row] for row in rows]
        rows = [[x / mpmath.sqrt(sum(y * y for y in row) / d) for x in row] for row in rows]
        mean = [sum(row[j] for row in rows) / n for j in range(d)]
        exact = np.array([[float(row[j] - mean[j]) for j in range(d)] for row in rows])
    np.testing.assert_allclose(found.rest, exact, atol=1e-9 * np.abs(exact).max())
    np.testing.assert_allclose(found.mean, [float(m) for m in mean], rtol=1e-10)


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_the_gradient_of_a_norm_is_its_finite_difference(kind):
    generator = np.random.default_rng(1)
    X, G, V = (generator.standard_normal((3, 5)) for _ in range(3))
    step = 1e-6
    ends = [np.sum(G * normed(split(X + sign * step * V), kind).dense()) for sign in (1, -1)]
    assert np.sum(normed_backward(X, G, kind) * V) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-7)

"""Exact derivatives of the transformer: finite differences, complex steps, and autograd as outside oracle."""

import itertools

import numpy as np
import pytest

from rmt.regression.transformer_data import random_tokens
from rmt.regression.transformer_descent import Adam, GradientDescent, descend, load_state, save_state
from rmt.regression.transformer_loss import (
    SquaredLoss,
    certificate,
    outputs,
    push_forward,
    tangent_extremes,
    tangent_gram,
    trace,
)
from rmt.regression.transformer_model import Transformer
from rmt.streams import stream

MODELS = [
    Transformer(width=8, outputs=2, head_dim=4, hidden=12, **change)
    for change in (
        {"activation": "relu"},
        {"activation": "gelu", "skip_scale": 0.0},
        {"activation": "tanh", "scaling": "mup", "depth": 2},
        {"activation": "gelu", "norm": "pre", "depth": 2, "heads": 2},
        {"activation": "tanh", "norm": "post", "depth": 2, "heads": 4, "pooled": True},
    )
]


def problem_of(model, seed=0, n=5, batch=3):
    rng = np.random.default_rng(seed)
    shape = (batch, model.outputs) if model.pooled else (batch, n, model.outputs)
    return SquaredLoss(rng.standard_normal((batch, n, model.width)), rng.standard_normal(shape)), rng


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_gradient_agrees_with_finite_differences_and_complex_steps(model):
    """Along 3 directions: central differences to 1e-7, the forward derivative by a complex step to 1e-12."""
    loss, rng = problem_of(model)
    weights = model.start(stream(1), 0)
    value, gradient = loss.value_and_gradient(weights)
    assert value == pytest.approx(loss.value(weights), rel=1e-14)
    for _ in range(3):
        direction = rng.standard_normal(model.size)
        ends = [loss.value(weights.like(weights.entries + h * direction)) for h in (1e-6, -1e-6)]
        along = float(gradient.entries @ direction)
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(along, rel=1e-7, abs=1e-7)
        pushed = push_forward(weights, loss.X, direction)
        assert np.sum((outputs(weights, loss.X) - loss.Y) * pushed) == pytest.approx(along, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_second_derivative_is_symmetric_and_agrees_with_differences(model):
    loss, rng = problem_of(model)
    weights = model.start(stream(1), 0)
    u, v = rng.standard_normal((2, model.size))
    Hu, Hv = loss.hessian_product(weights, u), loss.hessian_product(weights, v)
    assert v @ Hu == pytest.approx(u @ Hv, rel=1e-10)
    ends = [loss.value_and_gradient(weights.like(weights.entries + h * u))[1].entries for h in (1e-6, -1e-6)]
    assert np.allclose((ends[0] - ends[1]) / 2e-6, Hu, rtol=1e-5, atol=1e-6 * np.abs(Hu).max())


def test_the_sharpness_is_the_largest_eigenvalue():
    model = Transformer(width=4, outputs=1, head_dim=2, hidden=5, activation="tanh")
    loss, _ = problem_of(model)
    weights = model.start(stream(2), 0)
    H = np.array([loss.hessian_product(weights, e) for e in np.eye(model.size)])
    assert loss.sharpness(weights) == pytest.approx(np.linalg.eigvalsh(H)[-1], rel=1e-3)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_tangent_kernel_explicit_and_matrix_free(model):
    loss, rng = problem_of(model)
    weights = model.start(stream(3), 0)
    gram = tangent_gram(weights, loss.X)
    pushed = np.array([push_forward(weights, loss.X, v).ravel() for v in rng.standard_normal((3, model.size))])
    assert np.linalg.matrix_rank(gram) == len(gram) or model.skip_scale == 0
    residual = pushed.T - gram @ np.linalg.lstsq(gram, pushed.T, rcond=None)[0]
    assert np.abs(residual).max() < 1e-6 * np.abs(pushed).max()  # J u lies in the range of J J^T
    low, high = tangent_extremes(weights, loss.X, explicit=True)
    free = tangent_extremes(weights, loss.X, explicit=False)
    assert free[1] == pytest.approx(high, rel=1e-6) and free[0] == pytest.approx(low, abs=1e-6 * high)


def test_heads_split_the_layer_and_pooling_averages():
    """Independent oracle: two heads by plain NumPy, one token at a time."""
    model = Transformer(width=8, outputs=2, head_dim=3, hidden=12, heads=2, skip_scale=0.5, pooled=True)
    loss, _ = problem_of(model, batch=1)
    weights = model.start(stream(4), 0)
    X, (W_Q, W_K, W_V, W_1, W_2), attended = loss.X[0], weights.layers[0], []
    for head in range(2):
        q, k, v = X @ W_Q[:, 3 * head :][:, :3], X @ W_K[:, 3 * head :][:, :3], X @ W_V[:, 4 * head :][:, :4]
        P = np.exp(q @ k.T / np.sqrt(3))
        attended.append(P / P.sum(axis=1, keepdims=True) @ v)
    Z = np.hstack(attended) + 0.5 * X
    H = Z + np.maximum(Z @ W_1, 0) @ W_2
    assert np.allclose(outputs(weights, loss.X)[0], H.mean(axis=0) @ weights.readout, rtol=1e-12)


@pytest.mark.models
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_gradients_agree_with_autograd(model):
    """Outside oracle: the same layer written in torch, float64, to 1e-8 of the largest entry."""
    import torch

    loss, _ = problem_of(model)
    weights = model.start(stream(5), 0)
    blocks = [torch.tensor(block.copy(), requires_grad=True) for block in weights.matrices]

    def normalise(x):
        return torch.nn.functional.layer_norm(x, (model.width,), eps=1e-5)

    def split(x):
        return x.reshape(*x.shape[:-1], model.heads, -1).transpose(-2, -3)

    act = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "tanh": torch.tanh}[model.activation]
    H = torch.tensor(loss.X)
    for at in range(model.depth):
        W_Q, W_K, W_V, W_1, W_2 = blocks[5 * at : 5 * at + 5]
        entered = normalise(H) if model.norm == "pre" else H
        q, k, v = split(entered @ W_Q), split(entered @ W_K), split(entered @ W_V)
        attended = torch.softmax(model.score_factor * q @ k.transpose(-1, -2), dim=-1) @ v
        Z = attended.transpose(-2, -3).reshape(H.shape) + model.skip_scale * H
        Z = normalise(Z) if model.norm == "post" else Z
        H = Z + act((normalise(Z) if model.norm == "pre" else Z) @ W_1) @ W_2
        H = normalise(H) if model.norm == "post" else H
    F = (H.mean(dim=-2) if model.pooled else H) @ blocks[-1]
    (0.5 * ((F - torch.tensor(loss.Y)) ** 2).sum()).backward()
    expected = np.concatenate([block.grad.numpy().ravel() for block in blocks])
    found = loss.value_and_gradient(weights)[1].entries
    assert np.abs(found - expected).max() <= 1e-8 * np.abs(expected).max()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_the_certificate_bounds_the_tangent_kernel(activation, correlation):
    """C5: alpha_lb <= lambda_min(J J^T), N = 8, D = 16, m = 64, every skip scale, 4 draws each; algebra, no exception."""
    for draw, skip in itertools.product(range(4), (0.0, 0.25, 0.5, 1.0, 2.0)):
        loss = random_tokens(stream(6), draw, n=8, width=16, outputs=2, correlation=correlation)
        model = Transformer(width=16, outputs=2, head_dim=16, hidden=64, activation=activation, skip_scale=skip)
        weights = model.start(stream(6), draw)
        assert 0 <= certificate(weights, loss.X) <= tangent_extremes(weights, loss.X)[0] * (1 + 1e-9)


def test_the_certificate_knows_its_range():
    model = MODELS[3]
    with pytest.raises(ValueError, match="one layer"):
        certificate(model.start(stream(0), 0), problem_of(model)[0].X)


@pytest.mark.parametrize("rule", [GradientDescent(1e-3), Adam(3e-3)], ids=lambda rule: type(rule).__name__)
def test_a_descent_resumes_bit_for_bit_also_from_a_file(rule, tmp_path):
    model = MODELS[3]
    loss, _ = problem_of(model)
    whole = list(itertools.islice(descend(rule, loss, model.start(stream(7), 0)), 61))
    save_state(whole[20], tmp_path / "state.npz")
    kept = load_state(tmp_path / "state.npz", model)
    again = list(itertools.islice(descend(rule, loss, kept), 40))
    assert whole[-1].loss < whole[0].loss
    assert again[0].step == 21 and np.array_equal(again[-1].weights.entries, whole[-1].weights.entries)
    assert [state.loss for state in again] == [state.loss for state in whole[21:]]
    assert [state.ratio for state in again] == [state.ratio for state in whole[21:]]
    with pytest.raises(ValueError, match="weights"):
        load_state(tmp_path / "state.npz", MODELS[0])


@pytest.mark.parametrize("step", [10.0, 1e200])
def test_a_divergent_descent_says_so_and_ends(step):
    loss, _ = problem_of(MODELS[0])
    seen = list(descend(GradientDescent(step), loss, MODELS[0].start(stream(8), 0)))
    last = seen[-1]
    assert last.diverged_at == last.step + 1 and last.weights.is_finite and np.isfinite(last.loss)
    assert list(descend(GradientDescent(step), loss, last)) == []


def test_skip_scales_start_from_the_same_weights():
    one, two = (Transformer(width=8, outputs=2, head_dim=4, hidden=12, skip_scale=s) for s in (0.0, 1.0))
    assert np.array_equal(one.start(stream(9), 3).entries, two.start(stream(9), 3).entries)
    loss, _ = problem_of(one)
    Z = [trace(model.start(stream(9), 3), loss.X)[0][0].Z for model in (one, two)]
    assert np.allclose(Z[1] - Z[0], loss.X, rtol=1e-12)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        SquaredLoss(np.zeros((2, 3, 4)), np.zeros((1, 3, 2)))
    with pytest.raises(ValueError, match="heads"):
        Transformer(width=8, outputs=1, head_dim=4, hidden=4, heads=3)

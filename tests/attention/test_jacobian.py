"""The attention Jacobian: Kronecker formulas, central differences, null spaces, masks, heads, automatic differentiation."""

import numpy as np
import pytest

from rmt.attention.jacobian import BLOCKS, Attention, AttentionJacobian
from rmt.attention.jacobian_draws import Projections, draw_projections, draw_tokens, normals
from rmt.attention.jacobian_softmax import mask_matrix, softmax
from rmt.streams import stream

LAYERS = [
    Attention(),
    Attention(scale=1.0, mask="causal"),
    Attention(heads=2, mask="causal"),
    Attention("window", heads=2, window=2),
    Attention("nystrom", landmarks=3),
    Attention("xcit", heads=2),
]
NAMES = ["plain", "causal unscaled", "causal heads", "window heads", "nystrom", "xcit heads"]
layers = pytest.mark.parametrize("attention", LAYERS, ids=NAMES)


def point(attention, *, n=5, width=7, head_dim=4, value_dim=3, blocks=BLOCKS, seed=0):
    value_dim = head_dim if attention.kind == "xcit" else value_dim
    here = stream(seed)
    W = draw_projections(here, 0, width, head_dim, value_dim, heads=attention.heads, std=0.4)
    return AttentionJacobian(draw_tokens(here, 0, n, width, kind="gaussian"), W, attention, blocks)


def moved(jacobian, step):
    """The layer's output after a step in all four blocks."""
    arrays = (jacobian.weights.query, jacobian.weights.key, jacobian.weights.value, jacobian.tokens)
    parts = np.split(step, np.cumsum([a.size for a in arrays])[:-1])
    query, key, value, X = (a + part.reshape(a.shape) for a, part in zip(arrays, parts, strict=True))
    return AttentionJacobian(X, Projections(query, key, value), jacobian.attention, BLOCKS).output.ravel()


@layers
def test_products_are_those_of_the_dense_matrix(attention):
    jacobian = point(attention)
    J = jacobian.dense()
    assert J.shape == jacobian.shape
    assert np.abs(jacobian.matvec(np.eye(J.shape[1])).T - J).max() < 1e-12
    x, u = (normals(stream(1), name, 0, 1, size).ravel() for name, size in (("x", J.shape[1]), ("u", J.shape[0])))
    assert np.abs(jacobian.matvec(x) - J @ x).max() < 1e-12 and np.abs(jacobian.rmatvec(u) - u @ J).max() < 1e-12


@layers
def test_central_differences(attention):
    jacobian = point(attention)
    h = 1e-6
    found = np.stack(
        [(moved(jacobian, h * e) - moved(jacobian, -h * e)) / (2 * h) for e in np.eye(jacobian.shape[1])], axis=1
    )
    J = jacobian.dense()
    assert np.linalg.norm(found - J) / np.linalg.norm(J) < (1e-7 if attention.kind != "nystrom" else 1e-6)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_softmax_against_the_kronecker_formulas(mask):
    """J_Q = c (I (x) V^T) Lambda (X (x) X W_K), J_K likewise for vec(W_K^T), J_V = P X (x) I, written out."""
    jacobian = point(Attention(mask=mask), blocks=("query", "key", "value"))
    X, W = jacobian.tokens, jacobian.weights
    n, width = X.shape
    Q, K, V, scale = X @ W.query, X @ W.key, X @ W.value, W.query.shape[1] ** -0.5
    P = softmax(scale * Q @ K.T, mask_matrix(n, mask))
    Lambda = np.zeros((n * n, n * n))
    for i, p in enumerate(P):
        Lambda[i * n : (i + 1) * n, i * n : (i + 1) * n] = np.diag(p) - np.outer(p, p)
    spread = scale * np.kron(np.eye(n), V.T) @ Lambda
    swap = np.arange(W.key.size).reshape(W.key.shape[1], width).T.ravel()  # vec(W_K) from vec(W_K^T)
    whole = np.hstack([spread @ np.kron(X, K), (spread @ np.kron(Q, X))[:, swap], np.kron(P @ X, np.eye(V.shape[1]))])
    assert np.abs(jacobian.dense() - whole).max() < 1e-12
    if mask == "none":
        assert np.sum(np.linalg.svd(Lambda, compute_uv=False) < 1e-12) == n


@pytest.mark.parametrize("attention", [LAYERS[2], LAYERS[4]], ids=["softmax heads", "nystrom"])
def test_the_gauge_is_a_null_space(attention):
    jacobian = point(attention, blocks=("query", "key", "value"))
    G = normals(stream(2), "G", 0, 4 * attention.heads, 4).reshape(attention.heads, 4, 4)
    direction = jacobian.gauge_vector(G)
    assert np.linalg.norm(jacobian.matvec(direction)) < 1e-12 * np.linalg.norm(direction) * np.linalg.norm(
        jacobian.dense()
    )
    away = np.concatenate([direction[:28], -direction[28:]])  # negative control: the wrong sign of the key part
    assert np.linalg.norm(jacobian.matvec(away)) > 1e-3 * np.linalg.norm(away)


def test_null_spaces_account_for_the_rank():
    """n = 40 > width: more rows than parameters, so the rank shows every null direction. Layer norm adds one to the tokens."""
    for kind, extra in (("gaussian", 0), ("layernorm", 1)):
        X, W = draw_tokens(stream(3), 0, 40, 8, kind=kind), draw_projections(stream(3), 0, 8, 3, 3, heads=2, std=0.4)
        jacobian = AttentionJacobian(X, W, Attention(heads=2))
        null = jacobian.null_spaces()
        assert null == {"tokens": extra * 18, "gauge": 18}
        assert np.linalg.matrix_rank(jacobian.dense()) == jacobian.shape[1] - sum(null.values())
    xcit = AttentionJacobian(X, W, Attention("xcit", heads=2))
    assert xcit.null_spaces() == {"tokens": 18, "scale": 12}
    assert np.linalg.matrix_rank(xcit.dense()) == 7 * 6  # rank X times channels: outputs stay in the column space of X


def test_reduction_and_heads_keep_the_singular_values():
    X, W = draw_tokens(stream(4), 0, 6, 10), draw_projections(stream(4), 0, 10, 3, 2, heads=2, std=0.4)
    jacobian = AttentionJacobian(X, W, Attention(heads=2))
    whole = np.linalg.svd(jacobian.dense(), compute_uv=False)
    small = jacobian.reduced()
    assert small.shape[1] == 6 * 16 and np.allclose(np.linalg.svd(small.dense(), compute_uv=False), whole)
    heads = np.sort(np.concatenate([np.linalg.svd(h.dense(), compute_uv=False) for h in small.each_head()]))[::-1]
    assert np.allclose(heads, whole)


def test_a_stack_too_large_to_hold_is_taken_one_by_one(monkeypatch):
    jacobian = point(Attention(heads=2))
    whole = jacobian.dense()
    monkeypatch.setattr("rmt.attention.jacobian.AT_ONCE", 1)
    assert np.allclose(jacobian.dense(), whole, atol=1e-14)


@pytest.mark.parametrize(
    "make, fragment",
    [
        (lambda: Attention("linear"), "choose from softmax"),
        (lambda: Attention("xcit", mask="causal"), "no meaning"),
        (lambda: point(Attention(), blocks=("bias",)), "name some of query"),
        (lambda: AttentionJacobian(np.ones((3, 2)), Projections(*3 * [np.ones((4, 2))])), "needs 2 rows"),
        (lambda: point(Attention("nystrom", landmarks=9)).dense(), "1 <= landmarks <= n"),
        (lambda: mask_matrix(4, "window"), "block size"),
    ],
)
def test_refusals(make, fragment):
    with pytest.raises(ValueError, match=fragment):
        make()


@pytest.mark.models
@layers
def test_automatic_differentiation(attention):
    import torch

    jacobian = point(attention)

    def attend(X, query, key, value):
        parts = [(X @ W).split(W.shape[1] // attention.heads, dim=1) for W in (query, key, value)]
        return torch.cat([_torch_head(attention, *three) for three in zip(*parts, strict=True)], dim=1)

    arrays = [
        torch.tensor(a) for a in (jacobian.weights.query, jacobian.weights.key, jacobian.weights.value, jacobian.tokens)
    ]
    found = torch.autograd.functional.jacobian(lambda q, k, v, X: attend(X, q, k, v), tuple(arrays))
    whole = np.concatenate([part.reshape(jacobian.shape[0], -1).numpy() for part in found], axis=1)
    J = jacobian.dense()
    assert np.abs(whole - J).max() < 1e-8 * np.abs(J).max()


def _torch_head(attention, Q, K, V):
    import torch

    n, scale = Q.shape[0], attention.score_scale(Q.shape[1])
    if attention.kind == "xcit":
        A = torch.softmax(
            scale * torch.nn.functional.normalize(Q, dim=0).T @ torch.nn.functional.normalize(K, dim=0), dim=-1
        )
        return V @ A.T
    if attention.kind == "nystrom":
        segment = torch.arange(n) * attention.landmarks // n
        L = (segment == torch.arange(attention.landmarks)[:, None]).double()
        L = L / L.sum(dim=1, keepdim=True)
        F, A, B = (torch.softmax(scale * a @ b.T, dim=-1) for a, b in ((Q, L @ K), (L @ Q, L @ K), (L @ Q, K)))
        return F @ torch.linalg.inv(A) @ B @ V
    allowed = mask_matrix(n, "window" if attention.kind == "window" else attention.mask, window=attention.window)
    scores = scale * Q @ K.T
    if allowed is not None:
        scores = scores.masked_fill(~torch.tensor(allowed), -torch.inf)
    return torch.softmax(scores, dim=-1) @ V

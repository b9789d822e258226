"""Residual attention: the layer against its formula, and what is deterministic about its singular values."""

import numpy as np
import pytest

from rmt.regression.residual_attention import ResidualAttention, score_norm, score_scaling
from rmt.streams import stream


def layer_of(**change):
    return ResidualAttention(**{"n": 8, "width": 16, "head_dim": 4, **change})


def parts(layer, draw=0, seed=1):
    X = layer.tokens(stream(seed), draw)
    queries, keys = layer.queries_and_keys(stream(seed), draw, X)
    P = layer.attention(queries, keys)
    return X, queries, keys, P, layer.output(stream(seed), draw, X, P)


@pytest.mark.parametrize("scaling", ["standard", "mup", "unscaled", "fan_out", "fan_out_unscaled"])
def test_attention_is_the_softmax_of_the_scaled_scores(scaling):
    """Independent oracle: plain NumPy."""
    _, queries, keys, P, _ = parts(layer_of(scaling=scaling))
    scores = score_scaling(scaling, width=16, head_dim=4).factor * queries @ keys.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    assert np.allclose(P.dense(), weights / weights.sum(axis=1, keepdims=True), rtol=1e-12)


def test_the_score_deviation_of_each_scaling_is_what_theory_says():
    """sd of the scores of independent tokens, n = 400 tokens: 5 % is six standard errors (queries share keys)."""
    from rmt.theorems.residual import score_deviation

    for scaling in ("standard", "mup", "unscaled", "fan_out", "fan_out_unscaled"):
        layer = layer_of(n=400, width=256, head_dim=64, scaling=scaling)
        X = layer.tokens(stream(2), 0)
        queries, keys = layer.queries_and_keys(stream(2), 0, X)
        scores = score_scaling(scaling, width=256, head_dim=64).factor * queries @ keys.T
        assert scores.std() == pytest.approx(score_deviation(scaling, width=256, head_dim=64), rel=0.05)


def test_skip_scales_share_their_draws():
    outputs = {scale: parts(layer_of(skip_scale=scale)) for scale in (0.0, 0.5)}
    assert np.allclose(outputs[0.5][-1] - outputs[0.0][-1], 0.5 * outputs[0.0][0], rtol=1e-12)


def test_tokens_have_the_correlation_they_are_asked_for():
    """Mean cosine of pairs over 40 draws of 8 tokens: sd of one draw about 0.03 at rho = 0.9."""
    found = []
    for draw in range(40):
        X = layer_of(width=256, correlation=0.9).tokens(stream(3), draw)
        gram = np.corrcoef(X)
        found.append(gram[~np.eye(8, dtype=bool)].mean())
    assert np.mean(found) == pytest.approx(0.9, abs=0.02)


def test_opposed_values_always_lose_rank():
    """C3: W_V = -skip_scale I gives skip_scale (I - P) X, singular whatever X is. The control: Gaussian values do not."""
    for draw in range(10):
        singular = np.linalg.svd(parts(layer_of(values="opposed"), draw)[-1], compute_uv=False)
        regular = np.linalg.svd(parts(layer_of(), draw)[-1], compute_uv=False)
        assert singular[-1] < 1e-12 * singular[0] and regular[-1] > 1e-3 * regular[0]


def test_weyl_keeps_all_but_one_singular_value():
    """Algebra: s_(n-1)(Z) >= skip s_min(X) - |(P - 11^T/n) X W_V|, in every draw and for every skip."""
    for draw in range(20):
        for scale in (0.5, 2.0, 8.0):
            X, _, _, P, Z = parts(layer_of(skip_scale=scale), draw)
            values = Z - scale * X
            rest = values - np.ones((8, 8)) / 8 @ np.linalg.solve(P.dense(), values)
            left = np.linalg.svd(Z, compute_uv=False)[-2]
            bound = scale * np.linalg.svd(X, compute_uv=False)[-1] - np.linalg.norm(rest, 2)
            assert left >= bound - 1e-9


def test_the_score_norm_is_that_of_the_doubly_centred_scores():
    _, queries, keys, _, _ = parts(layer_of(head_dim=32))
    scores = 0.3 * queries @ keys.T
    centred = scores - scores.mean(axis=0) - scores.mean(axis=1, keepdims=True) + scores.mean()
    assert score_norm(queries, keys, 0.3) == pytest.approx(np.linalg.norm(centred, 2), rel=1e-10)


@pytest.mark.parametrize("change", [{"n": 0}, {"correlation": 1.0}, {"scaling": "magic"}, {"values": "none"}])
def test_a_wrong_layer_is_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        layer_of(**change)

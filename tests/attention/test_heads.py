"""Heads of a layer: what they share, what positions and norms do, and that the plain settings are the plain ensembles."""

import numpy as np
import pytest

from rmt.attention.heads import AttentionHeads
from rmt.attention.positions import rotated
from rmt.ensembles.attention import KeyQueryAttention
from rmt.ensembles.tokens import value_tokens
from rmt.streams import stream

S = stream(3)
SIZES = {"n": 80, "head_dim": 8, "width": 32, "value_width": 24}


def test_plain_settings_draw_the_bits_of_the_plain_ensembles():
    heads = AttentionHeads(beta=0.7, **SIZES)
    plain = KeyQueryAttention(n=80, head_dim=8, beta=0.7).matrix(S, 2)
    np.testing.assert_array_equal(heads.matrix(S, 2).dense(), plain.dense())
    np.testing.assert_array_equal(heads.values(S, 2), value_tokens(S, 2, 80, 32, 24))


@pytest.mark.parametrize("tokens", ["gaussian", "layernorm", "orthonormal"])
def test_shared_tokens_times_weights(tokens):
    heads = AttentionHeads(tokens=tokens, weight_init="uniform", **{**SIZES, "n": 30})
    X = heads.inputs(S).astype(float)
    queries, keys = heads.queries_and_keys(S)
    np.testing.assert_allclose(queries, X @ heads.projection(S, 0, "query", 0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(keys, X @ heads.projection(S, 0, "key", 0), rtol=1e-4, atol=1e-4)
    if tokens == "layernorm":
        np.testing.assert_allclose(X.mean(axis=1), 0, atol=1e-6)
        np.testing.assert_allclose((X**2).mean(axis=1), 1, rtol=1e-5)
    if tokens == "orthonormal":
        np.testing.assert_allclose(X @ X.T, 32 * np.eye(30), atol=1e-4)


@pytest.mark.parametrize("tokens", ["independent", "gaussian"])
def test_grouped_heads_share_keys_and_values_and_not_queries(tokens):
    heads = AttentionHeads(tokens=tokens, heads=4, kv_heads=2, **SIZES)
    drawn = [heads.queries_and_keys(S, head=h) for h in range(4)]
    values = [heads.values(S, head=h) for h in range(4)]
    assert values[0].shape == (80, 6)
    assert np.array_equal(drawn[0][1], drawn[1][1]) and not np.array_equal(drawn[1][1], drawn[2][1])
    assert np.array_equal(values[0], values[1]) and not np.array_equal(values[1], values[2])
    assert len({q.tobytes() for q, _ in drawn}) == 4


def test_rope_keeps_norms_and_makes_logits_depend_on_the_distance():
    """Algebra: equal queries and keys everywhere give a Toeplitz matrix of logits, in float64."""
    q, k = np.random.default_rng(0).standard_normal((2, 8))
    Q, K = rotated(np.tile(q, (50, 1))), rotated(np.tile(k, (50, 1)))
    np.testing.assert_allclose(np.linalg.norm(Q, axis=1), np.linalg.norm(q), rtol=1e-12)
    logits = Q @ K.T
    for lag in (-7, 0, 3):
        assert np.ptp(np.diagonal(logits, lag)) < 1e-12
    assert logits[0, 0] == pytest.approx(q @ k)


def test_qk_norm_puts_every_row_on_the_sphere():
    queries, keys = AttentionHeads(norm="qk", **SIZES).queries_and_keys(S)
    for x in (queries, keys):
        np.testing.assert_allclose(np.linalg.norm(x, axis=1), np.sqrt(8), rtol=1e-5)


def test_misfits_are_refused():
    for changes, fragment in (
        ({"heads": 3, "kv_heads": 2}, "kv_heads 2 does not divide heads 3"),
        ({"heads": 5}, "heads 5 does not divide value_width 24"),
        ({"tokens": "foo"}, "tokens 'foo' is unknown"),
    ):
        with pytest.raises(ValueError, match=fragment):
            AttentionHeads(**SIZES, **changes)
    with pytest.raises(ValueError, match="choose an even head_dim"):
        AttentionHeads(position="rope", **{**SIZES, "head_dim": 7}).queries_and_keys(S)

"""The matrix-free predictor against dense singular values."""

import math

import numpy as np
import pytest

from rmt.laws.matrix_free import leading_values


def given(n, width, head_dim, beta, power, seed=3):
    generator = np.random.default_rng([seed, n, head_dim])
    spectrum = np.arange(1, width + 1.0) ** -power
    tokens = generator.standard_normal((n, width)) * np.sqrt(spectrum * width / spectrum.sum())
    queries, keys = generator.standard_normal((2, width, head_dim)) / math.sqrt(width)
    return beta * tokens @ queries, tokens @ keys


@pytest.mark.parametrize("n, head_dim, beta, power", [(600, 64, 0.7, 0.5), (600, 32, 0.5, 0.0)])
def test_leading_values_of_given_queries_and_keys(n, head_dim, beta, power):
    """Oracle: numpy's dense values; published accuracy 2.5 %. Control: the iid formula 2 sigma is off by half."""
    q, k = given(n, 256, head_dim, beta, power)
    logits = q @ k.T / math.sqrt(head_dim)
    A = np.exp(logits - logits.max(axis=1, keepdims=True))
    A /= A.sum(axis=1, keepdims=True)
    dense = np.linalg.svd(A, compute_uv=False)
    found = leading_values(q, k)
    assert found.singular_values[:5] == pytest.approx(dense[1:6], rel=0.03)
    assert found.top == pytest.approx(dense[0], abs=1e-3)
    variance = n * np.sum(A**2) / n - 1
    assert abs(found.row_variance - variance) < 5.5 * found.stderr * found.row_variance
    assert 2 * math.sqrt(found.row_variance / n) < 0.6 * dense[1]


def test_a_hundred_thousand_tokens_need_no_matrix():
    """Closed form: far beyond d_k values saturate at beta/sqrt(d_k), .0625, widened by the scales of the weights."""
    generator = np.random.default_rng(1)
    q, k = generator.standard_normal((2, 100_000, 16))
    found = leading_values(0.5 * q, k, rows=16)
    assert found.singular_values[:16].mean() == pytest.approx(0.5 / 4, rel=0.03)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="give two"):
        leading_values(np.ones((4, 2)), np.ones((5, 2)))


def test_what_has_no_leading_values_is_named():
    some = np.random.default_rng(0).standard_normal((10, 2))
    for queries, keys, rows, reason in (
        (np.zeros((10, 2)), some, 64, "uniform"),
        (np.full((10, 2), np.nan), some, 64, "NaN"),
        (some, some, 0, "rows = 0"),
    ):
        with pytest.raises(ValueError, match=reason):
            leading_values(queries, keys, rows=rows)

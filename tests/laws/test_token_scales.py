"""Canonical scales: identities of the Gram matrices, and typical scales against drawn weights."""

import numpy as np
import pytest

from rmt.laws.token_scales import Scales, scales_from_grams, scales_of, typical_scales


def weights(width, head_dim, seed=20261130):
    return np.random.default_rng(seed).standard_normal((2, width, head_dim)) / np.sqrt(width)


def test_scales_are_the_eigenvalues_of_the_product():
    """Oracle: non-symmetric eigenvalues of S_Q S_K, and the logit matrix's own singular values."""
    queries, keys = weights(40, 8)
    scales = scales_of(queries, keys)
    product = np.linalg.eigvals(queries.T @ queries @ keys.T @ keys).real
    assert np.sort(scales.squares * scales.mean) == pytest.approx(np.sort(product), rel=1e-8)
    whole = np.linalg.svd(queries @ keys.T, compute_uv=False)[:8] ** 2
    assert np.sort(scales.squares * scales.mean) == pytest.approx(np.sort(whole), rel=1e-8)
    again = scales_from_grams(queries.T @ queries, keys.T @ keys)
    assert again.squares == pytest.approx(scales.squares)


@pytest.mark.parametrize("width, head_dim", [(256, 64), (64, 64), (768, 64), (128, 32)])
def test_typical_scales_have_the_moments_of_free_wishart_products(width, head_dim):
    """Closed form: E tau^4/(E tau^2)^2 = 1 + 2 c, so 1/d_e = (1 + 2 c)/d_k."""
    scales = typical_scales(width, head_dim)
    assert scales.squares.mean() == pytest.approx(1)
    assert scales.effective_dimension == pytest.approx(head_dim / (1 + 2 * head_dim / width), rel=0.01)
    on_sphere = typical_scales(width, head_dim, sphere=width - 1)
    if (width, head_dim) == (256, 64):
        assert on_sphere.effective_dimension == pytest.approx(51, abs=0.5)  # published
    exact = 1 / ((1 + 2 * head_dim / width) / head_dim - 1 / (width - 1))
    assert on_sphere.effective_dimension == pytest.approx(exact, rel=0.01)


def test_typical_scales_are_those_of_drawn_weights():
    """Oracle: ten draws; each quantile within 5 %."""
    drawn = np.mean([np.sort(scales_of(*weights(256, 64, seed)).squares) for seed in range(10)], axis=0)
    assert typical_scales(256, 64).squares == pytest.approx(drawn, rel=0.06)


def test_the_spread_of_row_variances_is_that_of_the_effective_dimension():
    """Oracle: 4000 tokens, Gaussian and on the sphere; the variance of r is 2/d_e, statistical error 3 %."""
    queries, keys = weights(64, 16)
    tokens = np.random.default_rng(1).standard_normal((4000, 64))
    centred = tokens - tokens.mean(axis=1, keepdims=True)
    sphere = centred / centred.std(axis=1, keepdims=True)
    for X, covariance, dimension in ((tokens, None, None), (sphere, np.eye(64) - 1 / 64, 63)):
        scales = scales_of(queries, keys, covariance=covariance, sphere=dimension)
        gram = keys.T @ (np.eye(64) if covariance is None else covariance) @ keys
        q = X @ queries
        r = np.einsum("na,ab,nb->n", q, gram, q) / (16 * scales.mean)
        assert r.mean() == pytest.approx(1, abs=0.03)
        assert np.var(r) == pytest.approx(2 / scales.effective_dimension, rel=0.15)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="shapes"):
        scales_of(np.ones((4, 2)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="wider"):
        typical_scales(32, 64)
    assert Scales(np.ones(12), 1.0).effective_dimension == pytest.approx(12)


def test_one_direction_on_a_circle_of_one_dimension_has_rows_all_alike():
    assert typical_scales(2, 1, sphere=1.0).effective_dimension == np.inf

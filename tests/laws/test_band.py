"""Local attention: its bands against dense matrices, its rows against sampling, its law against a sample."""

import math

import numpy as np
import pytest

from rmt.laws.band import (
    BandEquation,
    LocalAttention,
    band_count,
    bias_symbol,
    biased_row_squares,
    effective_window,
    plateau_values,
    window_singular_values,
    window_symbol,
)


def mean_of_window(n, window):
    i = np.arange(n)
    seen = (i[:, None] >= i) & (i[:, None] - i < window)
    return seen / seen.sum(axis=1, keepdims=True)


def sample(n, beta, draws, *, window=None, slope=None, seed=1):
    generator = np.random.default_rng([seed, n, window or 0])
    i = np.arange(n)
    lag = i[:, None] - i
    seen = (lag >= 0) & (lag < (window or n))
    for _ in range(draws):
        logits = beta * generator.standard_normal((n, n)) - (slope or 0.0) * lag
        A = np.where(seen, np.exp(np.where(seen, logits, 0.0)), 0.0)
        yield A / A.sum(axis=1, keepdims=True)


def test_running_sums_give_the_values_of_the_dense_band():
    dense = np.linalg.svd(mean_of_window(300, 40), compute_uv=False)
    assert window_singular_values(40, 300, 5) == pytest.approx(dense[:5], rel=1e-8)


def test_symbols_are_fourier_sums():
    """Closed form: sums of the weights times e^(i k th)."""
    theta = np.array([0.1, 1.0, 3.0])
    k = np.arange(2000)[:, None]
    assert window_symbol(7, theta) == pytest.approx(np.abs(np.exp(1j * k[:7] * theta).mean(axis=0)), abs=1e-12)
    r = math.exp(-0.05)
    exact = np.abs(np.sum((1 - r) * r**k * np.exp(1j * k * theta), axis=0))
    assert bias_symbol(0.05, theta) == pytest.approx(exact, rel=1e-10)
    assert effective_window(0.05, 10**6) == pytest.approx(1 / np.tanh(0.025))


def test_the_plateau_below_one():
    """Oracle: dense circulant-free band, n = 1200, w = 16: distances from 1 after the two values of the ramp within 6 %."""
    dense = np.linalg.svd(mean_of_window(1200, 16), compute_uv=False)
    plateau = dense[dense < 0.99999][:6]
    assert 1 - plateau == pytest.approx(1 - plateau_values(16, 1200, 6), rel=0.12)
    assert np.sum(dense > 0.5) == pytest.approx(band_count(16, 1200, 0.5), rel=0.03)


def test_squares_of_biased_rows_by_sampling():
    """Oracle: 20000 rows of 60 weights, slope .1, log-variance .8; 5.5 standard errors (4e-8). Control: no slope."""
    generator = np.random.default_rng(4)
    weights = np.exp(math.sqrt(0.8) * generator.standard_normal((20000, 60)) - 0.1 * np.arange(60))
    squares = np.sum((weights / weights.sum(axis=1, keepdims=True)) ** 2, axis=1)
    found = biased_row_squares(0.8, 0.1, np.array([1.0, 60.0]))
    assert found[0] == pytest.approx(1, abs=1e-4)
    assert abs(squares.mean() - found[1]) < 5.5 * squares.std() / math.sqrt(20000)
    assert abs(squares.mean() - biased_row_squares(0.8, 1e-6, np.array([60.0]))[0]) > 0.01


def test_without_a_band_the_scalar_equation_is_a_quarter_circle():
    """Closed form: D = 0 gives delta = tau^2/(-z (1 + delta)), the quarter circle of variance tau^2."""
    equation = BandEquation(np.zeros(50), 0.3)
    z = np.array([0.4 + 0.1j, 2.0 + 0.5j])
    delta = equation.solve(z, equation.start(z), tolerance=1e-8)[0]
    assert delta * (1 + delta) * -z == pytest.approx(np.full(2, 0.3))


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_largest_values_of_windows(beta):
    """Published means of ten draws, n = 1000: w = 64: 1.617, 1.656; w = 256: 1.699, 1.728 and 1.213, 1.266."""
    published = {0.5: (1.617, 1.699, 1.213), 1.0: (1.656, 1.728, 1.266)}[beta]
    narrow, wide = LocalAttention(1024, beta, window=64), LocalAttention(1024, beta, window=256)
    assert [narrow.top_value(1), wide.top_value(1)] == pytest.approx(published[:2], rel=0.02)
    assert wide.top_value(2) == pytest.approx(published[2], rel=0.04)


def test_largest_values_under_a_slope():
    """Published: slope .004: 1.667; slope .02 (beta = .5): 1.562, (1) 1.701 at .004."""
    assert LocalAttention(2000, 0.5, slope=0.004).top_value(1) == pytest.approx(1.667, rel=0.02)
    assert LocalAttention(2000, 0.5, slope=0.02).top_value(1) == pytest.approx(1.562, rel=0.02)
    assert LocalAttention(2000, 1.0, slope=0.004).top_value(1) == pytest.approx(1.701, rel=0.02)


def test_published_frobenius_norms():
    """Published at n = 2000: slope .02: 30.7, 57.4; .004: 12.6, 22.7; .1: 126, 204 (beta = .5, 1), within 3 %."""
    for slope, published in ((0.02, (30.7, 57.4)), (0.004, (12.6, 22.7)), (0.1, (126.0, 204.0))):
        found = [LocalAttention(2000, beta, slope=slope).frobenius_norm_squared for beta in (0.5, 1.0)]
        assert found == pytest.approx(published, rel=0.03)
    uniform = LocalAttention(2000, 1e-3, window=64).frobenius_norm_squared
    assert uniform == pytest.approx(34.99, abs=0.02)


@pytest.mark.parametrize("kind", [{"window": 16}, {"slope": 0.05}])
def test_a_sample_has_this_law(kind):
    """Oracle: numpy, 2 draws, n = 500, beta = .5: distance below .035 (published .015-.02); control: beta = .9."""
    values = np.sort(np.concatenate([np.linalg.svd(A, compute_uv=False) for A in sample(500, 0.5, 2, **kind)]))
    empirical = (np.arange(values.size) + 0.5) / values.size
    assert np.abs(LocalAttention(500, 0.5, **kind).law.cdf(values) - empirical).max() < 0.035
    assert np.abs(LocalAttention(500, 0.9, **kind).law.cdf(values) - empirical).max() > 0.06


def test_ranges_are_named():
    assert "window = 8" in LocalAttention(500, 0.5, window=8).validity
    assert "slope" in LocalAttention(500, 0.5, slope=0.5).validity
    with pytest.raises(ValueError, match="exactly one"):
        LocalAttention(500, 0.5)

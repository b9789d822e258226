"""Attention times independent values: closed moments, Marchenko-Pastur, and a sample."""

import math

import numpy as np
import pytest

from rmt.laws.keyquery import KeyQueryLaw
from rmt.laws.quarter_circle import QuarterCircle
from rmt.laws.value_product import ValueProduct
from tests.laws.drawn_attention import softmax


def test_density_has_the_closed_moments():
    product = ValueProduct(KeyQueryLaw(1000, 64, 0.7), 1000, 256)
    grid = np.geomspace(1e-3, 1.05 * product.edge, 400)
    density = product.density(grid)
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=2e-3)
    assert np.trapezoid(density * grid, grid) == pytest.approx(product.moment(1), rel=0.01)
    assert np.trapezoid(density * grid**2, grid) == pytest.approx(product.moment(2), rel=0.01)


def test_few_values_see_only_the_mean():
    """For value_width << n all eigenvalues tend to E s^2, spread sqrt(r E s^4)."""
    product = ValueProduct(QuarterCircle(1.0), 10**6, 4)
    assert product.edge == pytest.approx(1, abs=0.02)
    assert product.moment(2) - product.moment(1) ** 2 == pytest.approx(4e-6 * 2)


def test_noise_times_noise_is_fuss_catalan():
    """Closed form: quarter circle and square V give Fuss-Catalan of order 2, edge 27/4; 800 nodes and the finite top cost 2 %."""
    assert ValueProduct(QuarterCircle(1.0), 10**6, 10**6).edge == pytest.approx(6.75, rel=0.02)


def test_a_sample_has_these_eigenvalues():
    """Oracle: numpy, 3 draws, n = 600, d_k = d_v = 64, beta = .5: moments 5 %, top 12 % (below the edge, as published)."""
    generator = np.random.default_rng(7)
    found = []
    for _ in range(3):
        q, k, v = generator.standard_normal((3, 600, 64))
        A = np.exp(0.5 * q @ k.T / 8)
        A /= A.sum(axis=1, keepdims=True)
        T = (A - A.mean(axis=0)) @ v
        found.append(np.linalg.eigvalsh(T.T @ T))
    product = ValueProduct(KeyQueryLaw(600, 64, 0.5), 600, 64)
    assert np.mean(found) == pytest.approx(product.moment(1), rel=0.05)
    assert np.mean(np.square(found)) == pytest.approx(product.moment(2), rel=0.08)
    top = np.mean(found, axis=0)[-1]
    assert 0.85 * product.edge < top < 1.02 * product.edge
    assert math.isclose(product.ratio, 64 / 600)


@pytest.mark.slow
@pytest.mark.parametrize(
    "head_dim, value_width, beta, measured, published",
    [(64, 64, 1.0, 4.22, 0.95), (64, 64, 0.5, 0.151, 0.97), (32, 64, 1.0, 5.61, 0.98), (64, 256, 1.0, 8.08, 0.97)],
)
def test_published_second_moments_and_stable_ranks(head_dim, value_width, beta, measured, published):
    """Oracle: numpy, six draws, n = 1500: 5 % plus three standard errors (a draw of 64 values scatters by .05-.08) for E l^2 and
    for the excess of the stable rank of T^T T given s_1, d_v E l^2/s_1^4, published measured over predicted likewise;
    ||T||_F^2/s_1^2 = 1 + d_v sigma^2/s_1^2 2 %. The largest l lies 2-12 % below the edge (published 4-10, 64 values).
    """
    product = ValueProduct(KeyQueryLaw(1500, head_dim, beta), 1500, value_width)
    rows = []
    for seed in range(6):
        generator = np.random.default_rng([seed, head_dim, value_width, int(10 * beta)])
        q, k = generator.standard_normal((2, 1500, head_dim))
        T = softmax(beta / math.sqrt(head_dim) * q @ k.T) @ generator.standard_normal((1500, value_width))
        centred = np.linalg.eigvalsh((T - T.mean(axis=0)).T @ (T - T.mean(axis=0)))
        values = np.linalg.eigvalsh(T.T @ T)
        excess = np.sum(values[:-1] ** 2) / (value_width * product.moment(2))
        stable = values.sum() / (values[-1] + value_width * product.moment(1))
        rows.append([np.mean(centred**2) / product.moment(2), excess, stable, centred[-1] / product.edge])
    (second, excess, stable, top), error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / math.sqrt(len(rows))
    assert product.moment(2) == pytest.approx(measured, rel=0.05)
    assert second == pytest.approx(1, abs=0.05 + 3 * error[0])
    assert excess == pytest.approx(1, abs=0.05 + 3 * error[1])
    assert excess == pytest.approx(published, abs=0.05 + 3 * error[1])
    assert stable == pytest.approx(1, abs=0.02)
    assert 0.88 - 3 * error[3] < top < (0.98 if value_width == 64 else 1.0) + 3 * error[3]


def test_only_two_moments_have_closed_forms():
    with pytest.raises(ValueError, match="k = 3"):
        ValueProduct(QuarterCircle(), 100, 50).moment(3)

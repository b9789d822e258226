"""The typed key-query law: limits, closed moments, and a sample."""

import math

import numpy as np
import pytest

from rmt.laws.hermite import HermiteLaw
from rmt.laws.keyquery import KeyQueryLaw


@pytest.mark.parametrize("head_dim, beta", [(64, 1.0), (64, 0.5), (128, 1.0)])
def test_mass_is_one_and_the_edge_is_near_the_untyped_one(head_dim, beta):
    law = KeyQueryLaw(1500, head_dim, beta)
    assert law.cdf(np.array([2 * law.edge]))[0] == pytest.approx(1, abs=0.002)
    untyped = math.sqrt(HermiteLaw(1500, math.expm1(beta**2), beta, head_dim).edge().square)
    assert law.edge == pytest.approx(untyped, rel=0.05)


def test_quantile_inverts_the_cdf():
    law = KeyQueryLaw(1500, 64, 1.0)
    p = np.linspace(0.05, 0.99, 20)
    assert law.cdf(law.quantile(p)) == pytest.approx(p, abs=1e-4)


def test_tiny_logits_leave_the_shape_of_the_linear_law():
    """Scaling: at beta -> 0 only degree 1 is left, so edge/beta and quantile/beta tend to limits and mass stays one."""
    reference = KeyQueryLaw(500, 64, 1e-3)
    for beta in (1e-6, 1e-9):
        law = KeyQueryLaw(500, 64, beta)
        assert law.edge / beta == pytest.approx(reference.edge / 1e-3, rel=1e-5)
        assert law.moment(2) / beta**2 == pytest.approx(reference.moment(2) / 1e-6, rel=1e-5)
        assert law.quantile(0.97) / beta == pytest.approx(reference.quantile(0.97) / 1e-3, rel=1e-2)


@pytest.mark.filterwarnings("error")
def test_the_hottest_logits_allowed_give_numbers():
    assert 0 < KeyQueryLaw(500, 64, 6.0).edge < math.inf


def test_far_beyond_the_head_dimension_the_edge_saturates():
    """Published: n = 1e6, d_k = 64, beta = 1: edge/sqrt(n) = .1265 against the limit .1255."""
    assert KeyQueryLaw(10**6, 64, 1.0).edge / 1000 == pytest.approx(0.1265, rel=0.005)


def test_published_edges_at_1500_tokens():
    """Edges of the published table, d_k = 64: 6.52 at beta = 1, 3.18 at .5; top values within 1 %."""
    for beta, edge, top in ((1.0, 6.52, 6.43), (0.5, 3.18, 3.14)):
        law = KeyQueryLaw(1500, 64, beta)
        assert law.edge == pytest.approx(edge, rel=0.01)
        assert float(law.top_value(1)) == pytest.approx(top, rel=0.01)


def test_the_law_fits_a_sample_where_the_quarter_circle_does_not():
    """Oracle: numpy, one draw at n = 600, d_k = 64, beta = 1. Published KS .010 for the law, .26 for the quarter circle."""
    generator = np.random.default_rng(20261130)
    n = 600
    queries, keys = generator.standard_normal((2, n, 64))
    A = np.exp(queries @ keys.T / 8 - 4)
    A /= A.sum(axis=1, keepdims=True)
    values = np.sort(np.linalg.svd(A - A.mean(axis=0), compute_uv=False)) * math.sqrt(n)
    grid = np.arange(1, n + 1) / n
    law = KeyQueryLaw(n, 64, 1.0)
    assert np.abs(law.cdf(values) - grid).max() < 0.03
    t = np.clip(values / math.sqrt(math.expm1(1.0)), 0, 2)
    quarter_circle = (t * np.sqrt(4 - t**2) / 2 + 2 * np.arcsin(t / 2)) / math.pi
    assert np.abs(quarter_circle - grid).max() > 0.1

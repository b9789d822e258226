"""Softmax moments against mpmath quadrature, exact small cases and the table of the effective variance."""

import mpmath
import numpy as np
import pytest

from rmt.laws import lognormal_softmax
from rmt.laws.lognormal_softmax import effective_variance, row_square_variance, softmax_moment


def two_entries(v):
    """n = 2: A_1 is a logistic of N(0, 2v), so sigma_2^2 = E tanh^2(x/2) (mpmath, independent of the integral)."""
    with mpmath.workdps(20):
        scale = mpmath.sqrt(2 * v) / 2
        nodes = [-12, -6, -3, -1, -0.3, 0, 0.3, 1, 3, 6, 12]
        return float(mpmath.quad(lambda x: mpmath.tanh(scale * x) ** 2 * mpmath.npdf(x), nodes))


@pytest.mark.parametrize("v", [1e-6, 1e-4, 0.25, 1.0, 10.0, 400.0])
def test_two_entries_is_a_logistic_normal(v):
    assert effective_variance(v, 2) == pytest.approx(two_entries(v), rel=1e-9)


def test_matches_nested_quadrature_in_other_variables():
    """Oracle: Gauss-Hermite inside, Gauss-Legendre panels in t outside, at n = 50, v = 0.5."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    a = np.exp(np.sqrt(0.5) * nodes)
    u, w = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for lo, hi in zip(np.arange(0, 4, 0.05), np.arange(0.05, 4.05, 0.05), strict=True):
        t = (lo + hi) / 2 + (hi - lo) / 2 * u
        decay = np.exp(-np.outer(t, a))
        total += (hi - lo) / 2 * np.sum(w * t * (decay @ (weights * a**2)) * (decay @ weights) ** 49)
    assert effective_variance(0.5, 50) == pytest.approx(50**2 * total - 1, rel=1e-8)


def test_published_effective_variances():
    """Digits of the table n(s_1^2 - 1) for lognormal weights at beta = 1 and 1.5 (n = 200, 500, 1000)."""
    n = np.array([200, 500, 1000])
    assert np.allclose(effective_variance(1.0, n), [1.628, 1.679, 1.698], atol=6e-4)
    assert np.allclose(effective_variance(2.25, n), [6.07, 7.06, 7.60], atol=6e-3)


def test_limits():
    assert effective_variance(3.0, 1) == 0
    assert effective_variance(0.0, 1000) == 0
    q = np.exp(0.25)
    first_correction = (q - 1) - q * (2 * q - 1) * (q - 1) / 1e6
    assert effective_variance(0.25, 10**6) == pytest.approx(first_correction, rel=1e-9)
    assert 0 < effective_variance(400.0, 1000) < 999
    assert softmax_moment(1.0, 100, 1) == pytest.approx(1.0, rel=1e-12)  # rows sum to one


def test_halving_the_step_changes_nothing(monkeypatch):
    v, n = np.array([0.1, 1.0, 9.0, 100.0, 400.0])[:, None], np.array([3, 300, 10**6])
    coarse = effective_variance(v, n)
    monkeypatch.setattr(lognormal_softmax, "_STEP", 0.1)
    assert np.allclose(coarse, effective_variance(v, n), rtol=1e-9, atol=0)


def test_the_limit_formula_is_not_enough():
    """Negative control: e^v - 1 is 18 percent off at v = 2.25, n = 500; the tests above would notice."""
    assert abs(effective_variance(2.25, 500) / np.expm1(2.25) - 1) > 0.15


def test_refuses_nonsense():
    with pytest.raises(ValueError, match="log_variance"):
        effective_variance(-1.0, 10)
    with pytest.raises(ValueError, match="at least one entry"):
        effective_variance(1.0, 0)


def test_pairs_of_entries():
    """Closed forms: rows sum to one, and a row of two entries, whose square is (1 + tanh^2)/2 of half a normal difference."""
    n = np.array([2, 7, 300])
    assert (1 - 1 / n) * softmax_moment(0.8, n, 1, 1) + softmax_moment(0.8, n, 2) / n == pytest.approx(
        np.ones(3), rel=1e-10
    )
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    square = np.tanh(node * np.sqrt(0.5)) ** 2
    mean = weight @ square / weight.sum()
    assert row_square_variance(1.0, 2) == pytest.approx(weight @ (square - mean) ** 2 / weight.sum(), rel=1e-8)
    assert row_square_variance(1.0, 1) == 0
    with pytest.raises(ValueError, match="below 2"):
        softmax_moment(1.0, 1, 2, 2)


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_the_spread_of_rows_of_tiny_logits_is_that_of_a_sample_variance(n):
    """Closed form 2 v^2 (n - 1)/n^2, also continued from above: the difference of moments loses its digits below 1e-5."""
    for v in (1e-12, 9e-6, 1.1e-5):
        assert row_square_variance(v, n) == pytest.approx(2 * v**2 * (n - 1) / n**2, rel=2e-4)

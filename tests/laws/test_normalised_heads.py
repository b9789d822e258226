"""Attention with QK-norm: Bessel ratios, and samples."""

import math

import numpy as np
import pytest
import scipy.special

from rmt.laws.normalised_heads import funk_hecke_values, qk_norm_law, qk_norm_variance


def draw(n, head_dim, beta, seed=0):
    """Singular values of A and, centred and ascending, of sqrt(n) (I - J) A."""
    generator = np.random.default_rng([seed, n, head_dim])
    q, k = generator.standard_normal((2, n, head_dim))
    q, k = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, k))
    A = np.exp(beta * math.sqrt(head_dim) * q @ k.T)
    A /= A.sum(axis=1, keepdims=True)
    centred = np.linalg.svd(A - A.mean(axis=0), compute_uv=False)
    return np.linalg.svd(A, compute_uv=False), np.sort(centred) * math.sqrt(n)


@pytest.mark.parametrize("head_dim, published", [(8, 0.3232), (16, 0.2374), (64, 0.1232)])
def test_saturated_values_are_bessel_ratios(head_dim, published):
    """Oracle: SciPy's scaled Bessel functions; published to four digits at beta = 1."""
    nu, x = head_dim / 2 - 1, math.sqrt(head_dim)
    values = funk_hecke_values(head_dim, 1.0, head_dim + 2)
    assert values[0] == 1
    assert values[1] == values[head_dim] == pytest.approx(published, abs=6e-5)
    ratio = [scipy.special.ive(nu + degree, x) / scipy.special.ive(nu, x) for degree in (1, 2)]
    assert [values[1], values[head_dim + 1]] == pytest.approx(ratio, rel=1e-10)


def test_variance_is_that_of_a_bessel_formula():
    """Closed form: Lam(2 kappa)/Lam(kappa)^2 - 1, Lam(x) = Gamma(nu + 1) (2/x)^nu I_nu(x); Gaussian for large d_k."""
    nu, kappa = 3.0, math.sqrt(8.0)

    def lam(x):
        return scipy.special.gamma(nu + 1) * (2 / x) ** nu * scipy.special.iv(nu, x)

    assert qk_norm_variance(8, 1.0) == pytest.approx(lam(2 * kappa) / lam(kappa) ** 2 - 1, rel=1e-10)
    assert qk_norm_variance(100_000, 1.0) == pytest.approx(math.expm1(1.0), rel=1e-3)


@pytest.mark.parametrize("head_dim, beta", [(64, 1.0), (16, 0.5)])
def test_a_sample_has_this_law(head_dim, beta):
    """Oracle: numpy, n = 700: distance below .012 (published .004-.005 at n = 1500); control: beta 5 % off fails."""
    whole, values = draw(700, head_dim, beta)
    empirical = (np.arange(700) + 0.5) / 700
    law = qk_norm_law(700, head_dim, beta)
    assert np.abs(law.cdf(values) - empirical).max() < 0.012
    assert np.abs(qk_norm_law(700, head_dim, 1.05 * beta).cdf(values) - empirical).max() > 0.012
    assert law.top_value([1, 2]) == pytest.approx(values[[-1, -2]], rel=0.03)
    assert whole[0] == pytest.approx(1, abs=0.002)
    if head_dim == 16:
        assert np.median(whole[1:17]) == pytest.approx(funk_hecke_values(16, beta, 2)[1], rel=0.03)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="head_dim = 1"):
        qk_norm_law(100, 1, 0.5)

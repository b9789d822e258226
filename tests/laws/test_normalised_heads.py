"""Attention with QK-norm: Bessel ratios, and samples."""

import math

import numpy as np
import pytest
import scipy.special

from rmt.laws.normalised_heads import funk_hecke_values, qk_norm_law, qk_norm_variance
from tests.laws.drawn_attention import centred_values, distance, softmax


def draw(n, head_dim, beta, seed=0):
    """Singular values of A and, centred and ascending, of sqrt(n) (I - J) A."""
    generator = np.random.default_rng([seed, n, head_dim])
    q, k = generator.standard_normal((2, n, head_dim))
    q, k = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, k))
    A = softmax(beta * math.sqrt(head_dim) * q @ k.T)
    return np.linalg.svd(A, compute_uv=False), centred_values(A)


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


TABLE = [  # d_k, beta; published distance with and without heavy entries
    (64, 1.0, 0.0040, 0.012),
    (32, 1.0, 0.0069, 0.013),
    (64, 0.5, 0.0030, 0.004),
    (16, 1.0, 0.0078, 0.010),
    (16, 0.5, 0.0053, 0.007),
]


@pytest.mark.slow
@pytest.mark.parametrize("head_dim, beta, published, without", TABLE)
def test_published_distances(head_dim, beta, published, without):
    """Oracle: numpy, three draws, n = 1500: within .005 (without norms draws scatter by .001-.002); two leading values 3 %."""
    spectra = [draw(1500, head_dim, beta, seed)[1] for seed in range(3)]
    law = qk_norm_law(1500, head_dim, beta)
    assert np.mean([distance(law, x) for x in spectra]) == pytest.approx(published, abs=0.005)
    light = qk_norm_law(1500, head_dim, beta, heavy=False)
    assert np.mean([distance(light, x) for x in spectra]) == pytest.approx(without, abs=0.005)
    largest = np.median([x[[-1, -2]] for x in spectra], axis=0)
    assert law.top_value([1, 2]) == pytest.approx(largest, rel=0.03)
    if (head_dim, beta) == (64, 1.0):
        assert law.top_value([1, 2]) == pytest.approx([6.21, 6.11], rel=0.01)
        assert law.top_value([1, 2]) == pytest.approx([6.14, 6.10], rel=0.03)


@pytest.mark.parametrize("beta", [1e-3, 1e-9])
def test_tiny_logits_are_linear(beta):
    """Scaling: degree 1 alone is left, and values are proportional to beta."""
    assert qk_norm_law(300, 64, beta).top_value(1) / beta == pytest.approx(
        qk_norm_law(300, 64, 0.01).top_value(1) / 0.01, rel=1e-3
    )


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="head_dim = 1"):
        qk_norm_law(100, 1, 0.5)

"""Effective variance of gamma and uniform weights: closed forms, Beta moments, an integral by hand."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from rmt.theorems.effective_variance import (
    gamma_entropy,
    gamma_moment,
    gamma_variance,
    uniform_moment,
    uniform_variance,
)
from rmt.theorems.light_weights import LightWeights


def test_exponential_weights():
    assert gamma_variance(200) == pytest.approx(199 / 201)
    assert gamma_variance(1) == 0


@pytest.mark.parametrize(("n", "shape"), [(2, 0.3), (10, 2.5), (1000, 1.0)])
def test_gamma_weights_against_the_beta_law_of_an_entry(n, shape):
    entry = scipy.stats.beta(shape, (n - 1) * shape)
    assert gamma_variance(n, shape) == pytest.approx(n * n * entry.moment(2) - 1, rel=1e-9)


def test_entropy_of_two_exponential_weights():
    """A is uniform on (0, 1): -2 Int x ln x dx = 1/2."""
    assert gamma_entropy(2) == pytest.approx(0.5)
    assert gamma_entropy(10**6) == pytest.approx(math.log(10**6) - (1 - np.euler_gamma), abs=1e-5)


def test_two_uniform_weights():
    """The ratio r of two uniform numbers has density min(1, r^-2)/2, so E (1 + r)^-2 = 1 - ln 2."""
    assert uniform_variance(2) == pytest.approx(3 - 4 * math.log(2), abs=1e-10)


def test_uniform_weights_published_and_limit():
    """0.333 at n = 1000 (measured 0.332); limit 1/3 with a correction of order 1/n."""
    assert uniform_variance(1) == 0
    assert uniform_variance(1000) == pytest.approx(1 / 3, abs=5e-4)
    assert uniform_variance(10**6) == pytest.approx(1 / 3, abs=1e-6)


def test_refuses_nonsense():
    with pytest.raises(ValueError, match="shape = 0"):
        gamma_variance(3, 0)
    with pytest.raises(ValueError, match="n = 0"):
        uniform_variance(0)


@pytest.mark.parametrize("power", [0.5, 2, 3, 4])
def test_moments_of_light_weights(power):
    """Beta moments of SciPy; for two uniform weights x = a/(a + b) has density min(1/(1-x)^2, 1/x^2)/2."""
    entry = scipy.stats.beta(2.0, 18.0)
    expected = entry.expect(lambda x: (10 * x) ** power)
    assert gamma_moment(10, power, 2.0) == pytest.approx(expected, rel=1e-8)
    half = scipy.integrate.quad(lambda x: ((2 * x) ** power + (2 * (1 - x)) ** power) / (2 * (1 - x) ** 2), 0, 0.5)[0]
    assert uniform_moment(2, power) == pytest.approx(half, rel=1e-9)


def test_entropy_of_light_weights_is_the_slope_of_their_moments():
    assert LightWeights("gamma").entropy(50) == pytest.approx(gamma_entropy(50, 2.0), rel=1e-7)
    assert LightWeights("exponential").entropy(50) == pytest.approx(gamma_entropy(50), rel=1e-7)
    assert LightWeights("uniform").quantile(0.25) == 1.5 and LightWeights("exponential").quantile(
        math.exp(-3)
    ) == pytest.approx(3)

"""Activations: their slopes and energies (quadrature), and a perceptron on nearly equal tokens."""

import numpy as np
import pytest
from scipy import integrate

from rmt.attention.mlp import ACTIVATIONS, mlp
from rmt.attention.split import SplitTokens


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slopes_and_energies(name):
    phi = ACTIVATIONS[name]
    x = np.array([-2.0, -0.3, 0.4, 1.7])
    np.testing.assert_allclose(phi.slope(x), (phi.value(x + 1e-6) - phi.value(x - 1e-6)) / 2e-6, atol=1e-8)

    def weighted(z):
        return float(phi.value(np.array(z))) ** 2 * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

    found = sum(integrate.quad(weighted, *ends, epsabs=1e-13)[0] for ends in ((-12, 0), (0, 12)))
    assert phi.energy == pytest.approx(found, abs=1e-11)


def test_the_rest_of_nearly_equal_tokens_is_the_derivative_times_it():
    """rest = 1e-9 r: phi(m + rest) - phi(m) = phi'(m) rest to 1e-6 of it (16 digits of phi(m))."""
    generator = np.random.default_rng(0)
    mean, rest = generator.standard_normal(5), generator.standard_normal((7, 5))
    rest -= rest.mean(axis=0)
    eye = np.eye(5)
    found = mlp(SplitTokens(mean, 1e-9 * rest), eye, eye, "gelu")
    np.testing.assert_allclose(found.rest, 1e-9 * ACTIVATIONS["gelu"].slope(mean) * rest, atol=1e-15)

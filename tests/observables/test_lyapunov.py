"""Lyapunov exponents: a product with known ones, and attention against Newman's formula."""

import numpy as np
import pytest

from rmt.laws.lognormal_softmax import effective_variance
from rmt.observables.lyapunov import lyapunov_spectrum
from rmt.theorems.lyapunov import lyapunov_exponents


def test_a_constant_triangular_factor_has_the_logarithms_of_its_diagonal():
    A = np.array([[3.0, 1, 4], [0, 2, 5], [0, 0, 0.5]])
    found = lyapunov_spectrum([lambda V: A @ V] * 400, 3, 3)
    np.testing.assert_allclose(found, np.log([3, 2, 0.5]), atol=1e-5)  # the frame settles like (2/3)^l


def test_products_of_attention_have_the_predicted_exponents():
    """n = 30, beta = 0.3, 1500 layers drawn with NumPy: 0, and k = 1, 2, 6, 15, 28 within 0.03 (sampling error 0.01)."""
    n, beta, generator = 30, 0.3, np.random.default_rng(0)

    def factors():
        for _ in range(1500):
            A = np.exp(beta * generator.standard_normal((n, n)))
            A /= A.sum(axis=1, keepdims=True)
            yield lambda V, A=A: A @ V

    found = lyapunov_spectrum(factors(), n, n)
    said = lyapunov_exponents(n, float(effective_variance(beta**2, n)))
    assert found[0] == pytest.approx(0, abs=0.001)
    for k in (1, 2, 6, 15, 28):
        assert found[k] == pytest.approx(said[k], abs=0.03)
    assert abs(found[1] - said[15]) > 0.03  # negative control
    assert said[1] == pytest.approx(np.log(np.sqrt(effective_variance(beta**2, n) / n)), abs=0.05)


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="between 1 and n"):
        lyapunov_spectrum([], 3, 4)
    with pytest.raises(ValueError, match="no factors"):
        lyapunov_spectrum([], 3, 2)
    with pytest.raises(ValueError, match="positive variance"):
        lyapunov_exponents(3, 0.0)

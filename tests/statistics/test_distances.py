"""Distances of spectra to laws: SciPy as the oracle, closed forms, and what is refused."""

import numpy as np
import pytest
from scipy import stats

from rmt.statistics.distances import kolmogorov, smooth_components, wasserstein
from tests.statistics.gaussian_spectra import symmetric_gaussian


class Uniform:
    """On (0, 1)."""

    def cdf(self, x):
        return np.clip(x, 0, 1)

    def quantile(self, p):
        return np.asarray(p)


def test_kolmogorov_is_scipys():
    values = np.random.default_rng(0).uniform(size=(3, 50))
    expected = [stats.kstest(row, "uniform").statistic for row in values]
    assert kolmogorov(values, Uniform()) == pytest.approx(expected, abs=1e-14)


def test_wasserstein_is_scipys_between_fine_samples():
    """Independent oracle, to the stated discretisation: the law as a sample of 4 k midpoints."""
    values = np.random.default_rng(1).uniform(size=50)
    law = (np.arange(200) + 0.5) / 200
    assert wasserstein(values, Uniform()) == pytest.approx(stats.wasserstein_distance(values, law), abs=1e-12)


def test_wasserstein_of_a_shift_is_the_shift():
    """Closed form: moving every value of an ideal spectrum by t moves the distance to t."""
    assert wasserstein((np.arange(100) + 0.5) / 100 + 7.0, Uniform()) == pytest.approx(7.0, abs=1e-12)


def test_smooth_components_are_centred_and_orthonormal_under_the_law():
    """Gauss-Legendre nodes integrate the products exactly."""
    node, weight = np.polynomial.legendre.leggauss(12)
    each = smooth_components((node[:, None] + 1) / 2, Uniform(), degree=4)
    assert weight @ each / 2 == pytest.approx(np.zeros(4), abs=1e-13)
    assert (each.T * weight / 2) @ each == pytest.approx(np.eye(4), abs=1e-12)


def test_eigenvalues_are_stiff():
    """The sum of a smooth function over k independent values has variance k; over eigenvalues it stays of order one."""

    class Semicircle:
        def cdf(self, x):
            x = np.clip(x, -2, 2)
            return 0.5 + x * np.sqrt(4 - x * x) / (4 * np.pi) + np.arcsin(x / 2) / np.pi

    components = smooth_components(symmetric_gaussian(np.random.default_rng(2), 200, 200), Semicircle(), degree=2)
    assert np.all(components.var(0) < 5)


@pytest.mark.parametrize("bad, words", [([], "at least one value"), ([1.0, np.nan], "NaN or infinity")])
def test_what_is_no_spectrum_is_refused(bad, words):
    with pytest.raises(ValueError, match=words):
        kolmogorov(np.array(bad), Uniform())

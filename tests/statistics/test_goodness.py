"""Goodness of fit: levels and power over matrices, and the failure of the p-value for independent values."""

import numpy as np
import pytest
from scipy import stats

from rmt.laws.semicircle import Semicircle
from rmt.statistics.bands import confidence_band, prediction_band
from rmt.statistics.goodness import NullSpectra, empirical_cdf
from tests.statistics.gaussian_spectra import symmetric_gaussian

N, LEVEL = 400, 0.05
NAMES = ("kolmogorov", "wasserstein", "linear", "upper_edge", "lower_edge")


class Tabulated(Semicircle):
    """The semicircle with quick quantiles, good to 1e-6."""

    def quantile(self, p):
        x = 2 * np.sin(np.linspace(-np.pi / 2, np.pi / 2, 4001))
        return np.interp(p, self.cdf(x), x)


@pytest.fixture(scope="module")
def null():
    generator = np.random.default_rng(20261130)
    return NullSpectra.sample(Semicircle(), lambda count: symmetric_gaussian(generator, count, N), spectra=999)


@pytest.fixture(scope="module")
def fresh():
    return symmetric_gaussian(np.random.default_rng(7), 300, N)


def p_values_of(null, spectra):
    """p-values (draws, 6): the five tests and their combination."""
    found = [null.test(spectrum) for spectrum in spectra]
    return np.array([[*(one.p_values[name] for name in NAMES), one.combined] for one in found])


def share_of_uniformity(p, spectra):
    """p-value of a chi-square test that p-values, multiples of 1/(spectra + 1), are uniform over ten cells."""
    cells = np.bincount(np.ceil(np.round(p * (spectra + 1)) * 10 / (spectra + 1)).astype(int) - 1, minlength=10)
    return stats.chisquare(cells).pvalue


def test_p_values_are_uniform_under_the_null_small_matrices():
    """1500 tests of 12 x 12 matrices, each with 19 null spectra of its own: chi-square over ten cells.

    False alarm 1e-6 per test (fixed seed); a level of .08 in place of .05 would give p < 1e-4.
    Two-sided p-values of an even pool come in pairs; they are uniform over the ten cells all the same.
    """
    generator, law = np.random.default_rng(3), Tabulated()
    spectra = symmetric_gaussian(generator, 1500 * 20, 12).reshape(1500, 20, 12)
    p = np.array([p_values_of(NullSpectra.from_spectra(law, one[1:]), one[:1])[0] for one in spectra])
    for name, column in zip(NAMES, p.T[:5], strict=True):
        assert share_of_uniformity(column, 19) > 1e-6, name
    # the least of five has ties, which make its p-value larger: at most its level
    assert stats.binomtest(int(np.sum(p[:, 5] <= LEVEL)), len(p), LEVEL, alternative="greater").pvalue > 1e-6


def test_statistics_of_fresh_draws_follow_those_of_the_null_spectra(null, fresh):
    """Level at n = 400, two samples of draws: Kolmogorov-Smirnov between 999 and 300 matrices, false alarm 1e-6."""
    found = [null.test(spectrum).statistics for spectrum in fresh]
    for name, reference in (
        ("kolmogorov", null.kolmogorov),
        ("wasserstein", null.wasserstein),
        ("upper_edge", null.largest),
        ("lower_edge", null.smallest),
    ):
        assert stats.ks_2samp(reference, [one[name] for one in found]).pvalue > 1e-6, name


@pytest.mark.slow
def test_p_values_are_uniform_under_the_null_full_size():
    """n = 400: 400 tests with 99 null spectra each (80 seconds), chi-square over ten cells, false alarm 1e-6."""
    generator = np.random.default_rng(5)
    p = []
    for _ in range(400):
        spectra = symmetric_gaussian(generator, 100, N)
        p.append(p_values_of(NullSpectra.from_spectra(Semicircle(), spectra[1:]), spectra[:1])[0])
    for name, column in zip((*NAMES, "combined"), np.array(p).T, strict=True):
        assert share_of_uniformity(column, 99) > 1e-6, name


@pytest.mark.parametrize("scale", [1.01, 0.99])
def test_a_scale_error_of_one_percent_is_found_in_most_draws(null, fresh, scale):
    """Asked: 65 %. Measured (2000 draws): linear .94, combined .89; 300 draws have sd .02. Negative control below."""
    p = p_values_of(null, scale * fresh)
    assert np.mean(p[:, NAMES.index("linear")] <= LEVEL) >= 0.65
    assert np.mean(p[:, 5] <= LEVEL) >= 0.65


@pytest.mark.parametrize("scale", [1.02, 0.98])
def test_a_scale_error_of_two_percent_is_found_in_nearly_all_draws(null, fresh, scale):
    """Asked: 99 %. Measured 1.000 for the linear and Wasserstein tests and the combination."""
    p = p_values_of(null, scale * fresh)
    for column in (NAMES.index("linear"), NAMES.index("wasserstein"), 5):
        assert np.mean(p[:, column] <= LEVEL) >= 0.99


def test_no_error_is_found_in_one_draw_of_twenty(null, fresh):
    """Negative control: level .05 with sd .013 (300 draws) and .007 (999 null spectra); .12 is 4.7 sd away."""
    assert np.all(np.mean(p_values_of(null, fresh) <= LEVEL, axis=0) <= 0.12)


def test_the_p_value_for_independent_values_fails_both(fresh):
    """Neither uniform under the null (all above .9) nor able to see 2 %: no draw of 300 is rejected at .05."""
    law = Semicircle()
    for scale in (1.0, 1.01, 1.02):
        p = np.array([stats.kstest(scale * spectrum, law.cdf).pvalue for spectrum in fresh])
        assert p.min() > 0.9
    assert stats.kstest(p, "uniform").pvalue < 1e-100


def test_an_outlier_is_seen_at_the_edge_it_leaves(null, fresh):
    """One eigenvalue moved to 2.5: smooth statistics cannot see it, the upper edge must."""
    moved = fresh[0].copy()
    moved[-1] = 2.5
    found = null.test(moved)
    assert found.p_values["upper_edge"] <= 0.0021 and found.combined <= 0.02
    assert found.p_values["lower_edge"] == null.test(fresh[0]).p_values["lower_edge"]


def test_pooled_draws_sharpen_the_test():
    """A scale error of 1 % at n = 100 is one sd of a single draw (sqrt(1/n(n + 1))) and 6 sd of 36 pooled ones."""
    generator = np.random.default_rng(9)
    null = NullSpectra.from_spectra(Semicircle(), symmetric_gaussian(generator, 99 * 36, 100).reshape(99, 36, 100))
    draws = symmetric_gaussian(generator, 36, 100)
    assert null.size == 3600
    assert null.test(1.01 * draws).combined <= 0.02
    assert null.test(draws).combined > 0.02


def test_bands_hold_whole_cdfs_at_their_rate(null, fresh):
    """Coverage .95 with sd .013 (300 draws) and .007 (999 null spectra): .89 and .995 are 4 and 3 sd away."""
    band = prediction_band(null)
    held = np.mean([band.holds(empirical_cdf(spectrum, band.x)) for spectrum in fresh])
    assert 0.89 <= held <= 0.995
    assert not any(band.holds(empirical_cdf(1.05 * spectrum, band.x)) for spectrum in fresh)
    around = confidence_band(null, fresh[0])
    assert around.holds(Semicircle().cdf(around.x)) == band.holds(empirical_cdf(fresh[0], band.x))
    assert not confidence_band(null, 1.05 * fresh[0]).holds(Semicircle().cdf(around.x))


def test_misuse_is_refused_in_one_line(null, fresh):
    with pytest.raises(ValueError, match="399 values, the null spectra 400"):
        null.test(fresh[0][:-1])
    with pytest.raises(ValueError, match="at least 19"):
        NullSpectra.from_spectra(Semicircle(), fresh[:5])
    with pytest.raises(ValueError, match="gave shape"):
        NullSpectra.sample(Semicircle(), lambda count: fresh[0], spectra=99)
    with pytest.raises(ValueError, match="not between 0 and 1"):
        prediction_band(null, confidence=1.0)

"""Tridiagonal and bidiagonal models against dense Gaussian matrices, closed moments, and identity of draws."""

import numpy as np
import pytest
from scipy import stats

from rmt.ensembles.gaussian_spectra import square_gaussian_spectra, symmetric_gaussian_spectra
from rmt.streams import stream


def test_largest_values_follow_those_of_dense_matrices():
    """Two-sample Kolmogorov-Smirnov over 1500 matrices of size 12, false alarm 1e-6; a scale error of 8 % gives 1e-9."""
    generator = np.random.default_rng(1)
    X = generator.standard_normal((1500, 12, 12)) / np.sqrt(12)
    symmetric = (X + X.transpose(0, 2, 1)) / np.sqrt(2)
    pairs = (
        (np.linalg.eigvalsh(symmetric), symmetric_gaussian_spectra(stream(1), 1500, 12)),
        (np.linalg.svd(X, compute_uv=False)[:, ::-1], square_gaussian_spectra(stream(1), 1500, 12)),
    )
    for dense, short in pairs:
        for at in (0, 5, 11):
            assert stats.ks_2samp(dense[:, at], short[:, at]).pvalue > 1e-6
        assert stats.ks_2samp(1.08 * dense[:, 11], short[:, 11]).pvalue < 1e-6


def test_mean_square_is_exact():
    """E sum x^2: n + 1 over n (symmetric), 1 (square), per value; 400 draws at n = 40, 6 standard errors."""
    for spectra, expected in (
        (symmetric_gaussian_spectra(stream(2), 400, 40), 41 / 40),
        (square_gaussian_spectra(stream(2), 400, 40), 1.0),
    ):
        squares = np.mean(spectra**2, axis=1)
        assert squares.mean() == pytest.approx(expected, abs=6 * squares.std() / 20)


def test_draws_are_functions_of_their_number():
    for draw in (symmetric_gaussian_spectra, square_gaussian_spectra):
        assert np.array_equal(draw(stream(3), 5, 9)[:2], draw(stream(3), 2, 9))
        assert not np.array_equal(draw(stream(3), 1, 9), draw(stream(4), 1, 9))
        assert draw(stream(3), 2, 1).shape == (2, 1)

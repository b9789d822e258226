"""Token observables: prescribed spectra, an mpmath oracle for the collapsed tail, brute force for the cosine."""

import array_api_strict
import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.observables.tokens import (
    effective_rank,
    gram_stable_rank,
    gram_stable_rank_excess,
    log_gram_stable_rank_excess,
    rank_one_residual,
    token_cosine,
    token_spectrum,
    token_stable_rank,
)
from tests.linalg.matrices import with_values

OF_SPECTRUM = (
    effective_rank,
    gram_stable_rank,
    gram_stable_rank_excess,
    log_gram_stable_rank_excess,
    token_stable_rank,
)


@pytest.mark.parametrize("shape", [(12, 12), (40, 12), (12, 40)])
@pytest.mark.parametrize("second", [0.99, 0.3, 1e-4])
def test_prescribed_spectrum(shape, second):
    rng = np.random.default_rng(0)
    s = 3.0 * np.append(1.0, second * np.linspace(1, 0.1, 11))
    X = with_values(s, rng, rows=max(shape))
    X = X if shape[0] >= shape[1] else X.T
    spectrum = token_spectrum(X)
    assert spectrum.top == pytest.approx(3.0)
    np.testing.assert_allclose(spectrum.tail, (s[1:] / 3) ** 2, rtol=1e-9)
    p = s**2 / np.sum(s**2)
    assert effective_rank(spectrum) == pytest.approx(np.exp(-np.sum(p * np.log(p))))
    assert token_stable_rank(spectrum) == pytest.approx(np.sum(s**2) / 9)
    assert gram_stable_rank(spectrum) == pytest.approx(np.sum(s**4) / 81)
    assert gram_stable_rank_excess(spectrum) == pytest.approx(np.sum(s[1:] ** 4) / 81, rel=1e-9)


@pytest.mark.parametrize("size", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10])
def test_excess_of_collapsed_tokens_against_mpmath(size):
    """All tokens equal but for `size`: the excess, about size^4, against 60-digit arithmetic on the same float64 entries.

    The naive sum s^4 / s1^4 - 1 has lost every digit from size = 1e-4 on. Measured relative error <= 4e-7 at 1e-10,
    where the entries themselves carry the part in question to 6 digits only.
    """
    rng = np.random.default_rng(5)
    X = rng.standard_normal(6) + size * rng.standard_normal((9, 6))
    with mpmath.workdps(60):
        G = mpmath.matrix(X.tolist())
        eigenvalues = sorted(mpmath.eigsy(G.T * G, eigvals_only=True), reverse=True)
        exact = float(sum((x / eigenvalues[0]) ** 2 for x in eigenvalues[1:]))
    spectrum = token_spectrum(X)
    assert gram_stable_rank_excess(spectrum) == pytest.approx(exact, rel=max(1e-11, 3e-15 / size))
    assert log_gram_stable_rank_excess(spectrum) == pytest.approx(np.log(exact), rel=1e-6)


def test_excess_far_below_rounding_in_an_exact_construction():
    """Disjoint supports: singular values 1 and 1e-70 exactly, excess 1e-280."""
    X = np.zeros((8, 5))
    X[:4, 0] = 0.5
    X[5, 3] = 1e-70
    spectrum = token_spectrum(X)
    assert gram_stable_rank_excess(spectrum) == pytest.approx(1e-280, rel=1e-12)
    assert log_gram_stable_rank_excess(spectrum) == pytest.approx(-280 * np.log(10), rel=1e-14)
    X[5, 3] = 1e-100
    assert gram_stable_rank_excess(token_spectrum(X)) == 0.0
    assert log_gram_stable_rank_excess(token_spectrum(X)) == pytest.approx(-400 * np.log(10), rel=1e-14)


def test_a_start_on_the_wrong_vector_is_noticed():
    """The first row is an exact singular vector, but the block below it has a larger value."""
    X = np.zeros((50, 4))
    X[0, 0] = 1.0
    X[1:, 1] = np.where(np.arange(49) % 2, 0.9, -0.9)
    X[1, 1] = 0.0  # 24 of each sign: this column sums to zero
    spectrum = token_spectrum(X)
    assert spectrum.top == pytest.approx(0.9 * np.sqrt(48))
    assert spectrum.tail[0] == pytest.approx(1 / (0.81 * 48))


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 20), d=st.integers(1, 20), seed=st.integers(0, 2**31), exponent=st.integers(-150, 150))
def test_invariances_and_ranges(n, d, seed, exponent):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(rng.standard_normal(d))
    spectrum, moved = token_spectrum(X), token_spectrum(10.0**exponent * X[rng.permutation(n)])
    s = scipy.linalg.svdvals(X)
    np.testing.assert_allclose(spectrum.tail, (s[1:] / s[0]) ** 2, rtol=1e-7, atol=1e-14)
    for observable in OF_SPECTRUM:
        np.testing.assert_allclose(observable(spectrum), observable(moved), rtol=1e-7, atol=1e-15)
    k = min(n, d)
    assert 1 <= gram_stable_rank(spectrum) <= token_stable_rank(spectrum) <= effective_rank(spectrum) + 1e-9
    assert effective_rank(spectrum) <= k + 1e-9
    assert 0 <= rank_one_residual(X) <= 1 + 1e-12
    np.testing.assert_allclose(rank_one_residual(X), rank_one_residual(10.0**exponent * X), rtol=1e-9, atol=1e-12)


def test_cosine_against_brute_force():
    X = np.random.default_rng(1).standard_normal((3, 17, 5)) + 0.5
    unit = X / np.linalg.norm(X, axis=-1, keepdims=True)
    pairs = (unit @ np.swapaxes(unit, -1, -2))[:, ~np.eye(17, dtype=bool)]
    np.testing.assert_allclose(token_cosine(X), pairs.mean(axis=-1), rtol=1e-12)
    padded = np.concatenate([X, np.zeros((3, 2, 5))], axis=1)
    np.testing.assert_allclose(token_cosine(padded), pairs.mean(axis=-1), rtol=1e-12)


def test_closed_forms():
    equal = np.outer(np.ones(6), np.arange(1.0, 5))
    assert token_cosine(equal) == pytest.approx(1) and rank_one_residual(equal) == pytest.approx(0, abs=1e-15)
    assert effective_rank(token_spectrum(equal)) == pytest.approx(1)
    assert token_cosine(np.eye(5)) == pytest.approx(0, abs=1e-15)
    assert token_cosine(np.eye(5) - 0.2) == pytest.approx(-1 / 4)
    assert rank_one_residual(np.eye(5)) == pytest.approx(np.sqrt(4 / 5))
    assert gram_stable_rank(token_spectrum(np.eye(5))) == pytest.approx(5)
    huge = 1e200 * np.array([[1.0, 1.0], [1.0, 1.0]])
    assert token_cosine(huge) == pytest.approx(1) and rank_one_residual(huge) == 0


def test_batches_and_float32():
    X = np.random.default_rng(2).standard_normal((2, 3, 30, 7)).astype(np.float32)
    spectrum = token_spectrum(X)
    assert spectrum.top.shape == (2, 3) and spectrum.tail.shape == (2, 3, 6) and spectrum.tail.dtype == np.float64
    s = scipy.linalg.svdvals(X[1, 2].astype(np.float64))
    np.testing.assert_allclose(spectrum.tail[1, 2], (s[1:] / s[0]) ** 2, rtol=1e-10)
    assert all(observable(spectrum).shape == (2, 3) for observable in OF_SPECTRUM)
    assert token_cosine(X).shape == rank_one_residual(X).shape == (2, 3)


def test_undefined_is_nan_without_a_warning():
    spectrum = token_spectrum(np.zeros((4, 3)))
    assert spectrum.top == 0 and all(np.isnan(observable(spectrum)) for observable in OF_SPECTRUM)
    for shape in ((1, 3), (4, 1), (1, 1)):  # no tail that could say so
        zero = token_spectrum(np.zeros(shape))
        assert all(np.isnan(observable(zero)) for observable in OF_SPECTRUM)
    assert np.isnan(token_cosine(np.zeros((4, 3)))) and np.isnan(rank_one_residual(np.zeros((4, 3))))
    assert np.isnan(token_cosine(np.ones((1, 3))))


def test_one_token_or_one_feature_has_rank_one():
    for X in (np.ones((1, 5)), np.ones((5, 1))):
        spectrum = token_spectrum(X)
        assert gram_stable_rank_excess(spectrum) == 0 and log_gram_stable_rank_excess(spectrum) == -np.inf
        assert effective_rank(spectrum) == token_stable_rank(spectrum) == 1


def test_bad_input():
    with pytest.raises(ValueError, match="NaN or infinity"):
        token_spectrum(np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match="n, d >= 1"):
        token_spectrum(np.zeros((0, 3)))


def test_any_array_library():
    X = np.random.default_rng(6).standard_normal((2, 8, 5)) + 2
    strict, plain = token_spectrum(array_api_strict.asarray(X)), token_spectrum(X)
    for observable in OF_SPECTRUM:
        np.testing.assert_allclose(np.asarray(observable(strict)), observable(plain), rtol=1e-10)
    for observable in (token_cosine, rank_one_residual):
        np.testing.assert_allclose(np.asarray(observable(array_api_strict.asarray(X))), observable(X), rtol=1e-12)

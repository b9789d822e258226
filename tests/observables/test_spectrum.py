"""Observables of attention matrices: closed forms, invariances, LAPACK, and array libraries."""

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.observables.entries import attention_entropy, frobenius_norm_squared
from rmt.observables.spectrum import (
    attention_stable_rank,
    gap_ratio,
    outlier_count,
    second_singular_value,
    spectral_gap,
    top_singular_value,
)
from tests.linalg.matrices import cesaro, cesaro_values, lognormal, with_values

OBSERVABLES = (
    attention_entropy,
    attention_stable_rank,
    frobenius_norm_squared,
    gap_ratio,
    second_singular_value,
    spectral_gap,
    top_singular_value,
)


def test_uniform_attention():
    A = np.full((8, 8), 1 / 8)
    assert top_singular_value(A) == pytest.approx(1) and second_singular_value(A) == pytest.approx(0, abs=1e-15)
    assert attention_stable_rank(A) == pytest.approx(1) and gap_ratio(A) == pytest.approx(0, abs=1e-15)
    assert attention_entropy(A) == pytest.approx(np.log(8))


def test_permutation():
    A = np.eye(7)[np.random.default_rng(0).permutation(7)]
    assert attention_stable_rank(A) == pytest.approx(7) and spectral_gap(A) == pytest.approx(0)
    assert gap_ratio(A) == pytest.approx(1) and attention_entropy(A) == 0


def test_cesaro():
    """||C||_F^2 is the harmonic number; row i has entropy ln i."""
    A, values = cesaro(50), cesaro_values(50)
    assert frobenius_norm_squared(A) == pytest.approx(np.sum(1 / np.arange(1, 51)))
    assert attention_entropy(A) == pytest.approx(np.mean(np.log(np.arange(1, 51))))
    assert spectral_gap(A) == pytest.approx(values[0] - values[1])


def test_prescribed_spectrum():
    values = np.array([2.0, 0.5, 0.25, 0.1])
    A = with_values(values, np.random.default_rng(1))
    assert gap_ratio(A) == pytest.approx(0.25) and spectral_gap(A) == pytest.approx(1.5)
    assert attention_stable_rank(A) == pytest.approx(np.sum(values**2) / 4)
    assert outlier_count(values, 0.2) == 3
    assert outlier_count(np.stack([values, values]), np.array([0.2, 3.0])).tolist() == [3, 0]


def test_doubly_stochastic_has_top_value_one():
    """Closed form: s1 = 1 exactly for a mixture of permutations, and only then."""
    rng = np.random.default_rng(2)
    A = sum(np.eye(20)[rng.permutation(20)] for _ in range(10)) / 10
    assert top_singular_value(A) == pytest.approx(1, abs=1e-14)
    assert top_singular_value(lognormal(20, 1.0, rng)) > 1 + 1e-4


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 25), beta=st.floats(0, 30), seed=st.integers(0, 2**31))
def test_properties_of_row_stochastic_matrices(n, beta, seed):
    rng = np.random.default_rng(seed)
    A = lognormal(n, beta, rng, np.float64)
    assert top_singular_value(A) >= 1 - 1e-12
    assert 1 - 1e-12 <= attention_stable_rank(A) <= n + 1e-9
    assert -1e-12 <= attention_entropy(A) <= np.log(n) + 1e-12
    assert frobenius_norm_squared(A) == pytest.approx(np.sum(scipy.linalg.svdvals(A) ** 2))
    shuffled = A[rng.permutation(n)][:, rng.permutation(n)]
    for observable in OBSERVABLES:
        np.testing.assert_allclose(observable(shuffled), observable(A), rtol=1e-9, atol=1e-12)


def test_batches():
    rng = np.random.default_rng(3)
    A = np.stack([lognormal(9, beta, rng) for beta in np.linspace(0, 2, 6)]).reshape(2, 3, 9, 9)
    for observable in OBSERVABLES:
        whole = observable(A)
        assert whole.shape == (2, 3) and whole.dtype == np.float64
        np.testing.assert_allclose(whole[1, 2], observable(A[1, 2]), rtol=1e-12)


def test_float32_is_summed_in_float64():
    """2^24 equal float32 entries: a running float32 sum stalls, a float64 one is exact."""
    A = np.full((4096, 4096), np.float32(1 / 4096))
    assert frobenius_norm_squared(A) == pytest.approx(1, rel=1e-12)


def test_undefined_is_nan_without_a_warning():
    assert np.isnan(second_singular_value(np.ones((1, 1)))) and np.isnan(spectral_gap(np.ones((1, 1))))
    zero = np.zeros((3, 3))
    assert np.isnan(gap_ratio(zero)) and np.isnan(attention_stable_rank(zero))
    assert top_singular_value(zero) == 0 and attention_entropy(zero) == 0


def test_any_array_library():
    A = lognormal(6, 1.0, np.random.default_rng(4), np.float64)
    for observable in OBSERVABLES:
        strict = observable(array_api_strict.asarray(A))
        assert float(strict) == pytest.approx(float(observable(A)), rel=1e-12)

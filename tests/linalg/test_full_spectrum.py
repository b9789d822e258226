"""All singular values: stated bounds against exact spectra and LAPACK's SVD."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.linalg.full_spectrum import singular_values
from tests.linalg.matrices import causal, cesaro, cesaro_values, key_query, lognormal, with_values


def agree(found, exact):
    assert found.values.dtype == np.float64 and found.values.shape == found.error_bound.shape == exact.shape
    assert np.all(np.diff(found.values) <= 0) and np.all(found.values >= 0)
    slack = 4 * np.finfo(float).eps * np.sqrt(len(exact)) * exact[0]  # error of the oracle itself
    assert np.all(np.abs(found.values - exact) <= found.error_bound + slack)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [64, 300, 1024])
@pytest.mark.parametrize("beta", [0.5, 0.8326])
def test_softmax_takes_the_gram_route_within_tolerance(n, beta, dtype):
    A = lognormal(n, beta, np.random.default_rng(n), dtype)
    found = singular_values(A)
    exact = scipy.linalg.svdvals(A.astype(np.float64))
    assert found.method == "gram"
    assert found.error_bound.max() <= 1e-9 * found.values[1]
    assert np.abs(found.values - exact).max() <= 1e-11 * exact[1]
    agree(found, exact)


def test_split_matrix_bound_is_used_by_half():
    """The measured constants of the rounding bound: the error against an SVD of the split matrix stays below its half."""
    rng = np.random.default_rng(1)
    for A in (lognormal(256, 1.0, rng, np.float64), key_query(512, 16, 1.0, rng, np.float64)):
        found = singular_values(A)
        u = np.linalg.svd(A)[0][:, 0]
        exact = scipy.linalg.svdvals(A - np.outer(u, u @ A))[:-1]
        assert np.max(np.abs(found.values[1:] - exact) / found.error_bound[1:]) < 0.6


@pytest.mark.parametrize("n", [200, 400])
def test_causal_falls_back(n):
    A = causal(n, 0.5, np.random.default_rng(n))
    found = singular_values(A)
    assert found.method == "svd"
    agree(found, scipy.linalg.svdvals(A.astype(np.float64)))


def test_cesaro_closed_form():
    found = singular_values(cesaro(300))
    np.testing.assert_allclose(found.values[:100], cesaro_values(300)[:100], rtol=1e-10)


def test_prescribed_spectrum_with_tiny_values_is_bounded_and_said():
    values = np.geomspace(1, 1e-9, 60)
    A = with_values(values, np.random.default_rng(0))
    found = singular_values(A)
    assert found.method == "svd"
    agree(found, values)
    loose = singular_values(A, tolerance=1e-5)
    assert loose.method == "gram" and loose.error_bound[-1] > 1e-9
    agree(loose, values)


def test_exact_degenerate_spectra():
    n = 64
    assert singular_values(np.eye(n)[::-1]).values == pytest.approx(np.ones(n))
    assert not singular_values(np.zeros((n, n))).values.any()
    uniform = singular_values(np.full((n, n), 1 / n))
    agree(uniform, np.append(1.0, np.zeros(n - 1)))
    scales = 2.0 ** -np.arange(n)
    agree(singular_values(scipy.linalg.hadamard(n) * scales), 8 * scales)


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(1, 40),
    n=st.integers(1, 40),
    seed=st.integers(0, 2**31),
    spread=st.floats(0, 4),
    tolerance=st.sampled_from([0.0, 1e-9, 1e-3]),
)
def test_bounds_hold_for_any_shape(m, n, seed, spread, tolerance):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) * 10 ** (-spread * rng.random(n))
    before = A.copy()
    agree(singular_values(A, tolerance=tolerance), scipy.linalg.svdvals(A))
    assert np.array_equal(A, before)


def test_bad_input():
    with pytest.raises(ValueError, match="one non-empty matrix"):
        singular_values(np.zeros((2, 3, 3)))
    with pytest.raises(ValueError, match="finite"):
        singular_values(np.array([[1.0, np.nan], [0.0, 1.0]]))

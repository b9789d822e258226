"""Each variant's closed forms on operators against the same variant on the dense array (algebra)."""

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.attention.variants import CENTRED, OUTLIER_REMOVED, PLAIN, RUNNING_MEAN_REMOVED, VARIANTS, Altered, variant
from rmt.ensembles.markov import MarkovAttention
from rmt.linalg.top_singular import top_singular_values
from rmt.streams import stream


def row_stochastic(n, beta, rng, *, causal=False):
    weights = np.exp(beta * rng.standard_normal((n, n)))
    weights = np.tril(weights) if causal else weights
    return weights / weights.sum(axis=1, keepdims=True)


def operator(A):
    return Altered(
        n=len(A),
        column_sums=A.sum(axis=0),
        frobenius_norm_squared=float((A**2).sum()),
        apply=lambda V: A @ V,
        apply_transposed=lambda V: A.T @ V,
        gram_product=lambda V: A.T @ (A @ V),
    )


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(VARIANTS)),
    n=st.integers(1, 30),
    columns=st.integers(1, 4),
    beta=st.floats(0, 5),
    seed=st.integers(0, 2**31),
)
def test_operator_form_equals_dense_form(name, n, columns, beta, seed):
    rng = np.random.default_rng(seed)
    A = row_stochastic(n, beta, rng, causal=name == "running_mean_removed")
    V = rng.standard_normal((n, columns)) + 3.0
    before = A.copy()
    dense, altered = variant(name).alter(A), variant(name).operate(operator(A))
    assert np.array_equal(A, before) and altered.n == n
    np.testing.assert_allclose(altered.apply(V), dense @ V, atol=1e-12)
    np.testing.assert_allclose(altered.apply_transposed(V), dense.T @ V, atol=1e-12)
    np.testing.assert_allclose(altered.gram_product(V), dense.T @ (dense @ V), atol=1e-12)
    np.testing.assert_allclose(altered.gram_product(V[:, 0]), dense.T @ (dense @ V[:, 0]), atol=1e-12)
    np.testing.assert_allclose(altered.column_sums, dense.sum(axis=0), atol=1e-12)
    assert altered.frobenius_norm_squared == pytest.approx((dense**2).sum(), abs=1e-12)


def test_plain_is_the_matrix_itself():
    A = np.eye(3)
    matrix = operator(A)
    assert PLAIN.alter(A) is A and PLAIN.operate(matrix) is matrix


def test_outlier_removed_is_centred_and_kills_the_constant_vector():
    A = row_stochastic(50, 1.0, np.random.default_rng(0))
    removed = OUTLIER_REMOVED.alter(A)
    np.testing.assert_allclose(removed.sum(axis=1), 0, atol=1e-14)
    assert scipy.linalg.svdvals(removed)[0] < 0.9 < 1 <= scipy.linalg.svdvals(A)[0]


def test_centred_tokens_have_no_mean_and_the_running_mean_leaves_an_empty_first_row():
    rng = np.random.default_rng(0)
    A, V = row_stochastic(40, 1.0, rng, causal=True), rng.standard_normal((40, 3))
    np.testing.assert_allclose(CENTRED.operate(operator(A)).apply(V).mean(axis=0), 0, atol=1e-14)
    left = RUNNING_MEAN_REMOVED.operate(operator(A)).apply(V)
    np.testing.assert_allclose(left[0], 0, atol=1e-14)
    np.testing.assert_allclose(left[-1], A[-1] @ V - V.mean(axis=0), atol=1e-14)


@pytest.mark.parametrize("n", [1, 300, 1000])
def test_nothing_is_left_of_uniform_causal_attention(n):
    altered = RUNNING_MEAN_REMOVED.operate(MarkovAttention(n=n, beta=0.0, mask="causal").matrix(stream(seed=0), 0))
    assert 0 <= altered.frobenius_norm_squared <= 1e-6
    assert np.abs(altered.gram_product(np.ones((n, 1)))).max() <= 1e-6


@pytest.mark.parametrize("n", [1, 300, 1000])
def test_nothing_is_left_of_uniform_attention(n):
    """beta = 0 in float32: 1/n is not representable, yet what is left is zero and never negative."""
    altered = OUTLIER_REMOVED.operate(MarkovAttention(n=n, beta=0.0).matrix(stream(seed=0), 0))
    assert 0 <= altered.frobenius_norm_squared <= 1e-12
    assert np.abs(altered.gram_product(np.ones((n, 1)))).max() <= 1e-12


@pytest.mark.parametrize(
    "repair, mask", [(OUTLIER_REMOVED, "none"), (CENTRED, "causal"), (RUNNING_MEAN_REMOVED, "causal")]
)
def test_certified_values_of_a_float32_sampler_matrix(repair, mask):
    """Oracle: LAPACK on the dense altered matrix."""
    n = 300
    matrix = MarkovAttention(n=n, beta=0.8326, mask=mask).matrix(stream(seed=1), 0)
    altered = repair.operate(matrix)
    probe = np.random.default_rng(0).standard_normal((n, 2))
    found = top_singular_values(altered.gram_product, n, probe=probe, start=altered.column_sums)
    dense = matrix.dense().astype(np.float64)
    exact = scipy.linalg.svdvals(repair.alter(dense))[:2]
    np.testing.assert_allclose(found.values, exact, rtol=1e-6)
    assert altered.frobenius_norm_squared == pytest.approx((repair.alter(dense) ** 2).sum(), rel=1e-6)


@pytest.mark.parametrize("each", VARIANTS.values(), ids=lambda each: each.name)
def test_arrays_of_any_library_keep_shape_and_dtype(each):
    A = array_api_strict.ones((2, 3, 4, 4), dtype=array_api_strict.float32) / 4
    altered = each.alter(A)
    assert altered.shape == A.shape and altered.dtype == A.dtype


def test_unknown_name_lists_the_known_ones():
    assert variant("plain") is PLAIN
    with pytest.raises(ValueError, match="'foo' is unknown: choose from plain, outlier_removed"):
        variant("foo")

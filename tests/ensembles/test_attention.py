"""Key-query attention against NumPy in float64."""

import numpy as np
import pytest

from rmt.arrays import CPU
from rmt.ensembles.attention import KeyQueryAttention, key_query_rows
from rmt.ensembles.matrix import attention_matrix
from rmt.streams import stream
from tests.ensembles.test_markov import softmax


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-4), (np.float64, 1e-12)])
@pytest.mark.parametrize(("head_dim", "beta"), [(64, 1.0), (1, 1.0), (7, 20.0)])
def test_is_the_softmax_of_scaled_products(mask, dtype, tolerance, head_dim, beta):
    """float32: the products carry an error of 2^-24 times sums of some hundred, relative in the exponential."""
    ensemble = KeyQueryAttention(300, head_dim, beta, mask)
    queries, keys = (x.astype(float) for x in ensemble.queries_and_keys(stream(0), 3))
    matrix = ensemble.matrix(stream(0), 3, dtype=dtype)
    expected = softmax(beta / np.sqrt(head_dim) * queries @ keys.T, mask == "causal")
    np.testing.assert_allclose(matrix.dense(), expected, rtol=tolerance, atol=1e-30)
    assert matrix.dense().dtype == dtype


def test_queries_and_keys_are_independent_standard_normals():
    """Moments of 2^16 entries each, to 4.9 sd (false-alarm 1e-6): detects 2 %, 3 % in the variances."""
    queries, keys = KeyQueryAttention(1024, 64).queries_and_keys(stream(0))
    bound = 4.9 / np.sqrt(queries.size)
    for x in (queries, keys):
        assert abs(x.mean()) < bound and abs(np.mean(x**2) - 1) < np.sqrt(2) * bound
    assert abs(np.mean(queries * keys)) < bound
    assert not abs(np.mean(queries * queries)) < bound


def test_logits_have_standard_deviation_beta():
    """Mean over rows of the logit variance is beta^2 up to 5 sd of |Q|^2 |K|^2; the control forgets the square root."""
    n, head_dim, beta = 512, 64, 1.5
    matrix = KeyQueryAttention(n, head_dim, beta).matrix(stream(0), dtype=np.float64)
    logits = np.log(matrix.dense())
    variance = np.mean(np.var(logits, axis=1, ddof=1))
    assert variance == pytest.approx(beta**2, rel=5 * np.sqrt(4 / (n * head_dim)))
    assert variance != pytest.approx(beta**2 / head_dim, rel=0.5)


def test_beta_zero_is_uniform_attention():
    assert np.all(KeyQueryAttention(33, beta=0.0).matrix(stream(0)).dense() == np.float32(1 / 33))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("beta", [0.0, 1.0, 20.0, 1e4])
def test_smallest_sizes(n, beta):
    matrix = KeyQueryAttention(n, 1, beta).matrix(stream(0))
    np.testing.assert_allclose(matrix.dense().sum(axis=1), 1, rtol=1e-6)
    assert np.isfinite([matrix.entropy, matrix.frobenius_norm_squared]).all()


def test_rows_far_below_zero_do_not_vanish():
    """All logits of a row at -200: e^-200 is 0 in float32, so the row's own maximum must be subtracted first."""
    queries, keys = np.array([[-200.0], [1.0]], np.float32), np.array([[1.0], [1.0]], np.float32)
    matrix = attention_matrix(key_query_rows(queries, keys, 1.0, "none", np.dtype(np.float32), CPU))
    assert np.all(matrix.dense() == 0.5)


def test_mask_and_beta_leave_the_stream_alone():
    keys = [KeyQueryAttention(8, 4, beta, mask).stream_key for beta in (0.5, 1.0) for mask in ("none", "causal")]
    assert set(keys) == {"keyquery/n=8/head_dim=4"}


def test_bad_head_dim():
    with pytest.raises(ValueError, match="head_dim 0 is out of range"):
        KeyQueryAttention(4, 0)

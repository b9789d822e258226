"""One contract for every attention matrix: dense and streamed, any number of workers, either backend."""

import numpy as np
import pytest

from rmt.arrays import GPU, Backend
from rmt.ensembles.attention import KeyQueryAttention
from rmt.ensembles.markov import MarkovAttention
from rmt.streams import stream

N = 1100  # five strips, the last one short
ENSEMBLES = [
    MarkovAttention(N),
    MarkovAttention(N, 2.0, mask="causal"),
    MarkovAttention(N, weights="gamma"),
    KeyQueryAttention(N, 16),
    KeyQueryAttention(N, 16, 8.0, mask="causal"),
]
STREAMED = 3_000_000  # bytes: below 4 N^2, above what three workers need
each_ensemble = pytest.mark.parametrize("ensemble", ENSEMBLES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def statistics(matrix):
    return [*matrix.column_sums, matrix.frobenius_norm_squared, matrix.entropy]


def vectors(count=3):
    return np.random.default_rng(0).standard_normal((N, count))


@each_ensemble
@each_dtype
def test_statistics_are_those_of_the_entries(ensemble, dtype):
    matrix = ensemble.matrix(stream(0), dtype=dtype)
    A = matrix.dense().astype(float)
    logs = np.log(np.where(A > 0, A, 1))
    tolerance = 1e-6 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(A.sum(axis=1), 1, rtol=tolerance)
    np.testing.assert_allclose(matrix.column_sums, A.sum(axis=0), rtol=1e-12)
    assert matrix.frobenius_norm_squared == pytest.approx(np.sum(A**2), rel=tolerance)
    tolerance = 1e-6 if ensemble == ENSEMBLES[2] else tolerance  # its logarithms are float32 in either dtype
    assert matrix.entropy == pytest.approx(-np.sum(A * logs) / N, rel=tolerance)
    if ensemble.mask == "causal":
        assert np.all(np.triu(A, 1) == 0) and A[0, 0] == 1


@each_ensemble
@each_dtype
def test_products(ensemble, dtype):
    matrix = ensemble.matrix(stream(0), dtype=dtype)
    A, V = matrix.dense().astype(float), vectors()
    tolerance = 2e-6 if dtype is np.float32 else 1e-13
    product = matrix.gram_product(V)
    assert product.dtype == np.float64 and product.shape == V.shape
    np.testing.assert_allclose(product, A.T @ (A @ V), atol=tolerance * np.abs(A.T @ (A @ V)).max(), rtol=0)
    np.testing.assert_array_equal(matrix.gram_product(V[:, 1]), product[:, 1])
    np.testing.assert_allclose(matrix.apply(V), A @ V, atol=2 * tolerance * np.abs(A @ V).max(), rtol=0)
    assert matrix.apply(V).dtype == dtype
    back = matrix.apply_transposed(V)
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, A.T @ V, atol=2 * tolerance * np.abs(A.T @ V).max(), rtol=0)


@each_ensemble
def test_dense_and_streamed_agree_and_workers_change_no_bit(ensemble):
    held = ensemble.matrix(stream(0))
    V = vectors()
    assert held.held is not None
    for budget in (None, STREAMED):
        for workers in (1, 2, 3):
            other = ensemble.matrix(stream(0), workers=workers, memory_budget=budget)
            assert (other.held is None) == (budget is not None)
            np.testing.assert_array_equal(other.dense(), held.dense())
            np.testing.assert_array_equal(statistics(other), statistics(held))
            np.testing.assert_allclose(other.gram_product(V), held.gram_product(V), rtol=1e-6, atol=1e-7)
            if budget is None:
                np.testing.assert_array_equal(other.gram_product(V), held.gram_product(V))
                np.testing.assert_array_equal(other.apply(V), held.apply(V))
                np.testing.assert_array_equal(other.apply_transposed(V), held.apply_transposed(V))
    one, three = (ensemble.matrix(stream(0), workers=w, memory_budget=STREAMED) for w in (1, 3))
    np.testing.assert_array_equal(one.gram_product(V), three.gram_product(V))
    np.testing.assert_array_equal(one.apply(V), three.apply(V))


@pytest.mark.parametrize("budget", [None, STREAMED])
def test_blocks_walk_the_matrix_in_order(budget):
    matrix = ENSEMBLES[3].matrix(stream(0), memory_budget=budget)
    blocks = list(matrix.blocks())
    assert [start for start, _, _ in blocks] == [0, *(stop for _, stop, _ in blocks[:-1])]
    assert blocks[-1][1] == N
    np.testing.assert_array_equal(np.concatenate([rows for _, _, rows in blocks]), matrix.dense())


@each_ensemble
def test_float64_is_the_same_matrix(ensemble):
    single, double = (ensemble.matrix(stream(0), dtype=dtype) for dtype in (np.float32, np.float64))
    np.testing.assert_allclose(single.dense(), double.dense(), rtol=3e-4, atol=1e-30)
    np.testing.assert_allclose(statistics(single), statistics(double), rtol=1e-4)


def test_frobenius_norm_at_a_size_where_float32_sums_fail():
    """||A||_F^2 of 4096^2 exponentially weighted entries against a float64 sum of the same entries, to 1e-6."""
    matrix = MarkovAttention(4096, weights="exponential").matrix(stream(0), memory_budget=40_000_000)
    exact = sum(np.sum(rows.astype(float) ** 2) for _, _, rows in matrix.blocks())
    assert matrix.held is None
    assert matrix.frobenius_norm_squared == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("ensemble", [MarkovAttention(4096), KeyQueryAttention(4096)], ids=str)
def test_budget_too_small_even_for_streaming(ensemble):
    with pytest.raises(ValueError, match=r"memory budget of 1000 bytes is too small: n = 4096 needs \d+ bytes"):
        ensemble.matrix(stream(0), memory_budget=1000)


def test_misfitting_vectors_are_refused():
    matrix = ENSEMBLES[0].matrix(stream(0))
    for product in (matrix.apply, matrix.apply_transposed, matrix.gram_product):
        with pytest.raises(ValueError, match=r"array of shape \(5, 2\) does not fit; its first axis must be n = 1100"):
            product(np.ones((5, 2)))


@each_ensemble
def test_the_path_of_the_gpu_on_a_stand_in_namespace(ensemble, monkeypatch):
    """NumPy stands in for CuPy, so every line but the device itself runs; drawn entries are the CPU's bit for bit."""
    plain = ensemble.matrix(stream(0))
    monkeypatch.setattr(Backend, "xp", property(lambda self: np))
    for budget in (10**9, STREAMED):
        matrix = ensemble.matrix(stream(0), backend=GPU, memory_budget=budget)
        if isinstance(ensemble, MarkovAttention):
            np.testing.assert_array_equal(matrix.dense(), plain.dense())
        np.testing.assert_allclose(statistics(matrix), statistics(plain), rtol=1e-5)
        V = vectors()
        np.testing.assert_allclose(matrix.gram_product(V), plain.gram_product(V), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(matrix.apply(V), plain.apply(V), rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
@each_ensemble
@each_dtype
def test_gpu_draws_the_same_bits(ensemble, dtype):
    plain, device = (ensemble.matrix(stream(0), backend=b, dtype=dtype) for b in (Backend("cpu"), GPU))
    if isinstance(ensemble, MarkovAttention):
        np.testing.assert_array_equal(GPU.to_host(device.dense()), plain.dense())
    np.testing.assert_allclose(statistics(device), statistics(plain), rtol=1e-5)
    np.testing.assert_allclose(device.gram_product(vectors()), plain.gram_product(vectors()), rtol=1e-4, atol=1e-5)

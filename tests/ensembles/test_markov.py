"""Row-normalised iid weights: closed forms, a float64 NumPy oracle, and the edges of the parameter range."""

import numpy as np
import pytest
from scipy.special import digamma

from rmt.ensembles.markov import MarkovAttention
from rmt.kernels import cpu
from rmt.kernels.rows import LAWS
from rmt.streams import stream

SIGMAS = 4.9  # two-sided false-alarm rate 1e-6


def softmax(logits, causal=False):
    logits = np.where(np.tri(len(logits), dtype=bool), logits, -np.inf) if causal else logits
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize("beta", [0.3, 1.0, 20.0])
def test_is_the_softmax_of_the_drawn_logits(mask, dtype, tolerance, beta):
    """float32: the rounding of a logit of size 100 is 4e-6, that of its exponential as much, relative."""
    ensemble = MarkovAttention(300, beta, mask=mask)
    matrix = ensemble.matrix(stream(1), 2, dtype=dtype)
    words = stream(1, "iid/n=300/lognormal").words("logits", 2)
    expected = softmax(beta * cpu.variates(words, 0, 300, 300).astype(float), mask == "causal")
    assert matrix.dense().dtype == dtype
    np.testing.assert_allclose(matrix.dense(), expected, rtol=tolerance, atol=1e-30)


@pytest.mark.parametrize("weights", ["exponential", "uniform", "gamma"])
def test_other_weights_are_normalised_variates(weights):
    matrix = MarkovAttention(70, weights=weights).matrix(stream(0), dtype=np.float64)
    drawn = cpu.variates(stream(0, f"iid/n=70/{weights}").words("logits", 0), 0, 70, 70, law=weights).astype(float)
    np.testing.assert_allclose(matrix.dense(), drawn / drawn.sum(axis=1, keepdims=True), rtol=1e-13)


@pytest.mark.parametrize(("weights", "shape"), [("exponential", 1), ("gamma", 2)])
def test_dirichlet_rows(weights, shape):
    """Rows of gamma weights are Dirichlet: E sum a^2 = (shape + 1)/(n shape + 1), and the entropy's mean by digammas.

    20 draws x 200 independent rows; detects 1 % of the first and 0.1 % of the second. Control: the other shape.
    """
    n, draws = 200, 20
    matrices = [MarkovAttention(n, weights=weights).matrix(stream(0), draw) for draw in range(draws)]
    squares = np.array([m.frobenius_norm_squared / n for m in matrices])
    entropies = np.array([m.entropy for m in matrices])

    def agrees(found, expected):
        return abs(found.mean() - expected) < SIGMAS * row_sd(found) / np.sqrt(draws)

    def row_sd(found):
        rows = np.concatenate([m.dense() for m in matrices]).astype(float)
        each = np.sum(rows**2, axis=1) if found is squares else -np.sum(rows * np.log(rows), axis=1)
        return each.std() / np.sqrt(n)

    for k, expected_agreement in ((shape, True), (3 - shape, False)):
        assert agrees(squares, (k + 1) / (n * k + 1)) == expected_agreement
        assert agrees(entropies, digamma(n * k + 1) - digamma(k + 1)) == expected_agreement


@pytest.mark.parametrize("n", [1, 2, 3, 64, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_beta_zero_is_uniform_attention(n, dtype):
    matrix = MarkovAttention(n, beta=0.0).matrix(stream(0), dtype=dtype)
    assert np.all(matrix.dense() == dtype(1 / n))
    assert matrix.entropy == pytest.approx(np.log(n), abs=1e-14)
    assert matrix.frobenius_norm_squared == pytest.approx(1, rel=1e-14)
    causal = MarkovAttention(n, beta=0.0, mask="causal").matrix(stream(0), dtype=dtype).dense()
    np.testing.assert_array_equal(causal, np.tri(n) * (1 / np.arange(1, n + 1))[:, None].astype(dtype))


@pytest.mark.parametrize("beta", [5.2, 5.4, 20.0, 1e4])
@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("weights", LAWS)
def test_no_overflow_at_any_beta(beta, mask, weights):
    """Rows sum to one on both sides of the bound (40 / 7.54 = 5.3) from which the maximum is subtracted."""
    for n in (1, 2, 3, 150):
        matrix = MarkovAttention(n, beta, weights=weights, mask=mask).matrix(stream(0))
        np.testing.assert_allclose(matrix.dense().sum(axis=1, dtype=float), 1, rtol=1e-5)
        assert np.isfinite([matrix.entropy, matrix.frobenius_norm_squared, *matrix.column_sums]).all()
        assert matrix.entropy >= -1e-6


def test_variants_share_their_draws():
    """Mask and beta leave the stream alone: causal rows are the renormalised plain ones, up to rounding."""
    plain = MarkovAttention(50, 1.5).matrix(stream(0)).dense().astype(float)
    causal = MarkovAttention(50, 1.5, mask="causal").matrix(stream(0)).dense()
    kept = np.tril(plain)
    np.testing.assert_allclose(causal, kept / kept.sum(axis=1, keepdims=True), rtol=1e-6)
    sharper = MarkovAttention(50, 3.0).matrix(stream(0)).dense()
    np.testing.assert_allclose(sharper, plain**2 / np.sum(plain**2, axis=1, keepdims=True), rtol=3e-6)


def test_sample_stacks_the_first_draws():
    ensemble = MarkovAttention(20)
    sample = ensemble.sample(stream(3), batch=(2, 3))
    assert sample.shape == (2, 3, 20, 20)
    np.testing.assert_array_equal(sample[1, 2], ensemble.matrix(stream(3), 5).dense())
    assert ensemble.sample(stream(3)).shape == (20, 20)
    assert len(np.unique(sample[..., 0, 0])) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n 0 is out of range; give a whole number of at least 1"),
        ({"n": 4, "beta": -1e-3}, "beta -0.001 is out of range; give a number from 0 to 10000"),
        ({"n": 4, "beta": float("nan")}, "beta nan is out of range"),
        ({"n": 4, "weights": "cauchy"}, "weights 'cauchy' is unknown; choose lognormal or exponential"),
        ({"n": 4, "mask": "foo"}, "mask 'foo' is unknown; choose none or causal"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        MarkovAttention(**arguments)


def test_bad_sizes_and_dtypes():
    with pytest.raises(TypeError, match=r"n 2\.0 is no integer"):
        MarkovAttention(2.0)
    with pytest.raises(ValueError, match="dtype float16 is not supported; choose float32 or float64"):
        MarkovAttention(4).matrix(stream(0), dtype=np.float16)

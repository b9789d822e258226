"""Observables of split tokens against 80-digit arithmetic and against the dense observables."""

import numpy as np
import pytest

from rmt.attention.split import SplitTokens, split
from rmt.observables import tokens
from rmt.observables.collapse import pair_cosine, split_cosine, split_residual, split_spectrum


def split_tokens(n, d, size, seed=0):
    generator = np.random.default_rng(seed)
    rest = generator.standard_normal((n, d))
    rest -= rest.mean(axis=0)
    return SplitTokens(generator.standard_normal(d), size * rest)


@pytest.mark.parametrize("n, d", [(6, 4), (4, 6), (5, 5)])
@pytest.mark.parametrize("size", [1e-2, 1e-4, 1e-12, 1e-60])
def test_the_tail_of_a_collapsed_matrix_is_exact(n, d, size):
    """Oracle: eigenvalues of the Gram matrix in 300-digit arithmetic. The stated error is relative (s_2/s_1)^4."""
    mpmath = pytest.importorskip("mpmath")
    X = split_tokens(n, d, size)
    with mpmath.workdps(300):
        dense = mpmath.matrix(
            [[mpmath.mpf(float(m)) + mpmath.mpf(float(r)) for m, r in zip(X.mean, row, strict=True)] for row in X.rest]
        )
        values = sorted(mpmath.eigsy(dense.T * dense if d <= n else dense * dense.T, eigvals_only=True), reverse=True)
        tail = [float(value / values[0]) for value in values[1:]]
    found = split_spectrum(X)
    rank = min(n - 1, d - 1, len(tail))
    np.testing.assert_allclose(found.tail[:rank], tail[:rank], rtol=1e-7 + 1e3 * size**4, atol=1e-9 * found.tail[0])
    assert float(found.top) == pytest.approx(float(mpmath.sqrt(values[0])), rel=1e-9)


def test_tokens_that_did_not_collapse_have_their_usual_spectrum():
    X = split_tokens(20, 12, 1.0)
    found, usual = split_spectrum(X), tokens.token_spectrum(X.dense())
    np.testing.assert_allclose(found.tail, usual.tail, rtol=1e-12)


def test_cosines_and_residual_are_those_of_the_dense_tokens():
    X = split(np.random.default_rng(3).standard_normal((15, 7)) + 0.5)
    dense = X.dense()
    assert split_cosine(X) == pytest.approx(float(tokens.token_cosine(dense)), rel=1e-12)
    assert split_residual(X) == pytest.approx(float(tokens.rank_one_residual(dense)), rel=1e-12)
    one, two = dense[2], dense[9]
    assert pair_cosine(X, 2, 9) == pytest.approx(one @ two / np.linalg.norm(one) / np.linalg.norm(two), rel=1e-12)


def test_equal_tokens_and_zero_tokens():
    same = SplitTokens(np.ones(3), np.zeros((4, 3)))
    assert split_residual(same) == 0 and split_cosine(same) == pytest.approx(1)
    assert float(tokens.gram_stable_rank_excess(split_spectrum(same))) == 0
    nothing = SplitTokens(np.zeros(3), np.zeros((4, 3)))
    assert np.isnan(split_residual(nothing)) and np.isnan(pair_cosine(nothing, 0, 1))

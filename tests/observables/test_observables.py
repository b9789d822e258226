"""Observables on matrices with known answers."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.observables import entries, spectrum, tokens


def tokens_with(values, n=40, d=20, seed=0):
    generator = np.random.default_rng(seed)
    left, right = np.linalg.qr(generator.standard_normal((n, d)))[0], np.linalg.qr(generator.standard_normal((d, d)))[0]
    return left[:, : len(values)] @ np.diag(values) @ right[:, : len(values)].T


def test_ranks_of_constructed_singular_values():
    """Closed forms at s = 2, 1, 1."""
    found = tokens.token_spectrum(tokens_with([2.0, 1.0, 1.0]))
    shares = np.array([4, 1, 1]) / 6
    assert tokens.token_stable_rank(found) == pytest.approx(6 / 4)
    assert tokens.gram_stable_rank(found) == pytest.approx(18 / 16)
    assert tokens.gram_stable_rank_excess(found) == pytest.approx(2 / 16)
    assert tokens.log_gram_stable_rank_excess(found) == pytest.approx(math.log(2 / 16))
    assert tokens.effective_rank(found) == pytest.approx(math.exp(-np.sum(shares * np.log(shares))), rel=1e-6)


@pytest.mark.parametrize("small", [1e-2, 1e-4, 1e-6, 1e-7])
def test_the_excess_keeps_its_digits_without_cancellation(small):
    """Oracle: mpmath with 40 digits; at s = 1e-7 the excess is 1e-28, far below the rounding of 1 + excess."""
    X = tokens_with([1.0, small, small / 2])
    with mpmath.workdps(40):
        exact = float(mpmath.mpf(small) ** 4 * (1 + mpmath.mpf(1) / 16))
    assert tokens.gram_stable_rank_excess(tokens.token_spectrum(X)) == pytest.approx(exact, rel=1e-5)


def test_cosine_and_residual_of_known_tokens():
    same, orthogonal = np.ones((5, 3)), np.eye(4)
    assert tokens.token_cosine(same) == pytest.approx(1) and tokens.rank_one_residual(same) == pytest.approx(0)
    assert tokens.token_cosine(orthogonal) == pytest.approx(0)
    assert tokens.rank_one_residual(orthogonal) == pytest.approx(math.sqrt(3 / 4))
    X = np.random.default_rng(1).standard_normal((1100, 7))
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    brute = (np.sum(units @ units.T) - 1100) / (1100 * 1099)
    assert tokens.token_cosine(X) == pytest.approx(brute, abs=1e-12)


def test_zero_tokens_are_undefined_not_wrong():
    found = tokens.token_spectrum(np.zeros((4, 3)))
    assert math.isnan(tokens.token_stable_rank(found)) and math.isnan(tokens.effective_rank(found))
    assert math.isnan(tokens.rank_one_residual(np.zeros((4, 3))))


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.1, 10), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_ranks_lie_between_one_and_the_size_and_ignore_scale(n, d, scale, seed):
    X = np.random.default_rng(seed).standard_normal((n, d))
    one, other = tokens.token_spectrum(X), tokens.token_spectrum(scale * X)
    for rank in (tokens.token_stable_rank, tokens.gram_stable_rank, tokens.effective_rank):
        assert 1 - 1e-9 <= rank(one) <= min(n, d) + 1e-9
        assert rank(other) == pytest.approx(rank(one))


def test_gap_ratio_and_ranks_of_a_stack():
    A = np.stack([np.diag([1.0, 0.25, 0.1]), np.eye(3)])
    assert spectrum.spectral_gap(A) == pytest.approx([0.75, 0])
    assert spectrum.gap_ratio(A) == pytest.approx([0.25, 1])
    assert spectrum.attention_stable_rank(A) == pytest.approx([1.0725, 3])
    assert spectrum.outlier_count(np.array([[1.0, 0.25, 0.1]]), 0.2).tolist() == [2]


def test_entropy_and_norm_of_uniform_and_permutation():
    uniform, permutation = np.full((6, 6), 1 / 6), np.eye(6)[::-1]
    assert entries.attention_entropy(uniform) == pytest.approx(math.log(6))
    assert entries.attention_entropy(permutation) == 0
    assert entries.frobenius_norm_squared(np.stack([uniform, permutation])) == pytest.approx([1, 6])


def test_a_float32_norm_is_summed_in_float64():
    """The trap: a naive float32 sum of 2^24 equal squares stops growing; here it is right to 1e-7."""
    A = np.full((4096, 4096), 1e-4, dtype=np.float32)
    assert entries.frobenius_norm_squared(A) == pytest.approx(4096**2 * float(np.float32(1e-4)) ** 2, rel=1e-7)

"""Second and fourth moments along depth: exact enumeration, closed forms, and plain sampling with NumPy."""

import itertools

import numpy as np
import pytest

from rmt.theorems.moments import moments_along_depth, residual_energy
from rmt.theorems.tail_moments import tail_along_depth


def test_moments_of_permutation_like_rows_are_exact():
    """Oracle: enumeration. Rows e_j, j uniform: sigma_n^2 = n - 1. All 27 matrices for n = 3, two layers, with skip."""
    n, s = 3, 0.7
    eye = np.eye(n)
    matrices = [eye[list(rows)] for rows in itertools.product(range(n), repeat=n)]
    for skip in (None, s):
        energy = total = 0.0
        for first in matrices:
            for second in matrices:
                if skip is None:
                    parts = [second @ first]
                else:  # W has mean zero: the terms of a product of (1 + s A W) add in squares
                    parts = [eye, s * first, s * second, s * s * second @ first]
                energy += sum(np.sum(part**2) for part in parts) / len(matrices) ** 2
                total += sum(np.sum(part.sum(axis=0) ** 2) for part in parts) / len(matrices) ** 2
        state = moments_along_depth(n, n - 1.0, 2, skip=skip)[-1]
        assert (state.energy, state.sum_energy) == pytest.approx((energy, total), rel=1e-12)


def test_removing_the_outlier_leaves_only_noise():
    """E ||prod (A_i - J)||_F^2 = sigma_n^(2l) n^(1-l) for l layers (closed form), and the residual of the kept network."""
    n, variance = 50, 0.8
    for depth in (1, 2, 3):
        removed = moments_along_depth(n, variance, depth, removed=1.0)[-1]
        a = variance / (n * (n - 1))
        assert removed.energy == pytest.approx(n * a * (n - 1) * (n * a * (1 - 1 / n)) ** (depth - 1), rel=1e-12)
        kept = moments_along_depth(n, variance, depth)[-1]
        assert kept.energy * kept.residual == pytest.approx(residual_energy(n, variance, depth), rel=1e-9)


@pytest.mark.parametrize("n, draws", [(50, 400), (200, 60)])
def test_moments_agree_with_sampled_softmax(n, draws):
    """NumPy sampling, beta = 0.8326, three layers. Standard errors are below 0.8 %; 3 % is four of them."""
    generator = np.random.default_rng(0)
    beta = 0.8326
    found = np.zeros((draws, 3, 3))
    variance = np.zeros(draws)
    for draw in range(draws):
        P = np.eye(n)
        for number in range(3):
            A = np.exp(beta * generator.standard_normal((n, n)))
            A /= A.sum(axis=1, keepdims=True)
            variance[draw] += (np.sum(A**2) - 1) / 3
            P = A @ P
            rest = P - P.mean(axis=0)
            found[draw, number] = np.sum(P**2), np.sum(P.sum(axis=0) ** 2), np.sum(rest**2)
    sigma2 = variance.mean()
    for number, state in enumerate(moments_along_depth(n, sigma2, 3)[1:]):
        exact = (state.energy, state.sum_energy, residual_energy(n, sigma2, number + 1))
        np.testing.assert_allclose(found[:, number].mean(axis=0), exact, rtol=0.03)


def test_uniform_attention_with_a_skip_has_its_closed_cosine():
    """Orthonormal tokens, A = J: cosine (g - 1)/(n + g - 1) with g = (1 + s^2)^L (noci2022's setting)."""
    n = 80
    for s in (1.0, 0.3):
        for depth, state in enumerate(moments_along_depth(n, 0.0, 6, skip=s)):
            g = (1 + s * s) ** depth
            assert state.cosine == pytest.approx((g - 1) / (n + g - 1), rel=1e-12)


def test_fourth_moments_tend_to_one_plus_l_times_one_plus_gamma():
    """t_2/(f^(2l) n) -> 1 + l (1 + n/d); Gaussian tokens add n/d (closed form of the limit)."""
    n, d = 10**6, 2 * 10**6
    for gaussian in (False, True):
        for number, tail in enumerate(tail_along_depth(n, d, float(n), 2.0 * n**2, 4, gaussian=gaussian), start=1):
            limit = 1 + number * (1 + n / d) + gaussian * n / d
            assert tail.second / n == pytest.approx(limit, rel=1e-4)
            assert tail.first / n == pytest.approx(1, rel=1e-4)


def test_fourth_moments_of_gaussian_products_are_exact_at_small_size():
    """NumPy, n = d = 9 (blocks of 8 x 8), two layers, 20000 draws: standard errors below 1 %, bound 4 %."""
    n, draws = 9, 20000
    generator = np.random.default_rng(1)
    X = np.broadcast_to(np.eye(n - 1), (draws, n - 1, n - 1))
    for _ in range(2):
        B, W = (generator.standard_normal((draws, n - 1, n - 1)) / np.sqrt(size) for size in (n - 1, n))
        X = B @ X @ W
    squares = np.linalg.svd(X, compute_uv=False) ** 2
    fourth = n**2 * (2 + 1 / (n - 1))
    tail = tail_along_depth(n, n, float(n), fourth, 2)[-1]
    assert np.mean(squares.sum(axis=1)) == pytest.approx(tail.first, rel=0.04)
    assert np.mean((squares**2).sum(axis=1)) == pytest.approx(tail.second, rel=0.04)

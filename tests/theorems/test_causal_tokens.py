"""Tokens after one causal layer: the uniform limit, a sample, ranges."""

import math

import numpy as np
import pytest

from rmt.theorems.causal_tokens import causal_token_predictions


def ranks(T):
    squares = np.linalg.svd(T, compute_uv=False) ** 2
    return squares.sum() / squares[0], np.sum(squares**2) / squares[0] ** 2


def test_wide_values_see_the_matrix_itself():
    """Closed form: for widths >> n the stable rank of C is H_n/s_1^2; weak noise; n = 200."""
    found = causal_token_predictions(200, 0.05, widths=(10**7,))
    cesaro = np.tril(np.ones((200, 200))) / np.arange(1, 201)[:, None]
    stable, gram = ranks(cesaro)
    assert found["token_stable_rank"].value == pytest.approx(stable, rel=0.01)
    assert found["gram_stable_rank"].value == pytest.approx(gram, rel=0.01)


@pytest.mark.parametrize("removed", [False, True])
def test_bands_hold_the_mean_of_a_sample(removed):
    """Oracle: numpy, 20 draws, n = width = value width = 256, beta = .7; band plus 5.5 standard errors. Control: width 32."""
    generator = np.random.default_rng(21)
    cesaro = np.tril(np.ones((256, 256))) / np.arange(1, 257)[:, None]
    drawn = []
    for _ in range(20):
        A = np.tril(np.exp(0.7 * generator.standard_normal((256, 256))))
        A /= A.sum(axis=1, keepdims=True)
        values = generator.standard_normal((256, 256)) @ generator.standard_normal((256, 256))
        drawn.append(ranks((A - cesaro if removed else A) @ values))
    found = causal_token_predictions(256, 0.7, widths=(256, 256), removed=removed)
    other = causal_token_predictions(256, 0.7, widths=(32, 32), removed=removed)
    for name, measured in zip(("token_stable_rank", "gram_stable_rank"), np.array(drawn).T, strict=True):
        if name in found:
            slack = 5.5 * measured.std(ddof=1) / math.sqrt(20)
            assert found[name].band[0] - slack < measured.mean() < found[name].band[1] + slack
    assert abs(other["token_stable_rank"].value / found["token_stable_rank"].value - 1) > 0.05


def test_ranges_are_named():
    assert "beta = 1.3" in causal_token_predictions(300, 1.3, widths=(64,))["gram_stable_rank"].validity
    assert "width 16" in causal_token_predictions(300, 0.5, widths=(64, 16))["gram_stable_rank"].validity

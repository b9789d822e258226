"""Predictions for windows and biases: a sample, the causal end, ranges."""

import math

import numpy as np
import pytest

from rmt.theorems.causal import causal_predictions
from rmt.theorems.local_attention import local_predictions


def draw(n, beta, window, slope, generator):
    i = np.arange(n)
    lag = i[:, None] - i
    seen = (lag >= 0) & (lag < (window or n))
    logits = beta * generator.standard_normal((n, n)) - (slope or 0.0) * lag
    A = np.where(seen, np.exp(np.where(seen, logits, 0.0)), 0.0)
    return A / A.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", [{"window": 64}, {"slope": 0.03}])
def test_bands_hold_the_mean_of_a_sample(kind):
    """Oracle: numpy, 12 draws, n = 400, beta = .6; band plus 6 standard errors. Control: half the window, twice the slope."""
    generator = np.random.default_rng(8)
    rows = []
    for _ in range(12):
        A = draw(400, 0.6, kind.get("window"), kind.get("slope"), generator)
        s = np.linalg.svd(A, compute_uv=False)
        T = A @ generator.standard_normal((400, 400))
        squares = np.linalg.svd(T, compute_uv=False) ** 2
        T /= np.linalg.norm(T, axis=1, keepdims=True)
        cosine = (np.sum(T.sum(axis=0) ** 2) - 400) / (400 * 399)
        total = np.sum(A**2)
        rows.append((total, s[0], s[1], s[1] / s[0], total / s[0] ** 2, cosine, squares.sum() / squares[0]))
    names = ("frobenius_norm_squared", "top_singular_value", "second_singular_value", "gap_ratio")
    names += ("attention_stable_rank", "token_cosine", "token_stable_rank")
    found = local_predictions(400, 0.6, widths=(400,), **kind)
    other = local_predictions(400, 0.6, widths=(400,), **{"window": 32} if "window" in kind else {"slope": 0.06})
    for name, values in zip(names, np.array(rows).T, strict=True):
        slack = 6 * values.std(ddof=1) / math.sqrt(12)
        low, high = found[name].band
        assert low - slack < values.mean() < high + slack, name
        if name in ("frobenius_norm_squared", "attention_stable_rank", "token_cosine", "token_stable_rank"):
            low, high = other[name].band
            assert not low - slack < values.mean() < high + slack, name


def test_a_window_over_all_tokens_is_a_causal_mask():
    full, causal = local_predictions(300, 0.5, window=300), causal_predictions(300, 0.5)
    assert full["top_singular_value"] == causal["top_singular_value"]


def test_published_cosines():
    """Published averages at n = 2000, beta = .5: window 64 .0245, slope .02 .0380."""
    window = local_predictions(2000, 0.5, window=64)["token_cosine"].value
    slope = local_predictions(2000, 0.5, slope=0.02)["token_cosine"].value
    assert [window, slope] == pytest.approx([0.0245, 0.0380], rel=0.03)


def test_ranges_are_named():
    assert local_predictions(500, 0.5, window=300)["top_singular_value"].value is None
    with pytest.raises(ValueError, match="exactly one"):
        local_predictions(500, 0.5, window=30, slope=0.1)

"""Scored rows against the same formulas written entry by entry (independent oracle), and against the softmax kernels."""

import math

import numpy as np
import pytest

from rmt.arrays import CPU, GPU, Backend
from rmt.attention.masks import Mask
from rmt.attention.scores import FUNCTIONS, NormalLogits, ProductLogits, Score, ScoredRows
from rmt.ensembles.markov import MarkovAttention
from rmt.ensembles.matrix import attention_matrix
from rmt.streams import stream

N = 90
F = {
    "softmax": math.exp,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "relu": lambda x: max(x, 0.0),
    "linear": lambda x: x,
    "tanh": math.tanh,
}


def by_hand(logits, score):
    n = len(logits)
    A = np.zeros((n, n))
    for i in range(n):
        first = 0 if score.mask.name != "window" else max(0, i + 1 - score.mask.window)
        last = n if score.mask.name == "none" else i + 1
        for j in range(first, last):
            x = logits[i, j]
            x = score.cap * math.tanh(x / score.cap) if score.cap else x
            x -= (score.slope or 0.0) * abs(i - j)
            A[i, j] = F[score.function](x)
        if score.function == "softmax":
            A[i] /= A[i].sum() + (0.0 if score.sink is None else math.exp(score.sink))
        else:
            A[i] /= last - first
    return A


SCORES = [
    Score(),
    Score(mask=Mask("causal")),
    Score(mask=Mask("window", 7)),
    Score(mask=Mask("window", 7), cap=1.5, slope=0.3, sink=0.0),
    Score(cap=0.5),
    Score(sink=3.0),
    Score(mask=Mask("causal"), slope=0.05),
    *(Score(function=name) for name in FUNCTIONS),
    *(Score(function=name, mask=Mask("causal")) for name in FUNCTIONS),
]


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_rows_are_those_written_by_hand(score):
    rng = np.random.default_rng(0)
    Q, K = rng.standard_normal((N, 8)), rng.standard_normal((N, 8))
    matrix = attention_matrix(ScoredRows(ProductLogits(Q, K, CPU), score))
    exact = by_hand(Q @ K.T, score)
    np.testing.assert_allclose(matrix.dense(), exact, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(matrix.column_sums, exact.sum(axis=0), rtol=1e-9)
    assert matrix.frobenius_norm_squared == pytest.approx((exact**2).sum(), rel=1e-9)
    if score.function == "softmax":
        some = exact[exact > 0]
        assert matrix.entropy == pytest.approx(-(some * np.log(some)).sum() / N, rel=1e-9)
    else:
        assert math.isnan(matrix.entropy)
    assert score.stochastic == np.allclose(exact.sum(axis=1), 1)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_softmax_agrees_with_the_kernels_on_the_same_draws(mask):
    ensemble = MarkovAttention(n=600, beta=0.9, mask=mask)
    words = stream(1).within(ensemble.stream_key).words("logits", 0)
    logits = NormalLogits(600, words, 0.9, np.dtype(np.float32), CPU)
    scored = attention_matrix(ScoredRows(logits, Score(mask=Mask(mask))))
    np.testing.assert_allclose(scored.dense(), ensemble.matrix(stream(1)).dense(), rtol=2e-6, atol=1e-12)


def test_streamed_rows_and_workers_change_nothing():
    words = stream(1).words("logits", 0)
    rows = ScoredRows(NormalLogits(700, words, 0.9, np.dtype(np.float32), CPU), Score(mask=Mask("window", 50), cap=2.0))
    held, other = attention_matrix(rows), attention_matrix(rows, workers=2)
    np.testing.assert_array_equal(held.dense(), other.dense())
    assert held.frobenius_norm_squared == other.frobenius_norm_squared


@pytest.mark.parametrize("score", SCORES[::3], ids=str)
def test_the_path_of_the_gpu_on_a_stand_in_namespace(score, monkeypatch):
    """NumPy stands in for CuPy, so every line but the device itself runs."""
    words = stream(1).words("logits", 0)

    def matrix(backend):
        rows = ScoredRows(NormalLogits(200, words, 0.9, np.dtype(np.float32), backend), score)
        return attention_matrix(rows, memory_budget=10**9)

    plain = matrix(CPU)
    monkeypatch.setattr(Backend, "xp", property(lambda self: np))
    np.testing.assert_allclose(matrix(GPU).dense(), plain.dense(), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    "make, fragment",
    [
        (lambda: Mask("window"), "a window belongs to mask window, and needs one"),
        (lambda: Mask("none", 5), "a window belongs to mask window"),
        (lambda: Score(cap=0.0), "cap 0.0: must be a finite number > 0"),
        (lambda: Score(function="foo"), "attention 'foo' is unknown"),
        (lambda: Score(function="relu", sink=1.0), "a sink belongs to softmax"),
        (lambda: Score(sink=1e4), "sink 10000.0: must be a number from -500 to 500"),
    ],
)
def test_nonsense_is_refused(make, fragment):
    with pytest.raises(ValueError, match=fragment):
        make()

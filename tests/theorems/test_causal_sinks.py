"""Predictions for causal attention with a sink."""

import math

import numpy as np
import pytest

from rmt.theorems.causal import causal_predictions
from rmt.theorems.causal_sinks import causal_sink_predictions


@pytest.mark.parametrize("sink, beta", [(0.0, 0.5), (2.0, 0.9)])
def test_bands_hold_the_mean_of_a_sample(sink, beta):
    """Oracle: numpy, 16 draws, n = 300; band plus 6 standard errors. Control: causal attention without a sink."""
    generator = np.random.default_rng(12)
    rows = []
    for _ in range(16):
        weights = np.tril(np.exp(beta * generator.standard_normal((300, 300))))
        A = weights / (math.exp(sink) + weights.sum(axis=1, keepdims=True))
        s = np.linalg.svd(A, compute_uv=False)
        rows.append((s[0], s[1], s[1] / s[0], np.sum(A**2)))
    names = ("top_singular_value", "second_singular_value", "gap_ratio", "frobenius_norm_squared")
    found, plain = causal_sink_predictions(300, beta, sink), causal_predictions(300, beta)
    for name, values in zip(names, np.array(rows).T, strict=True):
        slack = 6 * values.std(ddof=1) / 4
        assert found[name].band[0] - slack < values.mean() < found[name].band[1] + slack, name
        assert not plain[name].band[0] - slack < values.mean() < plain[name].band[1] + slack, name


def test_ranges_are_named():
    assert "sink" in causal_sink_predictions(300, 0.5, -1.0)["gap_ratio"].validity
    assert causal_sink_predictions(300, 1.5, 0.0)["gap_ratio"].value is None

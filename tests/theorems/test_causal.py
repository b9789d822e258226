"""Predictions for causal attention: shape, ranges, exact cases and a sample."""

import math

import numpy as np
import pytest

from rmt.theorems.causal import causal_predictions


def average(n):
    return np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]


def test_uniform_attention_is_exact():
    """Oracle: dense singular values of the Cesaro matrix."""
    dense = np.linalg.svd(average(80), compute_uv=False)
    found = causal_predictions(80, 0.0)
    assert [found["singular_value"][k].value for k in range(1, 9)] == pytest.approx(dense[:8], rel=1e-9)
    assert found["frobenius_norm_squared"].value == pytest.approx(np.sum(1 / np.arange(1, 81)))
    assert found["spectral_gap"].value == pytest.approx(dense[0] - dense[1])


def test_out_of_range_there_is_no_number_but_exact_rows_stay():
    found = causal_predictions(400, 1.3)
    assert found["frobenius_norm_squared"].in_range
    assert not found["top_singular_value"].in_range and "1.3" in found["top_singular_value"].validity
    assert causal_predictions(400, 0.5, model="keyquery", head_dim=8)["outlier_count"].value is None


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="outlier_removed"):
        causal_predictions(100, 0.5, variant="outlier_removed")
    with pytest.raises(ValueError, match="head_dim"):
        causal_predictions(100, 0.5, model="keyquery")


@pytest.mark.parametrize("model, head_dim", [("iid", None), ("keyquery", 64)])
def test_bands_hold_the_mean_of_a_sample(model, head_dim):
    """Oracle: numpy, 24 draws, n = 200, beta = 0.7. Band plus 5.5 standard errors (false alarm 4e-8 a row)."""
    n, beta, draws = 200, 0.7, 24
    generator = np.random.default_rng(20261130)
    rows = {name: [] for name in ("frobenius_norm_squared", "top_singular_value", "second_singular_value")}
    rows |= {"spectral_gap": [], "gap_ratio": [], "attention_stable_rank": [], "outlier_count": []}
    for _ in range(draws):
        q, k = generator.standard_normal((2, n, head_dim or 1))
        logits = beta * (generator.standard_normal((n, n)) if head_dim is None else q @ k.T / math.sqrt(head_dim))
        A = np.tril(np.exp(logits))
        A /= A.sum(axis=1, keepdims=True)
        s = np.linalg.svd(A, compute_uv=False)
        noise = np.linalg.norm(A - average(n), 2)
        total = np.sum(A**2)
        for name, value in (
            ("frobenius_norm_squared", total),
            ("top_singular_value", s[0]),
            ("second_singular_value", s[1]),
            ("spectral_gap", s[0] - s[1]),
            ("gap_ratio", s[1] / s[0]),
            ("attention_stable_rank", total / s[0] ** 2),
            ("outlier_count", np.sum(s > noise)),
        ):
            rows[name].append(value)
    found = causal_predictions(n, beta, model=model, head_dim=head_dim)
    wrong = causal_predictions(n, 0.9, model=model, head_dim=head_dim)  # negative control
    missed = 0
    for name, measured in rows.items():
        mean, slack = np.mean(measured), 5.5 * np.std(measured, ddof=1) / math.sqrt(draws)
        low, high = found[name].band
        assert low - slack < mean < high + slack, name
        missed += not wrong[name].band[0] - slack < mean < wrong[name].band[1] + slack
    assert missed >= 2

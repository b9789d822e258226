"""Edges of residual attention: against sampled matrices with exactly uniform attention, and where their range ends."""

import numpy as np
import pytest

from rmt.theorems.residual import (
    largest_of_gaussian,
    residual_predictions,
    score_deviation,
    smallest_of_gaussian,
)


def said(**change):
    return residual_predictions(**{"n": 128, "width": 256, "head_dim": 64, "skip_scale": 1.0, **change})


def uniform_output(rng, n, d, skip, correlation=0.0):
    X = np.sqrt(1 - correlation) * rng.standard_normal((n, d)) + np.sqrt(correlation) * rng.standard_normal(d)
    return X.mean(axis=0) @ rng.standard_normal((d, d)) / np.sqrt(d) + skip * X


@pytest.mark.parametrize("skip", [0.5, 1.0, 2.0])
def test_edges_under_uniform_attention(skip):
    """C2: s_max within 3 %, s_min within 5 % of the mean of 40 draws (sd of a mean 0.7 %)."""
    rng = np.random.default_rng(0)
    values = np.array(
        [np.linalg.svd(uniform_output(rng, 128, 256, skip), compute_uv=False)[[0, -1]] for _ in range(40)]
    )
    found = said(skip_scale=skip)
    assert values[:, 0].mean() == pytest.approx(found["largest_singular_value"].value, rel=0.03)
    assert values[:, 1].mean() == pytest.approx(found["smallest_singular_value"].value, rel=0.05)


def test_correlated_tokens_shrink_the_lower_edge():
    rng = np.random.default_rng(1)
    values = [np.linalg.svd(uniform_output(rng, 128, 256, 1.0, 0.9), compute_uv=False)[-1] for _ in range(40)]
    assert np.mean(values) == pytest.approx(said(correlation=0.9)["smallest_singular_value"].value, rel=0.05)
    assert np.mean(values) < 0.4 * said()["smallest_singular_value"].value  # negative control


def test_gaussian_edges():
    """Ma's centring, n = 32, D = 64: means of 600 draws (sd of a mean 0.4 % and 0.1 %); sqrt D - sqrt n is 9 % low."""
    rng = np.random.default_rng(2)
    values = np.linalg.svd(rng.standard_normal((600, 32, 64)), compute_uv=False)[:, [0, -1]].mean(axis=0)
    assert values[1] == pytest.approx(smallest_of_gaussian(32, 64), rel=0.025)
    assert values[0] == pytest.approx(largest_of_gaussian(32, 64), rel=0.01)
    assert values[1] > 1.05 * (np.sqrt(64) - np.sqrt(32))  # negative control


def test_out_of_range_says_so_and_gives_no_number():
    for change, fragment in (
        ({"skip_scale": 0.0}, "skip_scale = 0"),
        ({"width": 128}, "hard"),
        ({"n": 64, "width": 128, "skip_scale": 0.1}, "noise"),
        ({"scaling": "unscaled"}, "score deviation 8"),
    ):
        found = said(**change)["smallest_singular_value"]
        assert found.value is None and fragment in found.validity
    assert said(scaling="mup")["second_over_scores"].in_range and not said()["second_over_scores"].in_range


def test_opposed_values_are_predicted_to_be_singular():
    assert said(values="opposed")["inverse_condition_number"].value == 0


def test_score_deviations():
    assert [score_deviation(s, width=32, head_dim=64) for s in ("standard", "mup", "unscaled")] == [1, 0.125, 8]
    assert [score_deviation(s, width=32, head_dim=64) for s in ("fan_out", "fan_out_unscaled")] == [0.5, 4]


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"correlation 1.0: must lie in \[0, 1\)"):
        residual_predictions(n=128, width=256, head_dim=64, skip_scale=1.0, correlation=1.0)
    with pytest.raises(ValueError, match="scaling none: must be one of standard"):
        score_deviation("none", width=64, head_dim=16)

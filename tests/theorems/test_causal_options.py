"""Causal attention with QK-norm or capped logits: limits, ranges, and samples."""

import math

import numpy as np
import pytest

from rmt.theorems.causal import causal_predictions
from rmt.theorems.causal_options import causal_option_predictions
from rmt.theorems.width import OneLayer, width_predictions


@pytest.mark.parametrize("head_dim", [None, 64])
def test_a_high_cap_is_none(head_dim):
    """The first two rungs and the norm of plain logits come back, up to the cubic term of the cap."""
    capped = causal_option_predictions(256, 0.6, head_dim=head_dim, cap=100.0)
    plain = causal_predictions(256, 0.6, model="keyquery" if head_dim else "iid", head_dim=head_dim)
    for name in ("top_singular_value", "second_singular_value", "frobenius_norm_squared", "attention_stable_rank"):
        assert capped[name].value == pytest.approx(plain[name].value, rel=1e-3)
        assert capped[name].band == pytest.approx(plain[name].band, rel=1e-3)
    assert capped["singular_value"][3].value is None and "s_1 and s_2" in capped["singular_value"][3].validity


def test_many_head_dimensions_make_the_norm_none():
    normed = causal_option_predictions(256, 0.6, head_dim=5000)
    plain = causal_predictions(256, 0.6, model="keyquery", head_dim=5000)
    for rank, one in plain["singular_value"].items():
        assert normed["singular_value"][rank].value == pytest.approx(one.value, rel=2e-3)
    assert normed["frobenius_norm_squared"].value == pytest.approx(plain["frobenius_norm_squared"].value, rel=2e-3)


def test_ranges_are_named():
    words = {"top_singular_value", "frobenius_norm_squared", "singular_value"}
    for n, beta, changes, rule in (
        (300, 1.2, {"head_dim": 64}, "beta = 1.2"),
        (300, 0.5, {"head_dim": 8}, "head_dim = 8"),
        (300, 0.5, {"cap": 0.1}, "cap = 0.1"),
        (300, 2.0, {"cap": 5.0}, "as spread"),
        (300, 0.5, {"cap": 5.0, "variant": "running_mean_removed"}, "running_mean_removed"),
    ):
        found = causal_option_predictions(n, beta, **changes)
        assert words <= set(found) and found["top_singular_value"].value is None
        assert rule in found["top_singular_value"].validity
    with pytest.raises(ValueError, match="QK-norm"):
        causal_option_predictions(300, 0.5)


def test_the_layer_asks_for_one_option_at_a_time():
    setting = {"n": 400, "beta": 0.5, "width": 400, "value_width": 400, "mask": "causal"}
    for changes in ({"cap": 2.0, "sink": 0.0}, {"cap": 2.0, "norm": "qk"}, {"cap": 2.0, "variant": "centred"}):
        assert "no prediction" in OneLayer(**setting, **changes).unknown()
    for changes in ({"cap": 2.0}, {"norm": "qk"}, {"norm": "qk", "variant": "running_mean_removed"}):
        one = OneLayer(**setting, **changes)
        quick, solved = (width_predictions(one, equations_up_to=most) for most in (100, 1000))
        if "variant" not in changes:
            assert quick["top_singular_value"].value == pytest.approx(solved["top_singular_value"].value, rel=0.01)
        assert quick["frobenius_norm_squared"] == solved["frobenius_norm_squared"]


def sampled(option, *, n, beta, draws):
    """Singular values of causal A in numpy, d_k = 32."""
    rng, found = np.random.default_rng(len(option)), []
    for _ in range(draws):
        queries, keys = rng.standard_normal((2, n, 32))
        if option == "qk":
            queries, keys = (math.sqrt(32) * x / np.linalg.norm(x, axis=1)[:, None] for x in (queries, keys))
        logits = beta / math.sqrt(32) * queries @ keys.T
        A = np.tril(np.exp(1.5 * np.tanh(logits / 1.5) if option == "cap" else logits))
        found.append(np.linalg.svd(A / A.sum(axis=1, keepdims=True), compute_uv=False))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["qk", "cap"])
def test_bands_hold_a_sample(option):
    """numpy, 60 draws, n = 256, beta = 1: medians within bands and 5 standard errors (6e-7 a value).

    Negative control: the Frobenius norm of plain logits of this beta is missed.
    """
    values = sampled(option, n=256, beta=1.0, draws=60)
    said = causal_option_predictions(256, 1.0, head_dim=32, cap=1.5 if option == "cap" else None)
    middle, slack = np.median(values, axis=0), 5 * 1.25 * values.std(axis=0) / math.sqrt(60)
    for rank, one in said["singular_value"].items():
        if one.in_range:
            low, high = one.band
            assert low - slack[rank - 1] < middle[rank - 1] < high + slack[rank - 1], rank
    squares = np.sum(values**2, axis=1)
    error = 5 * squares.std() / math.sqrt(60)
    assert abs(squares.mean() - said["frobenius_norm_squared"].value) < error
    plain = causal_predictions(256, 1.0, model="keyquery", head_dim=32)["frobenius_norm_squared"].value
    assert plain - squares.mean() > error

"""Shared tokens: limits in which the law is known, what is refused; the numbers are checked where they are measured."""

import pytest

from rmt.theorems.shared_layer import shared_predictions
from rmt.theorems.width import OneLayer, width_predictions

SIZES = {"n": 1000, "beta": 0.5, "head_dim": 64}


def test_wide_tokens_are_as_good_as_independent():
    """Derived: the canonical scales tend to one as width/head_dim grows; two laws, hence 3 %."""
    shared = shared_predictions(width=10**5, tokens="gaussian", removed=False, **SIZES)
    alone = width_predictions(OneLayer(model="keyquery", width=1000, value_width=1000, **SIZES))
    for name in ("top_singular_value", "second_singular_value", "frobenius_norm_squared"):
        assert shared[name].value == pytest.approx(alone[name].value, rel=0.03)


def test_orthogonal_weights_have_no_spread_of_scales():
    words = {"width": 256, "tokens": "gaussian", "removed": True}
    usual, orthogonal = (shared_predictions(weight_init=w, **words, **SIZES) for w in ("rademacher", "orthogonal"))
    alone = width_predictions(
        OneLayer(model="keyquery", width=1000, value_width=1000, variant="outlier_removed", **SIZES)
    )
    assert orthogonal["top_singular_value"].value == pytest.approx(alone["top_singular_value"].value, rel=0.02)
    assert usual["top_singular_value"].value > 1.1 * orthogonal["top_singular_value"].value


@pytest.mark.parametrize(
    "changes, fragment",
    [
        ({"beta": 1.2}, "calibrated for beta <= 1"),
        ({"n": 100}, "calibrated for n >= 300"),
        ({"width": 100}, "calibrated for width >= 2 head_dim"),
        ({"head_dim": 8}, "head_dim = 8 < 16"),
    ],
)
def test_out_of_range_gives_the_reason_and_no_number(changes, fragment):
    found = shared_predictions(**{**SIZES, "width": 256, "tokens": "layernorm", "removed": False, **changes})
    assert found["second_singular_value"].value is None and fragment in found["second_singular_value"].validity
    assert found["singular_value"][3].value is None

"""Predicted gradient norms: closed forms and limits."""

import math

import pytest

from rmt.theorems.gradient_norms import gradient_predictions

COMMON = {"model": "iid", "head_dim": None, "beta": math.sqrt(math.log(2)), "factorises": True}


def value(n, depth, variant, unit, **fields):
    words = {**COMMON, "n": n, "width": n, "depth": depth, "variant": variant, "unit_weights": unit, **fields}
    return gradient_predictions(**words)["gradient_norm_squared"][1].value


@pytest.mark.parametrize("unit, depth", [(True, 3), (False, 3), (True, 2), (False, 5)])
def test_norms_have_their_leading_order(unit, depth):
    """n = 10^4, sigma = 1: kept d (s^2 d)^(L-1) (1 + O(1/n)), removed sigma^(2L) n^(1-L) times that, to 1 %."""
    n = 10**4
    scale = float(n) ** depth if unit else float(n)
    assert value(n, depth, "plain", unit) == pytest.approx(scale, rel=0.01)
    assert value(n, depth, "outlier_removed", unit) == pytest.approx(scale * float(n) ** (1 - depth), rel=0.01)
    assert value(n, depth, "rescaled", unit) == pytest.approx(scale * n, rel=0.01)


def test_one_layer_kept_is_two():
    """F_1 = 1 + sigma_n^2, sigma = 1."""
    assert value(10**5, 1, "plain", False) == pytest.approx(2e5, rel=1e-3)


def test_table_of_the_removed_norm_at_small_n():
    """Exact with sigma_n: n = 50, 100, 200, L = 3, s = 1 gives 36.4, 84.6, 183.4 (moment recursion, evaluated by hand)."""
    for n, expected in ((50, 36.4), (100, 84.6), (200, 183.4)):
        assert value(n, 3, "outlier_removed", True) == pytest.approx(expected, rel=2e-3)


def test_out_of_range_and_without_theory():
    deep = gradient_predictions(
        **{**COMMON, "n": 512, "width": 512, "depth": 200, "variant": "plain", "unit_weights": True}
    )
    assert "leaves the range" in deep["gradient_norm_squared"][1].validity
    assert (
        gradient_predictions(**{**COMMON, "n": 9, "width": 9, "depth": 2, "variant": "x", "unit_weights": True}) == {}
    )
    no = {**COMMON, "factorises": False, "n": 9, "width": 9, "depth": 2, "variant": "plain", "unit_weights": True}
    assert gradient_predictions(**no) == {}

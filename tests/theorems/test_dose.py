"""The dose-response of the outlier: closed forms at both ends and powers of the dose between."""

import math

import pytest

from rmt.theorems.dose import dose_predictions

COMMON = {"model": "iid", "head_dim": None, "beta": math.sqrt(math.log(2)), "tokens": "orthonormal", "depth": 4}


def said(n, eta, unit=False):
    return dose_predictions(**{**COMMON, "n": n, "width": n, "eta": eta, "unit_weights": unit})


def test_the_whole_outlier_leaves_gradients_alone_with_small_weights_and_explodes_them_with_unit_weights():
    """Between depth 1 and 4: F_4/F_1 -> 1/2 at sigma = 1, so the growth a layer is -ln(2)/3, plus ln d with s = 1."""
    n = 10**4
    small, unit = (said(n, 1.0, unit)["gradient_growth"].value for unit in (False, True))
    assert small == pytest.approx(-math.log(2) / 3, abs=1e-3)
    assert unit == pytest.approx(math.log(n) - math.log(2) / 3, abs=1e-3)


def test_without_the_outlier_they_vanish_or_stay():
    """F_L = sigma^(2L) n^(1-L): growth -ln n with s^2 = 1/d, zero with s = 1 (sigma = 1)."""
    n = 10**4
    assert said(n, 0.0)["gradient_growth"].value == pytest.approx(-math.log(n), abs=2e-3)
    assert said(n, 0.0, True)["gradient_growth"].value == pytest.approx(0, abs=2e-3)


def test_the_excess_falls_with_the_fourth_power_of_the_dose_a_layer():
    n = 4000
    whole, half = (said(n, eta)["collapse_rate"].value for eta in (1.0, 0.5))
    assert whole - half == pytest.approx(4 * math.log(2), abs=0.01)


def test_where_the_outlier_does_not_lead_there_is_no_rate():
    weak = said(256, 0.1)
    assert not weak["collapse_rate"].in_range and "edge" in weak["collapse_rate"].validity
    assert weak["gradient_growth"].in_range
    assert said(256, 0.0)["branch_stable_rank"].in_range and "collapse_rate" not in said(256, 0.0)

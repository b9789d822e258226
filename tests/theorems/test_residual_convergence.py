"""Bounds of training: the drift sum in closed form, and where predictions end."""

import numpy as np
import pytest

from rmt.theorems.residual_convergence import convergence_predictions, drift_bound


def test_the_drift_bound_sums_the_geometric_series():
    """mu sum sqrt(2 Lambda Phi) (1 - mu lambda)^(t/2) <= bound, and within a factor 2 of it for mu lambda near 0."""
    smallest, largest, first, step = 0.3, 50.0, 7.0, 0.01
    total = step * np.sqrt(2 * largest * first) * np.sum((1 - step * smallest) ** (np.arange(100_000) / 2))
    bound = drift_bound(smallest, largest, first)
    assert total <= bound <= 1.01 * total
    assert drift_bound(0.0, largest, first) is None


def test_predictions_end_where_their_range_ends():
    def said(**change):
        return convergence_predictions(**{"tokens": "iid", "optimizer": "gd", "rate": 0.5, **change})

    assert all(form.in_range for form in said().values()) and len(said()) == 4
    for change, fragment in (({"tokens": "weather"}, "weather"), ({"optimizer": "adam"}, "gd"), ({"rate": 0.9}, "0.9")):
        found = said(**change)
        assert found["certificate_over_tangent"].in_range
        assert not found["worst_step_over_bound"].in_range and fragment in found["worst_step_over_bound"].validity
    assert "certificate_over_tangent" not in said(depth=2)


@pytest.mark.parametrize("certified", [True, False])
def test_the_certificate_is_a_theorem_where_it_applies(certified):
    found = convergence_predictions(tokens="weather", optimizer="gd", rate=0.5, certified=certified)
    assert ("certificate_over_tangent" in found) is certified

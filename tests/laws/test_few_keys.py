"""Exact rows of softmax over few and many keys."""

import itertools
import math

import numpy as np
import pytest

from rmt.laws.few_keys import row_variances
from rmt.laws.lognormal_softmax import effective_variance


def test_lognormal_weights_have_their_effective_variance():
    """Oracle: the same integral in another form, `rmt.laws.lognormal_softmax`; the counts between are interpolated."""
    normal, weight = np.polynomial.hermite_e.hermegauss(80)
    found = row_variances(np.exp(0.9 * normal), weight / weight.sum(), 3000)
    for i in (2, 3, 20, 150, 3000):
        assert found[i - 1] == pytest.approx(float(effective_variance(np.array(0.81), i)), rel=1e-4)
    assert found[0] == 0


def test_two_values_are_counted_out():
    """Closed form: F is 1 or 3, every outcome of up to six keys; many keys have E F^2/(E F)^2 - 1 = 1/4."""
    found = row_variances([1.0, 3.0], [0.5, 0.5], 10**5)
    for i in (1, 2, 3, 6):
        rows = [np.sum(np.square(F)) / sum(F) ** 2 for F in itertools.product((1, 3), repeat=i)]
        assert found[i - 1] == pytest.approx(i * np.mean(rows) - 1, abs=1e-7)
    assert found[-1] == pytest.approx(0.25, abs=2e-5)
    assert np.all(np.diff(found) > 0) and math.isclose(float(row_variances([2.0], [1.0], 50).max()), 0, abs_tol=1e-7)

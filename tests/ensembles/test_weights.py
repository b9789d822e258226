"""Initial weights: two moments by their closed forms, orthogonality to rounding. False alarms 1e-7 per check."""

import math

import numpy as np
import pytest

from rmt.ensembles.weights import WEIGHT_INITS, initial_weights
from rmt.streams import stream

KURTOSIS = {"gaussian": 3.0, "uniform": 1.8, "rademacher": 1.0}


def drawn(init, rows=400, columns=300):
    return initial_weights(stream(5).words("weights"), rows, columns, init=init).astype(float)


@pytest.mark.parametrize("init", [name for name in WEIGHT_INITS if name != "orthogonal"])
def test_mean_zero_variance_one(init):
    """120000 entries: 5.3 standard errors; a variance off by 1.5 % would be seen."""
    W = drawn(init)
    assert abs(W.mean()) < 5.3 / math.sqrt(W.size)
    assert abs((W**2).mean() - 1) < 5.3 * math.sqrt(2 / W.size)
    if init in KURTOSIS:
        assert (W**4).mean() == pytest.approx(KURTOSIS[init], rel=0.08)


def test_truncated_weights_end_at_two_deviations_of_the_uncut_law():
    """Closed form: variance of N(0, 1) cut at 2 is 1 - 4 phi(2)/(2 Phi(2) - 1) = .7737."""
    assert np.abs(drawn("truncated")).max() == pytest.approx(2 / math.sqrt(0.7737), rel=1e-3)


@pytest.mark.parametrize("rows, columns", [(60, 20), (20, 60), (30, 30)])
def test_orthogonal_weights(rows, columns):
    W = drawn("orthogonal", rows, columns)
    product = W.T @ W / rows if rows >= columns else W @ W.T / columns
    np.testing.assert_allclose(product, np.eye(min(rows, columns)), atol=1e-6)


def test_unknown_law_is_refused():
    with pytest.raises(ValueError, match="weight_init 'foo' is unknown; choose gaussian or uniform"):
        drawn("foo")

"""Functions of normal logits by closed forms, and published numbers for caps and sinks."""

import math

import numpy as np
import pytest

from rmt.laws.hermite import HermiteLaw
from rmt.theorems.attention_functions import FUNCTIONS, capped_predictions, function_predictions, moments
from rmt.theorems.layer import Layer
from rmt.theorems.sinks import sink_predictions


def test_moments_in_closed_form():
    """ReLU: mean 1/sqrt(2 pi), E f^2 = 1/2, first degree 1/4. The exponential: degrees v^l/l! times e^v."""
    relu = moments(FUNCTIONS["relu"], 1.0)
    assert relu.mean == pytest.approx(1 / math.sqrt(2 * math.pi), abs=1e-6)
    assert relu.square == pytest.approx(0.5, abs=1e-6) and relu.degrees[0] == pytest.approx(0.25, abs=1e-6)
    exponential = moments(np.exp, 0.49)
    for degree in (1, 2, 5):
        assert exponential.degrees[degree - 1] == pytest.approx(0.49**degree / math.factorial(degree) * math.exp(0.49))
    linear = moments(FUNCTIONS["linear"], 2.0)
    assert linear.mean == pytest.approx(0, abs=1e-12) and linear.degrees[:3] == pytest.approx((2, 0, 0), abs=1e-9)


def test_given_degrees_of_the_exponential_are_the_usual_law():
    degrees = tuple(0.25**degree / math.factorial(degree) for degree in range(1, 13))
    usual, given = (HermiteLaw(800, math.expm1(0.25), 0.5, 64, d) for d in (None, degrees))
    assert given.edge().square == pytest.approx(usual.edge().square, rel=1e-6)


def test_a_polynomial_has_no_rest():
    """Linear logits Q K^T/n, n = d_k: a product of two square Gaussian matrices, edge 27/4 of beta^2."""
    edge = HermiteLaw(1000, 1.0, 1.0, 1000, (1.0,) + (0.0,) * 11).edge().square
    assert edge == pytest.approx(27 / 4, rel=1e-3)


@pytest.mark.parametrize("function, leads", [("sigmoid", True), ("relu", True), ("linear", False), ("tanh", False)])
@pytest.mark.parametrize("head_dim", [None, 64])
def test_the_gap_follows_the_mean(function, leads, head_dim):
    found = function_predictions(1000, 1.0, function=function, head_dim=head_dim, removed=False)
    assert (found["gap_ratio"].value < 0.3) is leads
    assert ("spectral_gap" in found) is leads


def test_published_caps():
    """iid: c = beta = 2 and 1: 2.099 and 1.189 (measured 2.097, 1.181). Saturated: a_1/sqrt(d_k), d_k = 16."""
    for cap, published in ((2.0, 2.099), (1.0, 1.189)):
        found = capped_predictions(10**6, cap, cap=cap, head_dim=None, removed=True)
        assert found["top_singular_value"].value * 1000 == pytest.approx(published, rel=2e-3)
    for cap, beta, published in ((1.0, 1.0, 0.1406), (2.0, 1.0, 0.1917), (2.0, 2.0, 0.2370), (5.0, 2.0, 0.356)):
        found = capped_predictions(10**7, beta, cap=cap, head_dim=16, removed=True)
        assert found["second_singular_value"].value == pytest.approx(published, rel=0.02)


def test_published_sinks():
    """beta = .7, n = 1000, b = 0, 3, 6, ln n: row sums .9995 .9848 .7603 .5611; the gap ratio is that without a sink."""
    layer = Layer(1000, 0.7)
    plain = sink_predictions(layer, -500.0, removed=False)
    for sink, published in ((0.0, 0.9995), (3.0, 0.9848), (6.0, 0.7603), (math.log(1000), 0.5611)):
        found = sink_predictions(layer, sink, removed=False)
        assert found["top_singular_value"].value == pytest.approx(published, rel=6e-4)
        assert found["gap_ratio"].value == pytest.approx(plain["gap_ratio"].value, rel=1e-9)


def test_out_of_range():
    assert function_predictions(100, 1.0, function="relu", head_dim=None, removed=True)["gap_ratio"].value is None
    assert capped_predictions(1000, 3.0, cap=1.0, head_dim=None, removed=False)["spectral_gap"].value is None
    assert sink_predictions(Layer(1000, 3.0), 0.0, removed=False)["top_singular_value"].value is None

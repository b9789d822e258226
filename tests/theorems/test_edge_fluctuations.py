"""The edge coordinate: closed forms of its correction, its units, and plain sampling."""

import math

import numpy as np
import pytest

from rmt.laws.tracy_widom import TracyWidom
from rmt.theorems.edge_fluctuations import EdgeFluctuation, edge_predictions


@pytest.mark.parametrize("weights, kappa", [("exponential", 2.0), ("gamma", 1.0), ("uniform", 2 / 15)])
def test_kappa_in_closed_form(weights, kappa):
    """Exponential: Var a^2 = 20, Cov = 4, q = 2. Gamma(2): 5.25, 1.5, 1.5. Uniform: 64/45, 2/3, 4/3."""
    assert EdgeFluctuation(100, None, weights=weights).kappa == pytest.approx(kappa, rel=1e-12)


def test_kappa_is_the_fluctuation_of_a_rows_length():
    """Plain sampling of normalised lognormal rows, n = 400: relative variance of |row|^2 times n, less 2, within 6 %."""
    generator, n = np.random.default_rng(3), 400
    a = np.exp(0.3 * generator.standard_normal((20_000, n)))
    rows = np.sum((n * a / a.sum(1, keepdims=True) - 1) ** 2, axis=1)
    assert n * rows.var() / rows.mean() ** 2 == pytest.approx(2 + EdgeFluctuation(n, 0.3).kappa, rel=0.06)


def test_small_beta_has_gaussian_rows():
    """beta -> 0: y = (a - 1)/beta has kurtosis 3 + 16 beta^2 and skewness 3 beta, the normaliser moves by beta y/n:

    Var(y^2 - 2 beta y) = 2 + 16 beta^2 - 12 beta^2 + 4 beta^2.
    """
    assert EdgeFluctuation(100, 0.01).kappa == pytest.approx(8 * 1e-4, rel=1e-3)


def test_the_units_are_those_of_the_quarter_circle():
    """Centre -> 4 sigma^2 and scale -> 2^(4/3) sigma^2 n^(-2/3) as n grows (width theory: 2 sigma, .630)."""
    edge = EdgeFluctuation(10**6, None, weights="exponential")
    assert edge.scaling.centre == pytest.approx(4, rel=1e-5)
    assert edge.scaling.scale == pytest.approx(2 ** (4 / 3) * 1e-4, rel=1e-4)


def test_sampled_edges_have_the_corrected_mean_and_not_the_plain_one():
    """Exponential weights, n = 64, 1200 matrices by NumPy: error .045 of the mean, theory -.41, without correction -1.21.

    Tolerance .24 (the band) + 4 errors; the plain mean is 17 errors away.
    """
    generator, n = np.random.default_rng(8), 64
    a = generator.exponential(size=(1200, n, n))
    A = a / a.sum(-1, keepdims=True)
    top = np.linalg.norm(A - A.mean(1, keepdims=True), ord=2, axis=(1, 2))
    edge = EdgeFluctuation(n, None, weights="exponential")
    xi = edge.scaling.standardise(n * top**2)
    predicted = edge_predictions(edge)["edge_coordinate"]
    error = xi.std() / math.sqrt(xi.size)
    assert predicted.band[0] - 4 * error <= xi.mean() <= predicted.band[1] + 4 * error
    assert abs(xi.mean() - TracyWidom(beta=1).mean) > 10 * error


@pytest.mark.parametrize(
    "edge, words",
    [
        (EdgeFluctuation(32, 0.3), "n = 32"),
        (EdgeFluctuation(100, 1.0), "raise n"),
        (EdgeFluctuation(1024, 0.83, 64), "beta <= .6"),
    ],
)
def test_out_of_range_gives_no_number(edge, words):
    found = edge_predictions(edge)["edge_coordinate"]
    assert found.value is None and words in found.validity


def test_kappa_of_lognormal_weights_is_the_general_formula():
    """The delta method with moments e^(b k (k - 1)/2); and no cancellation at small beta, where kappa ~ 8 beta^2."""
    b = 0.25
    q, third, fourth = (math.exp(b * k * (k - 1) / 2) for k in (2, 3, 4))
    general = (fourth - q * q - 4 * q * (third - q) + 4 * q * q * (q - 1)) / (q - 1) ** 2 - 2
    assert EdgeFluctuation(300, 0.5).kappa == pytest.approx(general, rel=1e-9)
    assert EdgeFluctuation(300, 1e-4).kappa == pytest.approx(8e-8, rel=1e-3)
    assert EdgeFluctuation(300, 0.0).kappa == 0

"""Predictions of whole spectra: algebra between the numbers, range, and plain sampling with another code path."""

import numpy as np
import pytest

from rmt.statistics.distances import kolmogorov
from rmt.theorems.bulk import Bulk, bulk_predictions


def plain_spectrum(generator, n, beta, head_dim=None):
    """sqrt(n) (I - J) A by NumPy alone, its exact zero left out."""
    if head_dim is None:
        logits = beta * generator.standard_normal((n, n))
    else:
        Q, K = generator.standard_normal((2, n, head_dim))
        logits = beta * Q @ K.T / np.sqrt(head_dim)
    weights = np.exp(logits)
    A = weights / weights.sum(1, keepdims=True)
    return np.sqrt(n) * np.linalg.svd(A - A.mean(0), compute_uv=False)[:-1]


@pytest.mark.parametrize("beta, head_dim", [(0.5, None), (0.83, None), (0.5, 64), (0.83, 64), (1.0, 32)])
def test_spectra_lie_within_the_stated_distance(beta, head_dim):
    """Plain sampling, n = 400: the mean distance of 3 draws (sd of one .005) stays below .03."""
    generator = np.random.default_rng(11)
    bulk = Bulk(400, beta, head_dim)
    assert bulk.limits() is None
    found = [kolmogorov(plain_spectrum(generator, 400, beta, head_dim), bulk.law) for _ in range(3)]
    assert np.mean(found) < bulk.distance == 0.03


def test_the_quarter_circle_is_far_from_key_query_spectra():
    """Negative control: ten times the tolerated distance."""
    bulk = Bulk(400, 0.83, 64)
    assert kolmogorov(plain_spectrum(np.random.default_rng(12), 400, 0.83, 64), bulk.rival) > 10 * 0.02


def test_deciles_and_bands_come_from_one_law():
    found = bulk_predictions(Bulk(1024, 0.83, 64))
    law = Bulk(1024, 0.83, 64).law
    for tenth, decile in found["decile"].items():
        assert law.cdf(decile.value) == pytest.approx(tenth / 10, abs=1e-6)
        assert law.cdf(decile.band[1]) - law.cdf(decile.band[0]) == pytest.approx(0.03, abs=1e-6)
    assert found["mean_square"].value == pytest.approx(law.moment(2))
    assert found["leading_value"][1].value > found["leading_value"][8].value


@pytest.mark.slow
@pytest.mark.parametrize("n, beta", [(300, 0.3), (300, 0.83), (500, 0.83)])
def test_causal_spectra_lie_within_the_stated_distance(n, beta):
    """Plain sampling, iid: mean of 3 draws (sd of one .002); the law itself is tested with its equations."""
    generator = np.random.default_rng(13)
    bulk = Bulk(n, beta, mask="causal")
    weights = np.tril(np.exp(beta * generator.standard_normal((3, n, n))))
    spectra = np.linalg.svd(weights / weights.sum(-1, keepdims=True), compute_uv=False)
    assert np.mean(kolmogorov(spectra, bulk.law)) < bulk.distance == (0.03 if n < 500 else 0.02)
    found = bulk_predictions(bulk)
    assert found["mean_square"].value == pytest.approx(np.mean(spectra**2), rel=0.04)
    assert found["leading_value"][1].value == pytest.approx(np.median(spectra[:, 0]), rel=0.05)


@pytest.mark.parametrize("weights, variance", [("uniform", 1 / 3), ("exponential", 1.0), ("gamma", 0.5)])
def test_light_weights_have_their_own_variance(weights, variance):
    """Closed forms as n grows: 1/3, 1 and 1/2."""
    found = bulk_predictions(Bulk(10**6, None, weights=weights))
    assert found["mean_square"].value == pytest.approx(variance, rel=1e-5)


@pytest.mark.parametrize(
    "bulk, words",
    [
        (Bulk(128, 0.5), "n = 128"),
        (Bulk(1024, 0.5, 8), "ladder"),
        (Bulk(1024, 2.0, 64), "single large entries"),
        (Bulk(1024, 1.5), "lower beta"),
        (Bulk(1024, 1.0, 64, mask="causal"), "up to .85"),
        (Bulk(1024, 0.5, 16, mask="causal"), "head_dim >= 32"),
    ],
)
def test_out_of_range_gives_no_number(bulk, words):
    found = bulk_predictions(bulk)
    assert found["mean_square"].value is None and words in found["mean_square"].validity
    assert all(decile.value is None for decile in found["decile"].values())

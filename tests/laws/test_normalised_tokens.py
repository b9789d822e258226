"""The covariance of normalised tokens: closed forms and sampled tokens."""

import math

import numpy as np
import pytest

from rmt.laws.normalised_tokens import normalised_covariance, sphere_dimension


def test_the_trace_is_the_width_and_isotropic_tokens_stay_so():
    """Closed form: every token has length sqrt(d); without a preferred direction C = I."""
    assert normalised_covariance(3 * np.eye(7)) == pytest.approx(np.eye(7), abs=1e-12)
    assert np.trace(normalised_covariance(np.diag(1 / np.arange(1.0, 257)))) == pytest.approx(256, rel=1e-12)


def test_two_directions():
    """Closed form: E cos^2 = sqrt(a)/(sqrt(a) + sqrt(b)) for variances a, b; the empty third direction stays empty."""
    share = math.sqrt(3) / (1 + math.sqrt(3))
    assert normalised_covariance(np.diag([3.0, 1.0, 0.0])) == pytest.approx(
        3 * np.diag([share, 1 - share, 0]), abs=1e-12
    )


def test_sampled_tokens_have_this_covariance_and_not_the_one_before_the_norm():
    """Oracle: numpy, 2 10^5 tokens, rotated: standard error below .006 an entry, 5 of them allowed; control: the rescaled C."""
    generator = np.random.default_rng(4)
    rotation = np.linalg.qr(generator.standard_normal((5, 5)))[0]
    covariance = rotation * np.array([8.0, 4.0, 2.0, 1.0, 0.5]) @ rotation.T
    tokens = generator.multivariate_normal(np.zeros(5), covariance, size=200_000)
    tokens *= math.sqrt(5) / np.linalg.norm(tokens, axis=1, keepdims=True)
    sampled = tokens.T @ tokens / len(tokens)
    assert np.abs(sampled - normalised_covariance(covariance)).max() < 0.03
    assert np.abs(sampled - covariance * 5 / np.trace(covariance)).max() > 0.2


def test_the_sphere_counts_dimensions_unless_they_are_few():
    centre = np.eye(64) - 1 / 64
    assert sphere_dimension(centre, 16) == pytest.approx(63)
    assert sphere_dimension(centre, 60) is None


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="rank below 2"):
        normalised_covariance(np.diag([1.0, 0.0]))

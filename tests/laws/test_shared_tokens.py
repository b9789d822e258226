"""The law for shared tokens: identities of its parts, the independent limit, samples and the published table."""

import math

import numpy as np
import pytest

from rmt.laws.harmonics import harmonics
from rmt.laws.keyquery import KeyQueryLaw
from rmt.laws.shared_tokens import SharedTokensLaw, _energies, _features, degree_weights
from rmt.laws.token_scales import Scales, scales_of, typical_scales


def distance(law, values):
    return np.abs(law.cdf(values) - (np.arange(values.size) + 0.5) / values.size).max()


def draw(n, width, head_dim, beta, *, norm=True, power=0.0, seed=0):
    """Centred singular values over tokens of spectrum k^-power, and the scales of the drawn weights."""
    generator = np.random.default_rng([seed, n, width, head_dim, int(10 * beta), int(10 * power)])
    spectrum = np.arange(1, width + 1.0) ** -power
    spectrum *= width / spectrum.sum()
    queries, keys = generator.standard_normal((2, width, head_dim)) / math.sqrt(width)
    tokens = generator.standard_normal((n, width)) * np.sqrt(spectrum)
    sphere, covariance = None, np.diag(spectrum)
    if norm:
        tokens -= tokens.mean(axis=1, keepdims=True)
        tokens /= tokens.std(axis=1, keepdims=True)
        centre = np.eye(width) - 1 / width
        covariance = centre @ covariance @ centre
        covariance *= width / np.trace(covariance)
        sphere = np.trace(covariance) ** 2 / np.sum(covariance**2)
        sphere = sphere if sphere > head_dim + 5 else None
    logits = beta / math.sqrt(head_dim) * (tokens @ queries) @ (tokens @ keys).T
    A = np.exp(logits - logits.max(axis=1, keepdims=True))
    A /= A.sum(axis=1, keepdims=True)
    values = np.sort(np.linalg.svd(A - A.mean(axis=0), compute_uv=False)) * math.sqrt(n)
    return values, scales_of(queries, keys, covariance=covariance, sphere=sphere)


@pytest.mark.parametrize("sphere", [None, 40.0])
def test_degrees_add_up_to_the_variance_of_the_exponential(sphere):
    weights, total = degree_weights(np.array([0.3, 1.0]), sphere, degrees=25)
    assert weights.sum(axis=0) == pytest.approx(total, rel=1e-10)


def test_degree_one_on_a_sphere_by_monte_carlo():
    """Oracle: 10^5 points of the sphere in 20 dimensions; the share of degree one to 3 %."""
    points = np.random.default_rng(3).standard_normal((100_000, 20))
    t = points[:, 0] / np.linalg.norm(points, axis=1) * math.sqrt(20)
    f = np.exp(0.9 * t)
    f /= f.mean()
    share = np.mean(f * t) ** 2  # t has variance one and is the only harmonic of degree one along this direction
    assert degree_weights(np.array([0.81]), 20.0)[0][0, 0] == pytest.approx(share, rel=0.03)
    assert harmonics(1, 20.0) == 20


@pytest.mark.parametrize("sphere", [None, 63.0])
def test_tilted_energies_give_back_the_type(sphere):
    scales = typical_scales(64, 16, sphere=sphere)
    types = np.array([0.3, 1.0, 2.5])
    energy = _energies(scales, types)
    assert scales.squares @ energy / 16 == pytest.approx(types, rel=2e-3)
    assert energy[:, 1] == pytest.approx(np.ones(16), rel=2e-3)


def test_features_are_all_products_or_an_even_spread_of_them():
    assert len(_features(20, 2)) == math.comb(21, 2)
    many = _features(40, 3)
    assert many.shape == (3000, 3) and np.all(np.diff(many, axis=1) <= 0) and many.min() >= 0 and many.max() < 40
    scale = np.linspace(0, 1, 40)
    exact = np.mean([scale[a] * scale[b] * scale[c] for a in range(40) for b in range(a, 40) for c in range(b, 40)])
    assert scale[many].prod(axis=1).mean() == pytest.approx(exact, rel=0.02)


def test_equal_scales_are_independent_queries_and_keys():
    """One direction is like another: the law of KeyQueryLaw up to the form of its profiles (published: .005-.015)."""
    shared, independent = SharedTokensLaw(1500, 1.0, Scales(np.ones(64), 1.0)), KeyQueryLaw(1500, 64, 1.0)
    x = np.linspace(0.1, 6.0, 40)
    assert np.abs(shared.cdf(x) - independent.cdf(x)).max() < 0.015
    assert float(shared.top_value(1)) == pytest.approx(float(independent.top_value(1)), rel=0.03)


@pytest.mark.parametrize("norm", [True, False])
def test_a_sample_has_this_law_and_not_that_of_independent_tokens(norm):
    """Oracle: numpy, n = 600, d/d_k = 256/64, beta = 1: distance below .03 (measured .01); control: independent tokens."""
    values, scales = draw(600, 256, 64, 1.0, norm=norm)
    assert distance(SharedTokensLaw(600, 1.0, scales), values) < 0.03
    assert distance(KeyQueryLaw(600, 64, 1.0), values) > 0.03


def test_moments_and_mass_of_the_table():
    law = SharedTokensLaw(1000, 0.7, typical_scales(256, 64, sphere=255.0))
    assert law.law.table.mass == pytest.approx(1, abs=0.002)
    assert law.law.tabulated_moment(2) == pytest.approx(law.moment(2), rel=0.01)
    assert law.law.tabulated_moment(4) == pytest.approx(law.moment(4), rel=0.01)


def test_ranges_are_named():
    assert "effective dimension" in SharedTokensLaw(1000, 1.0, typical_scales(16, 16)).validity
    assert SharedTokensLaw(1000, 1.0, typical_scales(256, 64)).in_range


TABLE = [  # n, d, d_k, beta, norm, power, published distance, published largest values measured
    (1500, 256, 64, 1.0, True, 0.0, 0.0058, (8.76, 8.44, 7.09)),
    (1500, 256, 64, 0.5, True, 0.0, 0.0054, (4.28, 4.14, 3.47)),
    (1500, 128, 32, 1.0, True, 0.0, 0.0079, (12.23, 11.56, 8.52)),
    (1500, 512, 128, 1.0, True, 0.0, 0.0078, (6.61, 6.48, 5.69)),
    (1500, 64, 16, 0.5, True, 0.0, 0.0136, (7.63, 7.09, 4.42)),
    (1500, 256, 64, 1.0, False, 0.0, 0.0080, (8.82, 8.46, 7.26)),
    (1500, 256, 64, 0.7, False, 0.5, 0.0069, (7.22, 6.46, 5.01)),
    (1500, 256, 64, 0.7, False, 1.0, 0.0071, (14.16, 10.46, 4.97)),
    (1500, 256, 64, 1.0, True, 0.5, 0.0049, (10.27, 9.24, 7.18)),
]


@pytest.mark.slow
@pytest.mark.parametrize("n, width, head_dim, beta, norm, power, published, top", TABLE)
def test_published_table(n, width, head_dim, beta, norm, power, published, top):
    """Oracle: numpy, one draw. Distance within .012 of the published mean of draws, largest values within 8 %."""
    values, scales = draw(n, width, head_dim, beta, norm=norm, power=power)
    law = SharedTokensLaw(n, beta, scales)
    assert distance(law, values) < published + 0.012
    assert law.top_value([1, 2, 8]) == pytest.approx(values[[-1, -2, -8]], rel=0.08)
    assert values[[-1, -2, -8]] == pytest.approx(top, rel=0.15)

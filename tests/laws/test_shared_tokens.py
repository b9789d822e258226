"""The law for shared tokens: identities of its parts, the independent limit, samples and the published table."""

import math

import numpy as np
import pytest

from rmt.laws.harmonics import harmonics
from rmt.laws.keyquery import KeyQueryLaw
from rmt.laws.normalised_tokens import normalised_covariance, sphere_dimension
from rmt.laws.piece_law import PieceLaw
from rmt.laws.shared_tokens import SharedTokensLaw, _features, conditional_energies, degree_weights, shared_pieces
from rmt.laws.token_scales import Scales, scales_of, typical_scales
from rmt.laws.types import chi_square_types
from tests.laws.drawn_attention import centred_values, distance, layer_normalised, softmax


def draw(n, width, head_dim, beta, *, norm=True, power=0.0, seed=0):
    """Centred singular values over tokens of spectrum k^-power, and the scales of the drawn weights."""
    generator = np.random.default_rng([seed, n, width, head_dim, int(10 * beta), int(10 * power)])
    spectrum = np.arange(1, width + 1.0) ** -power
    spectrum *= width / spectrum.sum()
    queries, keys = generator.standard_normal((2, width, head_dim)) / math.sqrt(width)
    tokens = generator.standard_normal((n, width)) * np.sqrt(spectrum)
    sphere, covariance = None, np.diag(spectrum)
    if norm:
        tokens = layer_normalised(tokens)
        centre = np.eye(width) - 1 / width
        covariance = normalised_covariance(centre @ covariance @ centre)
        sphere = sphere_dimension(covariance, head_dim)
    logits = beta / math.sqrt(head_dim) * (tokens @ queries) @ (tokens @ keys).T
    return centred_values(softmax(logits)), scales_of(queries, keys, covariance=covariance, sphere=sphere)


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
    energy = conditional_energies(scales, types)
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


# n, d, d_k, beta, layer norm, power of the spectrum of the tokens; published distances of the law, of the law without tilt
# (which gives the largest values) and of independent tokens; largest values measured and predicted.
TABLE = [
    (1500, 256, 64, 1.0, True, 0.0, (0.0058, 0.009, 0.055), (8.76, 8.44, 7.09), (8.67, 8.33, 7.07)),
    (1500, 256, 64, 0.5, True, 0.0, (0.0054, 0.009, 0.067), (4.28, 4.14, 3.47), (4.26, 4.08, 3.45)),
    (1500, 128, 32, 1.0, True, 0.0, (0.0079, 0.026, 0.055), (12.23, 11.56, 8.52), (11.76, 11.11, 8.46)),
    (1500, 128, 32, 0.5, True, 0.0, (0.0080, 0.018, 0.069), (6.03, 5.58, 4.22), (5.94, 5.54, 4.15)),
    (1500, 512, 128, 1.0, True, 0.0, (0.0078, 0.009, 0.034), (6.61, 6.48, 5.69), (6.58, 6.37, 5.69)),
    (1500, 64, 16, 1.0, True, 0.0, (0.0200, 0.082, 0.101), (16.30, 14.28, 8.79), (15.31, 13.78, 8.52)),
    (1500, 64, 16, 0.5, True, 0.0, (0.0136, 0.042, 0.091), (7.63, 7.09, 4.42), (7.62, 6.93, 4.35)),
    (1500, 64, 64, 0.5, True, 0.0, (0.0164, 0.051, 0.226), (5.91, 5.51, 4.06), (5.90, 5.49, 4.07)),
    (3000, 256, 64, 1.0, True, 0.0, (0.0044, 0.009, 0.054), (12.27, 11.77, 9.92), (12.05, 11.68, 9.83)),
    (3000, 768, 64, 1.0, True, 0.0, (0.0037, 0.007, 0.027), (10.47, 10.06, 8.90), (10.25, 9.99, 8.88)),
    (1500, 768, 64, 0.5, True, 0.0, (0.0062, 0.008, 0.027), (3.61, 3.51, 3.16), (3.64, 3.54, 3.17)),
    (1500, 256, 64, 1.0, False, 0.0, (0.0080, 0.012, 0.056), (8.82, 8.46, 7.26), (8.79, 8.40, 7.12)),
    (1500, 256, 64, 0.7, False, 0.5, (0.0069, 0.012, 0.092), (7.22, 6.46, 5.01), (7.07, 6.36, 5.03)),
    (1500, 256, 64, 1.0, False, 0.5, (0.0070, 0.014, 0.081), (10.70, 9.77, 7.29), (10.58, 9.55, 7.25)),
    (1500, 256, 64, 0.7, False, 1.0, (0.0071, 0.129, 0.231), (14.16, 10.46, 4.97), (14.19, 10.47, 5.11)),
    (1500, 256, 64, 1.0, False, 1.0, (0.0202, 0.138, 0.230), (20.99, 15.70, 8.10), (18.58, 14.61, 8.32)),
    (1500, 256, 64, 1.0, True, 0.5, (0.0049, 0.013, 0.078), (10.27, 9.24, 7.18), (10.26, 9.28, 7.25)),
    (1500, 256, 64, 0.7, True, 1.0, (0.0308, 0.140, 0.220), (11.99, 9.26, 4.81), (12.97, 9.79, 4.88)),
    (1500, 768, 64, 0.7, True, 1.0, (0.0309, 0.112, 0.159), (11.54, 8.78, 4.91), (12.29, 9.01, 4.95)),
]


def plain(n, beta, scales):
    """The law without tilt and without heavy entries: published as a lesser version."""
    types = chi_square_types(scales.effective_dimension, n)
    return PieceLaw(shared_pieces(n, beta, scales, types, types, tilted=False, heavy=False), n)


@pytest.mark.slow
@pytest.mark.parametrize("n, width, head_dim, beta, norm, power, published, measured, predicted", TABLE)
def test_published_table(n, width, head_dim, beta, norm, power, published, measured, predicted):
    """Oracle: numpy, three draws, one for n = 3000. Distance at most .015 as stated, .03 where few directions carry the logits
    (d_k = 16, spectrum 1/k) or d = d_k.

    Published distances within .01, few directions .015 (they scatter between weights); those of the two lesser laws, which are
    controls, within .01 or 30 %, few directions .04. Largest values (medians: at beta = 1 a draw may have a single entry
    outside the bulk) 8 %, published ones 15 %, as weights differ. Two exceptions. The spectrum 1/k at beta = 1 is out of
    range, d_e = 10: distance .02 to .036, largest value 6 to 12 % low. Layer norm of the spectrum 1/k was published with
    the covariance before the norm, .031 and 8 % high; that of the normalised tokens halves it, hence one-sided.
    """
    few, out_of_range = head_dim == 16 or power == 1, not norm and power == 1 and beta == 1
    independent = plain(n, beta, Scales(np.ones(head_dim), 1.0))
    rows = []
    for seed in range(3 if n <= 1500 else 1):
        values, scales = draw(n, width, head_dim, beta, norm=norm, power=power, seed=seed)
        law = SharedTokensLaw(n, beta, scales)
        assert law.in_range or few
        distances = [distance(one, values) for one in (law, plain(n, beta, scales), independent)]
        rows.append([*distances, *law.top_value([1, 2, 8]) / values[[-1, -2, -8]], *values[[-1, -2, -8]]])
    found, ratios, largest = np.mean(rows, axis=0)[:3], *np.split(np.median(rows, axis=0)[3:], 2)
    assert found[0] < (0.04 if out_of_range else 0.03 if few or width < 4 * head_dim else 0.015)
    if norm and power == 1:
        assert found[0] < 0.7 * published[0]
    else:
        assert found[0] == pytest.approx(published[0], abs=0.015 if few else 0.01)
        assert found[1:] == pytest.approx(published[1:], rel=0.3, abs=0.04 if few else 0.01)
    assert ratios == pytest.approx(np.ones(3), abs=0.12 if out_of_range else 0.08)
    assert largest == pytest.approx(measured, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("width, head_dim, rise", [(256, 64, 0.01), (64, 16, 0.06)])
def test_typical_scales_instead_of_the_drawn_ones_cost_little(width, head_dim, rise):
    """Oracle: numpy, three draws of weights, beta = 1, layer norm: published .000 to .008 more, up to .06 at d_k = 16."""
    typical = SharedTokensLaw(1500, 1.0, typical_scales(width, head_dim, sphere=width - 1.0))
    for seed in range(3):
        values, scales = draw(1500, width, head_dim, 1.0, seed=seed)
        assert distance(typical, values) - distance(SharedTokensLaw(1500, 1.0, scales), values) < rise

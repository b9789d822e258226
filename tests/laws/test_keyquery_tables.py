"""The typed key-query law against published tables: closed limits fast, whole spectra as slow checks."""

import math
import time

import numpy as np
import pytest
from scipy import special

from rmt.laws.harmonics import monomials
from rmt.laws.hermite import HermiteLaw
from rmt.laws.keyquery import KeyQueryLaw, independent_pieces
from rmt.laws.piece_law import PieceLaw
from rmt.laws.pieces import Pieces, cauchy, edge
from rmt.laws.shared_tokens import SharedTokensLaw
from rmt.laws.token_scales import Scales
from tests.laws.drawn_attention import centred_values, distance, softmax


def one_type(beta, ratio):
    """One linear degree of rank ratio n, the rest noise."""
    variances = np.array([[beta**2], [math.expm1(beta**2) - beta**2]])
    one = np.ones(1)
    return Pieces(variances, np.ones((2, 1)), np.array([ratio, np.inf]), one, one)


def centred(n, head_dim, beta, seed):
    generator = np.random.default_rng([seed, n, head_dim, int(1000 * beta)])
    q, k = generator.standard_normal((2, n, head_dim))
    return centred_values(softmax(beta / math.sqrt(head_dim) * q @ k.T))


def test_one_type_and_one_degree_is_the_linear_model():
    """Closed form, n = d_k: edge 3.0017 at beta = 1; beta -> 0: edge^2/beta^2 -> 27/4."""
    assert edge(one_type(1.0, 1.0)) == pytest.approx(3.0017, abs=2e-4)
    assert edge(one_type(0.01, 1.0)) ** 2 / 1e-4 == pytest.approx(6.7506, abs=2e-3)


@pytest.mark.parametrize("ratio, beta, published", [(1, 0.5, 1.338), (4, 0.5, 1.785), (1, 1.0, 3.002), (4, 1.0, 3.783)])
def test_published_edges_of_the_proportional_regime(ratio, beta, published):
    """Published, queries and keys orthogonal-invariant, n/d_k = ratio, to all digits."""
    assert edge(one_type(beta, 1 / ratio)) == pytest.approx(published, abs=6e-4)


def test_the_linear_model_solves_its_published_quartic():
    """Closed form: alpha^2 c b z^2 m^4 + c b z^2 m^3 - [(1 - c) b + alpha^2] z m^2 - z m - 1 = 0, b = beta^2, m of s^2."""
    beta, c = 0.8, 4.0
    b, alpha = beta**2, math.expm1(beta**2) - beta**2
    w = np.array([0.5 + 0.2j, 2.0 + 0.5j, 6.0 + 1.0j])
    root = np.sqrt(w)
    m = -cauchy(one_type(beta, 1 / c), root, tolerance=1e-10) / root  # E 1/(s^2 - w)
    left = alpha * c * b * w**2 * m**4 + c * b * w**2 * m**3 - ((1 - c) * b + alpha) * w * m**2 - w * m - 1
    assert np.abs(left) == pytest.approx(np.zeros(3), abs=1e-6)


@pytest.mark.parametrize(
    "head_dim, beta, published, measured",
    [
        (64, 1.0, 30.3, 30.7),
        (64, 0.5, 1.629, 1.614),
        (32, 1.0, 56.0, 56.5),
        (32, 0.5, 3.10, 3.10),
        (128, 1.0, 17.9, 18.1),
    ],
)
def test_published_fourth_moments(head_dim, beta, published, measured):
    """Published at n = 1500 without the heavy-entry correction: to the digits; what was measured within 2 %."""
    moment = independent_pieces(1500, head_dim, beta, heavy=False).fourth_moment
    assert moment == pytest.approx(published, rel=0.003)
    assert moment == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize(
    "n, head_dim, beta, published",
    [
        (500, 16, 1.0, 0.3204),
        (2000, 16, 1.0, 0.2835),
        (2000, 64, 1.0, 0.1601),
        (2000, 64, 0.5, 0.0790),
        (2000, 8, 0.5, 0.1929),
    ],
)
def test_published_edges_of_all_degrees_without_types(n, head_dim, beta, published):
    law = HermiteLaw(n, math.expm1(beta**2), beta, head_dim)
    assert math.sqrt(law.edge().square / n) == pytest.approx(published, rel=2e-3)


@pytest.mark.parametrize("n, published", [(10**3, 0.1764), (10**4, 0.1399), (10**5, 0.1295), (10**6, 0.1264)])
def test_published_saturation_of_the_linear_model(n, published):
    """d_k = 64, beta = 1: the second value in the proportional law, towards .1255."""
    assert edge(one_type(1.0, 64 / n)) / math.sqrt(n) == pytest.approx(published, abs=1.5e-4)


# n, d_k, beta; distance to simulated spectra of the law, without heavy entries, of the simpler profiles (b r)^l/l! of
# `SharedTokensLaw`, of one type; largest values (1st, 2nd, 8th) measured and predicted; edge. All published.
TABLE = [
    (1500, 128, 1.0, (0.0081, 0.0124, 0.0124, 0.044), (5.05, 5.01, 4.75), (5.06, 4.99, 4.73), 5.12),
    (1500, 128, 0.5, (0.0040, 0.0048, 0.0043, 0.021), (2.43, 2.42, 2.29), (2.44, 2.41, 2.28), 2.48),
    (1500, 64, 1.0, (0.0061, 0.0105, 0.0101, 0.068), (6.39, 6.28, 5.92), (6.43, 6.32, 5.92), 6.52),
    (1500, 64, 0.5, (0.0065, 0.0068, 0.0077, 0.033), (3.11, 3.06, 2.87), (3.14, 3.08, 2.89), 3.18),
    (1500, 32, 1.0, (0.0065, 0.0083, 0.0085, 0.127), (8.41, 8.19, 7.61), (8.45, 8.27, 7.61), 8.59),
    (1500, 32, 0.5, (0.0041, 0.0047, 0.0094, 0.086), (4.12, 4.03, 3.73), (4.13, 4.04, 3.73), 4.19),
    (1500, 16, 1.0, (0.0217, 0.0164, 0.0165, 0.215), (11.26, 11.07, 9.89), (11.43, 11.10, 9.92), 11.69),
    (1500, 16, 0.5, (0.0097, 0.0094, 0.0168, 0.150), (5.52, 5.46, 4.88), (5.55, 5.39, 4.86), 5.63),
    (3000, 128, 1.0, (0.0062, 0.0085, 0.0084, 0.040), (6.50, 6.40, 6.09), (6.43, 6.36, 6.11), 6.48),
    (3000, 64, 1.0, (0.0044, 0.0074, 0.0072, 0.067), (8.34, 8.23, 7.94), (8.41, 8.30, 7.91), 8.48),
    (3000, 64, 0.5, (0.0028, 0.0031, 0.0068, 0.033), (4.16, 4.10, 3.84), (4.14, 4.09, 3.90), 4.17),
    (3000, 32, 1.0, (0.0110, 0.0041, 0.0091, 0.133), (11.11, 11.07, 10.40), (11.30, 11.10, 10.46), 11.40),
    (3000, 32, 0.5, (0.0022, 0.0031, 0.0141, 0.095), (5.63, 5.53, 5.17), (5.57, 5.48, 5.15), 5.60),
    (3000, 16, 1.0, (0.0201, 0.0163, 0.0149, 0.249), (15.38, 15.00, 14.16), (15.44, 15.12, 13.95), 15.72),
    (4096, 64, 1.0, (0.0040, 0.0051, 0.0047, 0.069), (9.52, 9.44, 9.08), (9.55, 9.44, 9.06), 9.62),
    (4096, 128, 0.5, (0.0023, 0.0028, 0.0046, 0.019), (3.53, 3.50, 3.40), (3.57, 3.53, 3.40), 3.57),
]
BEYOND = [  # n, d_k, beta; published distances of the law, without heavy entries, of one type
    (300, 64, 1.0, (0.018, 0.027, 0.082)),
    (300, 32, 0.5, (0.014, 0.013, 0.064)),
    (600, 64, 1.0, (0.010, 0.014, 0.071)),
    (1000, 1000, 1.0, (0.006, 0.010, 0.015)),
    (1000, 256, 1.0, (0.005, 0.010, 0.025)),
    (1500, 64, 0.833, (0.006, 0.007, 0.051)),
    (1500, 64, 1.25, (0.008, 0.015, 0.099)),
    (1500, 64, 1.5, (0.006, 0.015, 0.142)),
    (1500, 32, 1.5, (0.020, 0.012, 0.21)),
    (1500, 8, 0.7, (0.033, 0.032, 0.41)),
    (1500, 8, 1.0, (0.037, 0.034, 0.44)),
]


def candidates(n, head_dim, beta):
    """The law and its three lesser versions."""
    degrees = np.arange(1, 5)
    plain = beta ** (2 * degrees) / special.factorial(degrees)
    untyped = np.append(plain, math.expm1(beta**2) - plain.sum())[:, None]
    ranks = np.append([monomials(degree, head_dim) / n for degree in degrees], np.inf)
    return (
        KeyQueryLaw(n, head_dim, beta),
        PieceLaw(independent_pieces(n, head_dim, beta, heavy=False), n),
        SharedTokensLaw(n, beta, Scales(np.ones(head_dim), 1.0)),
        PieceLaw(Pieces(untyped, np.ones((5, 1)), ranks, np.ones(1), np.ones(1)), n),
    )


def draws(n, head_dim, beta):
    return [centred(n, head_dim, beta, seed) for seed in range(3 if n <= 1500 else 1)]


@pytest.mark.parametrize("n, head_dim, beta, distances, measured, predicted, edge", TABLE)
def test_published_largest_values(n, head_dim, beta, distances, measured, predicted, edge):
    """Deterministic: published predictions and edges within 1 %, what was measured within the stated 3 %."""
    law = KeyQueryLaw(n, head_dim, beta)
    assert [*law.top_value([1, 2, 8]), law.edge] == pytest.approx([*predicted, edge], rel=0.01)
    assert law.top_value([1, 2, 8]) == pytest.approx(measured, rel=0.03)


def gaussian_pieces(pieces, n, generator):
    """Singular values of a sum of Gaussian matrices with the row and column types of `pieces`, without any softmax."""
    rows = np.searchsorted(np.cumsum(pieces.row_weights)[:-1], (np.arange(n) + 0.5) / n)
    columns = generator.permutation(np.searchsorted(np.cumsum(pieces.column_weights)[:-1], (np.arange(n) + 0.5) / n))
    total = np.zeros((n, n))
    for f, g, share in zip(pieces.row_profiles, pieces.column_profiles, pieces.ranks, strict=True):
        rank = round(share * n) if share < 10 else 0
        if rank:
            left, right = generator.standard_normal((2, n, rank))
            part = left @ right.T / math.sqrt(n * rank)
        else:  # of so high a rank that entries are independent
            part = generator.standard_normal((n, n)) / math.sqrt(n)
        total += np.sqrt(f[rows])[:, None] * part * np.sqrt(g[columns])
    return np.sort(np.linalg.svd(total, compute_uv=False))


@pytest.mark.parametrize("n", [500, pytest.param(1500, marks=pytest.mark.slow)])
def test_gaussian_pieces_with_these_types_have_the_law(n):
    """Oracle: numpy, two matrices, d_k = 64, beta = 1: distance at most the published .004 at n = 1500, 6/n (measured 3/n).

    The equations are solved right; what distances to attention remain are of the model. Control: without types 20/n or more.
    """
    pieces = independent_pieces(n, 64, 1.0, heavy=False)
    law = PieceLaw(pieces, n)
    generator = np.random.default_rng(n)
    spectra = [gaussian_pieces(pieces, n, generator) for _ in range(2)]
    assert np.mean([distance(law, values) for values in spectra]) < 6 / n
    untyped = candidates(n, 64, 1.0)[-1]
    assert np.mean([distance(untyped, values) for values in spectra]) > 20 / n


@pytest.mark.slow
@pytest.mark.parametrize("n, head_dim, beta, published, measured, predicted, edge", TABLE)
def test_published_table(n, head_dim, beta, published, measured, predicted, edge):
    """Oracle: numpy, three draws, one for n > 1500. Distance at most .015, .03 for d_k = 16; the published columns within .01.

    The scale of a draw scatters by 1 %, its distance by .003 at most: .01 is two and a half standard errors of a difference;
    a law wrong by 4 % in scale is found. Five largest values (median of the draws, one in ten of which has a single entry
    outside the bulk) 3 %, 5 % for single draws and d_k = 16. Control: one type.
    """
    spectra, laws = draws(n, head_dim, beta), candidates(n, head_dim, beta)
    found = [np.mean([distance(law, values) for values in spectra]) for law in laws]
    assert found[0] < (0.03 if head_dim == 16 else 0.015)
    assert found[:3] == pytest.approx(published[:3], abs=0.01)
    assert found[3] == pytest.approx(published[3], rel=0.15, abs=0.01)
    largest = np.median([values[::-1][:5] for values in spectra], axis=0)
    tolerance = 0.05 if head_dim == 16 or len(spectra) == 1 else 0.03
    assert laws[0].top_value(np.arange(1, 6)) == pytest.approx(largest, rel=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("n, head_dim, beta, published", BEYOND)
def test_published_distances_outside_the_target_range(n, head_dim, beta, published):
    """Oracle: numpy, three draws; published distances within .01, for n = 300 within .015. Beyond the range the law says so."""
    law, light, _, untyped = candidates(n, head_dim, beta)
    spectra = draws(n, head_dim, beta)
    found = [np.mean([distance(one, values) for values in spectra]) for one in (law, light, untyped)]
    assert found[:2] == pytest.approx(published[:2], abs=0.015 if n == 300 else 0.01)
    assert found[2] == pytest.approx(published[2], rel=0.15, abs=0.01)
    assert law.in_range == (head_dim >= 16)


@pytest.mark.slow
def test_the_standard_head_meets_the_stated_distance_and_time():
    """n = 1500, d_k = 64, beta = 1: distance at most .015, where a quarter circle has .26; half a second a law."""
    values = centred(1500, 64, 1.0, 99)
    empirical = (np.arange(1500) + 0.5) / 1500
    times = []
    for _ in range(3):
        start = time.process_time()
        law = KeyQueryLaw(1500, 64, 1.0)
        law.cdf(values)
        times.append(time.process_time() - start)
    assert np.abs(law.cdf(values) - empirical).max() <= 0.015
    assert min(times) <= 0.5
    t = np.clip(values / math.sqrt(math.expm1(1.0)), 0, 2)
    quarter_circle = (t * np.sqrt(4 - t**2) / 2 + 2 * np.arcsin(t / 2)) / math.pi
    assert np.abs(quarter_circle - empirical).max() > 0.2


def test_moments_of_the_table_are_the_closed_ones():
    law = PieceLaw(one_type(0.8, 0.25), 1000)
    assert law.table.mass == pytest.approx(1, abs=0.002)
    assert [law.tabulated_moment(2), law.tabulated_moment(4)] == pytest.approx([law.moment(2), law.moment(4)], rel=0.01)

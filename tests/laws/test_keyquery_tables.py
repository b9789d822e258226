"""The typed key-query law against published tables: closed limits fast, whole spectra as slow checks."""

import math
import time

import numpy as np
import pytest

from rmt.laws.hermite import HermiteLaw
from rmt.laws.keyquery import KeyQueryLaw, independent_pieces
from rmt.laws.piece_law import PieceLaw
from rmt.laws.pieces import Pieces, cauchy, edge


def one_type(beta, ratio):
    """One linear degree of rank ratio n, the rest noise."""
    variances = np.array([[beta**2], [math.expm1(beta**2) - beta**2]])
    one = np.ones(1)
    return Pieces(variances, np.ones((2, 1)), np.array([ratio, np.inf]), one, one)


def centred(n, head_dim, beta, seed):
    generator = np.random.default_rng([seed, n, head_dim, int(1000 * beta)])
    q, k = generator.standard_normal((2, n, head_dim))
    A = np.exp(beta / math.sqrt(head_dim) * q @ k.T)
    A /= A.sum(axis=1, keepdims=True)
    return np.sort(np.linalg.svd(A - A.mean(axis=0), compute_uv=False)) * math.sqrt(n)


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
    "head_dim, beta, published", [(64, 1.0, 30.3), (64, 0.5, 1.629), (32, 1.0, 56.0), (32, 0.5, 3.10), (128, 1.0, 17.9)]
)
def test_published_fourth_moments(head_dim, beta, published):
    """Published at n = 1500 without the heavy-entry correction, within 2 %."""
    assert independent_pieces(1500, head_dim, beta, heavy=False).fourth_moment == pytest.approx(published, rel=0.02)


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


TABLE = [  # n, d_k, beta, published distance, published largest values (1st, 2nd, 8th)
    (1500, 128, 1.0, 0.0081, (5.05, 5.01, 4.75)),
    (1500, 128, 0.5, 0.0040, (2.43, 2.42, 2.29)),
    (1500, 64, 1.0, 0.0061, (6.39, 6.28, 5.92)),
    (1500, 64, 0.5, 0.0065, (3.11, 3.06, 2.87)),
    (1500, 32, 1.0, 0.0065, (8.41, 8.19, 7.61)),
    (1500, 32, 0.5, 0.0041, (4.12, 4.03, 3.73)),
    (1500, 16, 1.0, 0.0217, (11.26, 11.07, 9.89)),
    (1500, 16, 0.5, 0.0097, (5.52, 5.46, 4.88)),
    (3000, 64, 1.0, 0.0044, (8.34, 8.23, 7.94)),
    (4096, 64, 1.0, 0.0040, (9.52, 9.44, 9.08)),
]


@pytest.mark.slow
@pytest.mark.parametrize("n, head_dim, beta, published, top", TABLE)
def test_published_table(n, head_dim, beta, published, top):
    """Oracle: numpy, one draw (two at n = 1500): distance within .008 of the published mean; largest values within 3 %."""
    law = KeyQueryLaw(n, head_dim, beta)
    draws = [centred(n, head_dim, beta, seed) for seed in range(2 if n <= 1500 else 1)]
    empirical = (np.arange(n) + 0.5) / n
    distances = [np.abs(law.cdf(values) - empirical).max() for values in draws]
    assert np.mean(distances) < published + 0.008
    assert law.top_value([1, 2, 8]) == pytest.approx(top, rel=0.03)
    largest = np.mean([values[::-1][:5] for values in draws], axis=0)
    assert law.top_value(np.arange(1, 6)) == pytest.approx(largest, rel=0.03)


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

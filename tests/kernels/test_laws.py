"""The drawn variates have their laws. Fixed words; each assertion has false-alarm rate 1e-6 over a choice of words.

Detectable effects (power 1/2 or more): 0.25 % in the standard deviation of the normals, 1.2 % by Kolmogorov's distance,
a quarter in the mass beyond 4.5, correlations of 0.0024.
"""

import numpy as np
import pytest
from scipy import special, stats

from rmt.kernels import cpu

FALSE_ALARM = 1e-6
SIGMAS = special.ndtri(1 - FALSE_ALARM / 2)
WORDS = (20, 26, 11, 30)
MOMENTS = {1: 0, 2: 1, 3: 0, 4: 3, 6: 15}
VARIANCES = {1: 1, 2: 2, 3: 15, 4: 96, 6: 10170}  # of z^k: (2k-1)!! - (E z^k)^2
CDFS = {
    "lognormal": special.ndtr,
    "exponential": lambda x: -np.expm1(-x),
    "uniform": lambda x: x,
    "gamma": lambda x: 1 - (1 + x) * np.exp(-x),
}


@pytest.fixture(scope="module")
def normals():
    return cpu.variates(WORDS, 0, 4096, 1024)


def moments_agree(z):
    z = z.astype(float).ravel()
    return all(abs(np.mean(z**k) - MOMENTS[k]) < SIGMAS * np.sqrt(VARIANCES[k] / z.size) for k in MOMENTS)


def kolmogorov_agrees(x, cdf):
    """Dvoretzky, Kiefer, Wolfowitz with Massart's constant: exact bound on the false-alarm rate."""
    values = cdf(np.sort(x.astype(float), axis=None))
    steps = np.arange(values.size + 1) / values.size
    distance = max(np.max(steps[1:] - values), np.max(values - steps[:-1]))
    return distance < np.sqrt(np.log(2 / FALSE_ALARM) / (2 * values.size))


def uncorrelated(x, y):
    """x and y, and their squares, each of mean zero once centred, are uncorrelated (normal approximation)."""
    x, y = x.astype(float), y.astype(float)
    plain = abs(np.mean(x * y)) < SIGMAS / np.sqrt(x.size)
    squares = abs(np.mean((x**2 - 1) * (y**2 - 1))) < SIGMAS * 2 / np.sqrt(x.size)
    return plain and squares


def test_moments_of_the_normals(normals):
    assert moments_agree(normals)
    assert not moments_agree(1.005 * normals)
    assert not moments_agree(normals + 0.005)


@pytest.mark.parametrize("law", CDFS)
def test_distribution(law):
    x = cpu.variates(WORDS, 0, 2048, 1024, law=law)
    assert kolmogorov_agrees(x, CDFS[law])
    assert not kolmogorov_agrees(1.03 * x, CDFS[law])


def test_tail_of_the_normals():
    """Of 2^26 normals, those beyond 4.5 in modulus are binomial of mean 456."""
    p, count, drawn = 2 * special.ndtr(-4.5), 0, 0
    wider = 0
    for start in range(0, 65536, 4096):
        z = np.abs(cpu.variates(WORDS, start, start + 4096, 1024))
        count, wider, drawn = count + np.sum(z > 4.5), wider + np.sum(z > 4.5 / 1.05), drawn + z.size
    low, high = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], drawn, p)
    assert low <= count <= high
    assert not low <= wider <= high


@pytest.mark.parametrize("offset", [1, 15, 16, 32, 48, 64], ids=lambda k: f"{k} columns on")
def test_columns_are_independent(normals, offset):
    """16, 32 and 48 columns on lie the other results of the same Philox block."""
    assert uncorrelated(normals[:, offset:], normals[:, :-offset])


def test_rows_draws_names_and_keys_are_independent(normals):
    assert uncorrelated(normals[1:], normals[:-1])
    for other in ((21, 26, 11, 30), (20, 27, 11, 30), (20, 26, 12, 30), (20, 26, 11, 31)):
        assert uncorrelated(normals, cpu.variates(other, 0, 4096, 1024))


def test_independence_check_sees_what_it_should(normals):
    other = cpu.variates((0, 0, 0, 0), 0, 4096, 1024)
    assert not uncorrelated(normals, normals * 0.005 + other)
    assert not uncorrelated(normals, other * np.where(np.abs(normals) > 1, 1.005, 1 - 0.0023).astype(np.float32))

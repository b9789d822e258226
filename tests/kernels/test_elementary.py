"""Polynomials and Box-Muller against float64 libm: deterministic, over the whole range that can occur."""

import numpy as np
import pytest

from rmt.kernels import reference
from rmt.kernels.rows import LARGEST_NORMAL

WORDS = np.random.default_rng(1).integers(0, 2**32, (2, 200_000), dtype=np.uint32)
SMALL = np.stack([np.arange(4096, dtype=np.uint32), np.arange(4096, dtype=np.uint32) << np.uint32(20)])


def exact_uniform(x, y):
    return (x * 2.0**8 + (y & 255) + 0.5) * 2.0**-40


def test_log_is_right_to_two_ulp():
    u = np.concatenate([np.geomspace(2.0**-41, 1, 100_001), 1 - np.arange(1, 2000) * 2.0**-24]).astype(np.float32)
    exact = np.log(u.astype(np.float64))
    error = np.abs(reference.log(u) - exact)
    assert np.all(error <= 2.0**-22 * np.abs(exact) + 1e-12)
    assert reference.log(np.ones(1, np.float32))[0] == 0


@pytest.mark.parametrize(("dtype", "end", "ulp"), [(np.float32, 87.0, 2.0**-23), (np.float64, 700.0, 2.0**-51)])
def test_exp(dtype, end, ulp):
    x = np.linspace(-end, end, 100_001).astype(dtype)
    np.testing.assert_allclose(reference.exp(x), np.exp(x.astype(np.float64)), rtol=2 * ulp)
    assert reference.exp(np.zeros(1, dtype))[0] == 1
    beyond = reference.exp(np.array([-1e4, -end], dtype))
    assert 0 < beyond[0] == beyond[1]


def test_uniform_resolves_the_forty_bits_of_the_tail():
    u = reference.uniform(*SMALL)
    np.testing.assert_allclose(u, exact_uniform(*SMALL.astype(np.int64)), rtol=2.0**-23)
    assert u.min() == np.float32(2.0**-41)
    everywhere = reference.uniform(*WORDS)
    assert 0 < everywhere.min() and everywhere.max() <= 1


def test_normal_pair_is_box_muller():
    for x, y in (WORDS, SMALL):
        first, second = reference.normal_pair(x, y)
        radius = np.sqrt(-2 * np.log(exact_uniform(x.astype(np.int64), y.astype(np.int64))))
        turn = (y >> 30) * 0.25 + (((y >> 8) & 0x3FFFFF) + 0.5) * 2.0**-24 - 0.125
        near_one = 2.0**-22 / np.maximum(radius, 1e-3)  # there u has 24 bits, and r^2 = -2 ln u an error of 2^-24
        assert np.all(np.abs(second - radius * np.sin(2 * np.pi * turn)) <= 2e-6 + near_one)
        assert np.all(np.abs(first - radius * np.cos(2 * np.pi * turn)) <= 2e-6 + near_one)


def test_largest_normal_reaches_what_a_million_rows_need():
    """Among 10^12 normals the largest is near 7.1; a radius uniform of 24 bits would end at 5.77, one of 32 at 6.66."""
    x, y = np.zeros(2, np.uint32), np.array([0, 1 << 29], np.uint32)
    largest = np.hypot(*reference.normal_pair(x, y)).max()
    assert 7.5 < largest <= LARGEST_NORMAL

"""Causal averages: closed forms against dense singular values."""

import math

import numpy as np
import pytest

from rmt.laws.averages import (
    bessel_ladder,
    cesaro_singular_values,
    ladder_values,
    rungs_above,
    sink_ladder,
    terraced_singular_values,
)


def average(heights, decay=1.0):
    i = np.arange(heights.size)
    lag = np.maximum(i[:, None] - i, 0)
    return np.where(i[:, None] >= i, heights[:, None] * decay**lag, 0.0)


@pytest.mark.parametrize("kind", ["uniform", "sink", "linear bias"])
def test_values_are_those_of_the_dense_matrix(kind):
    """Oracle: numpy's dense singular values, n = 120."""
    i = np.arange(1, 121)
    heights, decay = {
        "uniform": (1 / i, 1.0),
        "sink": (1 / (i + 3.7), 1.0),
        "linear bias": ((1 - 0.9) / (1 - 0.9**i), 0.9),
    }[kind]
    dense = np.linalg.svd(average(heights, decay), compute_uv=False)
    assert terraced_singular_values(heights, 120, decay=decay) == pytest.approx(dense, rel=1e-10)


@pytest.mark.parametrize("n, published", [(64, 1.9e-3), (256, 3.4e-4), (1024, 6.5e-5), (4096, 1.4e-5)])
def test_the_quantisation_formula_is_as_accurate_as_stated(n, published):
    exact = terraced_singular_values(1 / np.arange(1, n + 1), 8)
    error = np.max(np.abs(ladder_values(math.log(n), 8) / exact - 1))
    assert 0.8 * published < error < 1.05 * published


def test_the_ladder_of_a_million_tokens():
    """Published: 1.8928 1.6417 1.3667 1.1318 .9481."""
    assert cesaro_singular_values(10**6, 5) == pytest.approx([1.8928, 1.6417, 1.3667, 1.1318, 0.9481], rel=3e-4)


def test_small_frequencies_follow_the_finite_section_of_hardys_inequality():
    """Closed form: w_k tends to k pi/(ln n + gamma + 6 ln 2), so 4 - s_1^2 tends to 16 pi^2/ln^2 n."""
    length = 2000.0
    w = np.sqrt(1 / ladder_values(length, 3) ** 2 - 0.25)
    assert w == pytest.approx(np.arange(1, 4) * math.pi / (length + np.euler_gamma + 6 * math.log(2)), rel=1e-4)


def test_rungs_are_counted_at_half_integers():
    assert [rungs_above(s, 9.0) for s in ladder_values(9.0, 4)] == pytest.approx([0.5, 1.5, 2.5, 3.5], abs=1e-9)
    with pytest.raises(ValueError, match="between 0 and 2"):
        rungs_above(2.1, 9.0)


def test_normalised_rows_turn_the_ladder_into_bessel_zeros():
    """Oracle: dense, n = 800; published ratio .4357."""
    i = np.arange(1, 801)
    dense = np.linalg.svd(average(1 / np.sqrt(i)), compute_uv=False)[:3] / math.sqrt(800)
    assert dense == pytest.approx(bessel_ladder(3), rel=0.02)
    ladder = bessel_ladder(2)
    assert ladder[1] / ladder[0] == pytest.approx(0.4357, abs=1e-4)


@pytest.mark.parametrize("weight, published", [(0.78, (1.633, 1.118, 0.795)), (15.7, (1.341, 0.757, 0.498))])
def test_a_sink_shortens_the_ladder(weight, published):
    """Published at n = 1000; oracle: the matrix itself, .2 %."""
    ladder = sink_ladder(1000, weight, 3)
    assert ladder == pytest.approx(published, rel=2e-3)
    assert ladder == pytest.approx(terraced_singular_values(1 / (np.arange(1, 1001) + weight), 3), rel=2e-3)


def test_heights_must_be_positive():
    with pytest.raises(ValueError, match="all > 0"):
        terraced_singular_values([1.0, 0.0], 1)

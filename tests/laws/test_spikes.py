"""Outliers against the published closed forms and against matrices, with the wrong bulk as a negative control."""

import numpy as np
import pytest

from rmt.laws.additive import free_sum
from rmt.laws.empirical import EmpiricalLaw
from rmt.laws.marchenko_pastur import MarchenkoPastur
from rmt.laws.semicircle import Semicircle
from rmt.laws.spikes import (
    additive_outliers,
    additive_thresholds,
    multiplicative_outliers,
    multiplicative_thresholds,
    singular_outlier,
    singular_threshold,
)


def test_spiked_wigner():
    """size + v/size with overlap 1 - v/size^2 above sqrt v (Peche 2006; Benaych-Georges and Nadakuditi 2011)."""
    law = Semicircle(4.0)
    assert additive_thresholds(law) == pytest.approx((-2.0, 2.0))
    for size in (3.0, -3.0, 2.001):
        (outlier,) = additive_outliers(law, size)
        assert outlier.location == pytest.approx(size + 4 / size, rel=1e-9)
        assert outlier.overlap == pytest.approx(1 - 4 / size**2, rel=1e-6)
    assert additive_outliers(law, 1.999) == []


@pytest.mark.parametrize("size", [2.0, 0.7, -0.8])
def test_spiked_covariance(size):
    """(1 + size)(1 + c/size), overlap (1 - c/size^2)/(1 + c/size), beyond +- sqrt c (Baik and Silverstein; Paul 2007)."""
    law, c = MarchenkoPastur(0.4), 0.4
    assert multiplicative_thresholds(law) == pytest.approx((-np.sqrt(c), np.sqrt(c)))
    (outlier,) = multiplicative_outliers(law, size)
    assert outlier.location == pytest.approx((1 + size) * (1 + c / size))
    assert outlier.overlap == pytest.approx((1 - c / size**2) / (1 + c / size))
    assert multiplicative_outliers(law, 0.6) == []


def test_spiked_rectangle():
    """Benaych-Georges and Nadakuditi 2012, section 3.1."""
    c, size = 0.4, 1.5
    law = MarchenkoPastur(c)
    assert singular_threshold(law, ratio=c) == pytest.approx(c**0.25)
    outlier = singular_outlier(law, size, ratio=c)
    assert outlier.location == pytest.approx(np.sqrt((1 + size**2) * (c + size**2)) / size)
    assert outlier.left_overlap == pytest.approx(1 - c * (1 + size**2) / (size**2 * (size**2 + c)))
    assert outlier.right_overlap == pytest.approx(1 - (c + size**2) / (size**2 * (size**2 + 1)))
    assert singular_outlier(law, 0.7, ratio=c) is None


def test_a_spike_in_an_inner_gap():
    """Two atoms: the secular equation by hand, the overlaps are those of a two-dimensional matrix and add up to one."""
    found = additive_outliers(EmpiricalLaw([-1.0, 1.0]), 0.5)
    assert [x.location for x in found] == pytest.approx(np.roots([1, -0.5, -1])[::-1])
    assert sum(x.overlap for x in found) == pytest.approx(1.0)


def test_matrices_show_these_outliers():
    """n = 900, one draw each. Fluctuations of location and overlap are of the order of n^(-1/2) = .033: bands of 5 of
    them or less (tolerances .12 and .1). Negative control: the semicircle of the same variance is .5 away.
    """
    rng = np.random.default_rng(20261130)
    n = 900
    g = rng.standard_normal((n, n))
    signs = np.sign(np.arange(n) - n / 2 + 0.5)
    bulk = np.diag(2 * signs) + (g + g.T) / np.sqrt(2 * n)
    u = rng.standard_normal(n)
    u /= np.linalg.norm(u)
    values, vectors = np.linalg.eigh(bulk + 4.0 * np.outer(u, u))
    law = free_sum(EmpiricalLaw([-2.0, 2.0]), Semicircle(1.0))
    top = additive_outliers(law, 4.0)[-1]
    assert values[-1] == pytest.approx(top.location, abs=0.12)
    assert (u @ vectors[:, -1]) ** 2 == pytest.approx(top.overlap, abs=0.1)
    (wrong,) = additive_outliers(Semicircle(1.0), 4.0)
    assert abs(wrong.location - top.location) > 0.5

    x = rng.standard_normal((n // 2, n)) / np.sqrt(n)
    scale = np.ones(n // 2)
    scale[0] = np.sqrt(1 + 3.0)
    left, s, right = np.linalg.svd(scale[:, None] * x, full_matrices=False)
    (top,) = multiplicative_outliers(MarchenkoPastur(0.5), 3.0)
    assert s[0] ** 2 == pytest.approx(top.location, abs=0.5)  # 4 sqrt(2/n) = .19 is one deviation
    assert left[0, 0] ** 2 == pytest.approx(top.overlap, abs=0.1)

    v = rng.standard_normal(n)
    v /= np.linalg.norm(v)
    left, s, right = np.linalg.svd(x + 2.0 * np.outer(np.eye(n // 2)[0], v), full_matrices=False)
    outlier = singular_outlier(MarchenkoPastur(0.5), 2.0, ratio=0.5)
    assert s[0] == pytest.approx(outlier.location, abs=0.12)
    assert left[0, 0] ** 2 == pytest.approx(outlier.left_overlap, abs=0.1)
    assert (right[0] @ v) ** 2 == pytest.approx(outlier.right_overlap, abs=0.1)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="size 0"):
        additive_outliers(Semicircle(1.0), 0)
    with pytest.raises(ValueError, match="size -2"):
        multiplicative_outliers(MarchenkoPastur(0.5), -2)
    with pytest.raises(ValueError, match=r"needs laws on \[0, inf\)"):
        multiplicative_outliers(Semicircle(1.0), 1.0)

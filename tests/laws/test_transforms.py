"""R-, S- and rectangular R-transforms: closed forms, and what free convolution does to them."""

import numpy as np
import pytest

from rmt.laws.additive import free_sum
from rmt.laws.empirical import EmpiricalLaw
from rmt.laws.fuss_catalan import FussCatalan
from rmt.laws.marchenko_pastur import MarchenkoPastur
from rmt.laws.multiplicative import free_product
from rmt.laws.powers import compression
from rmt.laws.rectangular import rectangular_free_sum
from rmt.laws.semicircle import Semicircle
from rmt.laws.transforms import r_transform, rectangular_r_transform, s_transform


def test_closed_forms():
    """R: v g, v/(1 - c v g), (sqrt(1 + 4 g^2) - 1)/(2 g); S: (1 + y)^-s, 1/(v (1 + c y)); C: v d."""
    g = np.array([-0.6, -1e-7, 0.0, 1e-9, 0.2, 0.6])
    assert r_transform(Semicircle(2.0), g) == pytest.approx(2 * g, rel=1e-9, abs=1e-14)
    assert r_transform(MarchenkoPastur(0.5, 2.0), g[:5]) == pytest.approx(2 / (1 - g[:5]), rel=1e-11)
    assert r_transform(EmpiricalLaw([-1.0, 1.0]), g) == pytest.approx(2 * g / (np.sqrt(1 + 4 * g**2) + 1), rel=1e-9)
    y = np.array([-0.9, -0.5, -1e-8, 0.0, 0.2])
    assert s_transform(FussCatalan(3), y) == pytest.approx((1 + y) ** -3, rel=1e-11)
    assert s_transform(MarchenkoPastur(0.5, 2.0), y) == pytest.approx(0.5 / (1 + 0.5 * y), rel=1e-11)
    d = np.array([0.0, 1e-8, 0.1, 0.5])
    assert rectangular_r_transform(MarchenkoPastur(0.3, 2.0), d, ratio=0.3) == pytest.approx(2 * d, rel=1e-11)


def test_out_of_range_is_nan():
    assert np.isnan(r_transform(Semicircle(1.0), [-1.1, 1.1])).all()
    assert np.isnan(s_transform(MarchenkoPastur(2.0), [-0.6, 5.0])).all()  # mass 1/2 at 0: y > -1/2
    assert np.isnan(rectangular_r_transform(MarchenkoPastur(0.3), [-0.1, 9.0], ratio=0.3)).all()


def test_r_adds():
    first, second = MarchenkoPastur(2.0), EmpiricalLaw([-1.0, 0.0, 2.0])
    g = np.linspace(-0.2, 0.15, 6)
    total = r_transform(free_sum(first, second), g)
    assert total == pytest.approx(r_transform(first, g) + r_transform(second, g), rel=1e-9)


def test_s_multiplies():
    first, second = MarchenkoPastur(0.5), EmpiricalLaw([1.0, 2.0, 5.0])
    y = np.linspace(-0.9, 0.3, 6)
    product = s_transform(free_product(first, second), y)
    assert product == pytest.approx(s_transform(first, y) * s_transform(second, y), rel=1e-9)


def test_rectangular_r_adds():
    first, second = MarchenkoPastur(0.5), EmpiricalLaw([1.0, 2.0, 5.0])
    d = np.linspace(0, 0.1, 5)
    total = rectangular_r_transform(rectangular_free_sum(first, second, ratio=0.7), d, ratio=0.7)
    parts = [rectangular_r_transform(law, d, ratio=0.7) for law in (first, second)]
    assert total == pytest.approx(sum(parts), rel=1e-9)


def test_r_of_a_corner():
    """R of the corner at g is R at fraction g (Nica and Speicher 1996)."""
    law, g = MarchenkoPastur(0.5), np.array([-0.8, 0.1, 0.2])
    assert r_transform(compression(law, 0.3), g) == pytest.approx(r_transform(law, 0.3 * g), rel=1e-10)

"""Edges of W + shift I against closed forms, the published table and sampled matrices."""

import math

import numpy as np
import pytest

from rmt.laws.shifted_gaussian import ShiftedGaussian, shift_for


def test_without_a_shift_the_edges_are_those_of_marchenko_pastur():
    low, high = ShiftedGaussian(shift=0.0, ratio=0.25, scale=2.0).edges
    assert (low, high) == pytest.approx((1.0, 3.0))
    assert ShiftedGaussian(shift=1e-6, ratio=0.25, scale=2.0).edges == pytest.approx((1.0, 3.0), rel=1e-9)


def test_published_condition_numbers_of_a_square_matrix():
    t = [1.25, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 20]
    table = [23.6, 9.98, 4.77, 3.33, 2.67, 2.06, 1.78, 1.50, 1.33, 1.15]
    found = [ShiftedGaussian(shift).condition_number for shift in t]
    assert [float(f"{k:.3g}") for k in found] == table


@pytest.mark.parametrize(
    "shape, table",
    [
        ((768, 64), [1.81, 1.79, 1.67, 1.53, 1.42, 1.29, 1.17, 1.08]),
        ((512, 128), [3.00, 2.94, 2.58, 2.16, 1.88, 1.56, 1.32, 1.15]),
        ((256, 128), [5.83, 5.65, 4.52, 3.28, 2.57, 1.92, 1.49, 1.22]),
    ],
)
def test_published_condition_numbers_of_rectangular_matrices(shape, table):
    found = [ShiftedGaussian(t, shape[1] / shape[0]).condition_number for t in (0, 0.5, 1, 1.5, 2, 3, 5, 10)]
    assert found == pytest.approx(table, abs=0.0051)


def test_square_matrices_have_a_transition_at_shift_equal_to_scale():
    assert ShiftedGaussian(0.999, scale=1.0).condition_number == math.inf
    assert 1e3 < ShiftedGaussian(1.01, scale=1.0).condition_number < 1e5
    # the closed form continues the general one
    assert ShiftedGaussian(1.5, 1 - 1e-9).edges == pytest.approx(ShiftedGaussian(1.5).edges, rel=1e-6)


def test_published_inverse_and_round_trip():
    assert [round(shift_for(k), 3) for k in (10, 5, 2)] == [1.499, 1.952, 4.167]
    for ratio in (0.1, 0.6, 1.0):
        shift = shift_for(1.3, ratio=ratio, scale=0.5)
        assert ShiftedGaussian(shift, ratio, 0.5).condition_number == pytest.approx(1.3, rel=1e-10)
    assert shift_for(5.0, ratio=0.1) == 0.0


def test_matrices_have_these_edges():
    """One 600 x 300 matrix with shift 1.5: extreme singular values within 6 %.

    The Tracy-Widom shift and spread at an edge are of the order of n^(-2/3) = 2.2 % each (mean -1.2, deviation 1.3 of it).
    """
    generator = np.random.default_rng(20261130)
    w = generator.standard_normal((600, 300)) / math.sqrt(600) + 1.5 * np.eye(600, 300)
    values = np.linalg.svd(w, compute_uv=False)
    low, high = ShiftedGaussian(1.5, 0.5).edges
    assert (values[-1], values[0]) == pytest.approx((low, high), rel=0.06)
    wrong_low, _ = ShiftedGaussian(1.5, 0.8).edges  # negative control
    assert values[-1] != pytest.approx(wrong_low, rel=0.06)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="ratio 2: must be in"):
        ShiftedGaussian(1.0, ratio=2)
    with pytest.raises(ValueError, match="shift -1"):
        ShiftedGaussian(-1)
    with pytest.raises(ValueError, match="must be > 1"):
        shift_for(1.0)

"""Extreme singular values without the whole spectrum, against LAPACK's."""

import numpy as np
import pytest

from rmt.observables.extremes import extreme_singular_values


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (40, 60), (600, 1000), (1000, 600)])
@pytest.mark.parametrize("spike", [0.0, 5.0])
def test_extremes_are_those_of_lapack(shape, spike):
    """Independent oracle, relative 1e-7: bulk alone, and with a rank-one piece above it."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal(shape) + spike
    expected = np.linalg.svd(Z, compute_uv=False)
    found = extreme_singular_values(Z)
    assert found.largest == pytest.approx(expected[0], rel=1e-7)
    assert found.smallest == pytest.approx(expected[-1], rel=1e-7)
    assert found.second == (pytest.approx(expected[1], rel=1e-7) if len(expected) > 1 else 0)


@pytest.mark.parametrize("smallest", [1e-3, 1e-7, 0.0])
def test_a_badly_conditioned_matrix_goes_the_long_way(smallest):
    """Prescribed spectrum; absolute 1e-14 of the largest where the value itself is lost."""
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.standard_normal((520, 520)))[0] for _ in range(2))
    values = np.append(np.linspace(1, 0.1, 519), smallest)
    found = extreme_singular_values((left * values) @ right)
    assert found.smallest == pytest.approx(smallest, rel=1e-6, abs=1e-14)
    assert found.largest == pytest.approx(1, rel=1e-10)

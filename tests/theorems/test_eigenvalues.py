"""The edge of real Ginibre matrices against sampling, and what is said of attention."""

import itertools

import numpy as np
import pytest

from rmt.theorems.eigenvalues import eigenvalue_predictions, largest_modulus
from rmt.theorems.layer import Layer


def test_the_largest_modulus_is_that_of_sampled_matrices():
    """Oracle: 300 real 64 x 64 Gaussian matrices, median +- 0.003; without the edge (1.0) it would be 14 errors off."""
    rng = np.random.default_rng(20261130)
    moduli = [np.abs(np.linalg.eigvals(rng.standard_normal((64, 64)))).max() / 8 for _ in range(300)]
    assert np.median(moduli) == pytest.approx(largest_modulus(64), abs=0.0165)
    assert abs(np.median(moduli) - 1) > 0.03


def test_it_falls_to_the_radius():
    """Rider and Sinclair: 1 + sqrt(gamma/(4 n)), gamma = ln n - 2 ln ln n - ln 2 pi, to leading order."""
    sizes = [10**k for k in (2, 3, 4, 5, 6)]
    values = [largest_modulus(n) for n in sizes]
    assert all(a > b > 1 for a, b in itertools.pairwise(values))
    n = 10**6
    gamma = np.log(n) - 2 * np.log(np.log(n)) - np.log(2 * np.pi)
    assert values[-1] - 1 == pytest.approx(np.sqrt(gamma / (4 * n)), rel=0.2)


def test_before_and_after_removal():
    kept, removed = (eigenvalue_predictions(Layer(1000, 0.5, 64), removed=r) for r in (False, True))
    assert kept["top_eigenvalue_modulus"].value == 1
    assert removed["top_eigenvalue_modulus"].value == kept["second_eigenvalue_modulus"].value < 0.02
    assert eigenvalue_predictions(Layer(50, 0.5), removed=True)["top_eigenvalue_modulus"].value is None


def test_the_largest_modulus_of_any_size_takes_no_memory():
    assert 1 < largest_modulus(10**30) < 1 + 1e-5

"""Eigenvalues of small matrices in closed form, of triangular ones from their diagonal, and Brauer's theorem."""

import numpy as np
import pytest

from rmt.observables.eigenvalues import eigenvalues, second_eigenvalue_modulus


def test_a_circulant_matrix():
    """Closed form: the discrete Fourier transform of the first row."""
    row = np.array([0.4, 0.3, 0.2, 0.1])
    A = np.stack([np.roll(row, shift) for shift in range(4)])
    exact = np.fft.fft(row)
    found = eigenvalues(A)
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(exact), atol=1e-14)
    assert found[0] == pytest.approx(1) and second_eigenvalue_modulus(found) == pytest.approx(abs(0.2 + 0.2j))


def test_triangular_matrices_are_read_off():
    """The eigenvalue solver would lose these: a causal uniform matrix of size 200 is far from normal."""
    n = 200
    C = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    np.testing.assert_array_equal(eigenvalues(C), 1 / np.arange(1, n + 1))


def test_removal_puts_zero_in_the_place_of_one_and_moves_no_other():
    rng = np.random.default_rng(0)
    A = np.exp(rng.standard_normal((60, 60)))
    A /= A.sum(axis=1, keepdims=True)
    before, after = eigenvalues(A), eigenvalues(A - 1 / 60)
    assert before[0] == pytest.approx(1)
    expected = np.sort_complex(np.append(before[1:], 0))
    np.testing.assert_allclose(np.sort_complex(after), expected, atol=1e-12)


def test_one_token_and_misfits():
    assert np.isnan(second_eigenvalue_modulus(eigenvalues(np.ones((1, 1)))))
    with pytest.raises(ValueError, match="one finite square matrix"):
        eigenvalues(np.ones((2, 3)))

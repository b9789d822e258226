"""The Gram path with its bounds, and its fall-back, against LAPACK and constructed spectra."""

import numpy as np
import pytest
import scipy.linalg

from rmt.ensembles.markov import MarkovAttention
from rmt.linalg.full_spectrum import singular_values
from rmt.streams import stream


@pytest.mark.parametrize("n", [64, 500])
@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_attention_spectra_agree_with_lapack_within_the_stated_bounds(n, beta):
    A = MarkovAttention(n, beta).matrix(stream(1)).dense().astype(float)
    found = singular_values(A)
    exact = scipy.linalg.svdvals(A)
    error = np.abs(found.values - exact)
    assert error.max() <= 1e-9 * exact[1]
    assert np.all(error <= found.error_bound + 1e-14)


def test_a_spectrum_that_the_gram_matrix_cannot_resolve_falls_back():
    """Singular values down to 1e-12: squaring loses them, the SVD does not."""
    generator = np.random.default_rng(0)
    left, right = (np.linalg.qr(generator.standard_normal((60, 60)))[0] for _ in "lr")
    values = np.geomspace(1, 1e-12, 60)
    found = singular_values(left @ np.diag(values) @ right.T)
    assert found.method == "svd"
    assert found.values == pytest.approx(values, abs=1e-14)


def test_rectangles_zeros_and_single_entries():
    assert singular_values(np.zeros((5, 5))).values == pytest.approx(np.zeros(5))
    assert singular_values(np.array([[3.0]])).values == pytest.approx([3.0])
    A = np.random.default_rng(1).standard_normal((30, 50))
    assert singular_values(A).values == pytest.approx(scipy.linalg.svdvals(A), rel=1e-12)


def test_nan_and_stacks_are_refused():
    with pytest.raises(ValueError, match="finite"):
        singular_values(np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match="one draw at a time"):
        singular_values(np.zeros((2, 3, 3)))

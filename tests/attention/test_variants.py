"""Variants: the closed forms on operators are the dense ones."""

import numpy as np
import pytest

from rmt.attention.variants import VARIANTS, variant
from rmt.ensembles.markov import MarkovAttention
from rmt.streams import stream


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("n", [1, 2, 40])
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_closed_forms_are_the_dense_ones(name, n, beta):
    matrix = MarkovAttention(n, beta).matrix(stream(2), dtype=np.float64)
    A = matrix.dense()
    B = variant(name).alter(A)
    operator = variant(name).operate(matrix)
    generator = np.random.default_rng(0)
    v, V = generator.standard_normal(n), generator.standard_normal((n, 3))
    assert operator.gram_product(v) == pytest.approx(B.T @ (B @ v), abs=1e-12)
    assert operator.gram_product(V) == pytest.approx(B.T @ (B @ V), abs=1e-12)
    assert operator.apply(V) == pytest.approx(B @ V, abs=1e-12)
    assert operator.column_sums == pytest.approx(B.sum(axis=0), abs=1e-12)
    assert operator.frobenius_norm_squared == pytest.approx(np.sum(B**2), abs=1e-12)


def test_removal_takes_the_outlier_away():
    """Singular values of A - J: no value near 1 is left, and the rest interlaces (Weyl)."""
    A = MarkovAttention(300, 0.5).matrix(stream(3)).dense().astype(float)
    before, after = (np.linalg.svd(B, compute_uv=False) for B in (A, variant("outlier_removed").alter(A)))
    assert before[0] > 1 and after[0] < 0.1
    assert np.all(after[1:] <= before[:-1] + 1e-12)


def test_an_unknown_variant_names_the_known_ones():
    with pytest.raises(ValueError, match="plain, outlier_removed"):
        variant("magic")

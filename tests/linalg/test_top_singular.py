"""Certified top singular values against constructed spectra, LAPACK and a probe that hides a value."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.ensembles.attention import KeyQueryAttention
from rmt.ensembles.markov import MarkovAttention
from rmt.linalg.inertia import certify_by_count, count_above
from rmt.linalg.top_singular import top_singular_values
from rmt.streams import stream


def with_values(values, generator):
    """A matrix with these singular values, and its right singular vectors."""
    n = len(values)
    left, right = (np.linalg.qr(generator.standard_normal((n, n)))[0] for _ in "lr")
    return left @ np.diag(values) @ right.T, right


def gram_of(A):
    return lambda v: A.T @ (A @ v)


@given(st.lists(st.integers(0, 10**4), min_size=1, max_size=60, unique=True), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_constructed_values_come_back(values, seed):
    """Hypothesis: any spectrum of different values. The probe is normal, so no false alarm is expected."""
    values = np.sort(np.array(values) / 10**4)[::-1]
    generator = np.random.default_rng(seed)
    A, _ = with_values(values, generator)
    found = top_singular_values(gram_of(A), len(values), probe=generator.standard_normal(len(values)))
    assert found.values == pytest.approx(values[:2], rel=1e-5, abs=5e-7)
    assert found.converged


@pytest.mark.parametrize(
    "ensemble",
    [MarkovAttention(700, 0.5), MarkovAttention(700, 1.0), KeyQueryAttention(700, 64, 1.0)],
    ids=["iid-0.5", "iid-1", "keyquery-1"],
)
def test_attention_matrices_agree_with_lapack_to_1e_6(ensemble):
    """Oracle: scipy svdvals in float64; the inertia count agrees with the bound on what was missed."""
    matrix = ensemble.matrix(stream(0))
    probe = np.random.default_rng(0).standard_normal((700, 1))
    found = top_singular_values(matrix.gram_product, 700, probe=probe, start=matrix.column_sums)
    exact = scipy.linalg.svdvals(np.asarray(matrix.dense(), dtype=float))[:2]
    assert found.values == pytest.approx(exact, rel=1e-6)
    assert exact[1] < found.missed_above < 1.5 * exact[1]
    assert count_above(matrix.dense(), found.missed_above) == 1
    assert certify_by_count(found, matrix.dense()).failure_probability == 0


def test_a_probe_that_hides_a_value_is_exposed():
    """Failure injection: the probe has no part along the second singular vector, so the third is taken for it."""
    generator = np.random.default_rng(3)
    A, right = with_values(np.concatenate([[1.0, 0.5], np.linspace(0.3, 0.0, 198)]), generator)
    probe = generator.standard_normal(200)
    probe -= right[:, 1] * (right[:, 1] @ probe)
    found = top_singular_values(gram_of(A), 200, probe=probe, start=right[:, 0], max_products=12, tolerance=1e-2)
    assert found.values[1] < 0.31
    with pytest.raises(ArithmeticError, match="only 1 were found"):
        certify_by_count(found, A)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_and_zero_matrices(n):
    probe = np.random.default_rng(n).standard_normal(n)
    assert top_singular_values(lambda v: 0 * v, n, probe=probe).values == pytest.approx([0, 0][:n])
    assert top_singular_values(lambda v: v, n, probe=probe).values == pytest.approx([1, 1][:n])


@pytest.mark.parametrize("level, count", [(0.05, 10), (0.35, 7), (0.95, 1), (1.5, 0)])
def test_inertia_counts_constructed_values(level, count):
    A, _ = with_values(np.linspace(1.0, 0.1, 10), np.random.default_rng(7))
    assert count_above(A, level) == count

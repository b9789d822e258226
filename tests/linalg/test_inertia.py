"""Sylvester counts against prescribed spectra and LAPACK."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.linalg.inertia import count_above
from tests.linalg.matrices import cesaro, cesaro_values, with_values


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 40), rows=st.integers(1, 40), seed=st.integers(0, 2**31), share=st.floats(0.05, 0.95))
def test_counts_like_lapack(n, rows, seed, share):
    A = np.random.default_rng(seed).standard_normal((rows, n))
    values = scipy.linalg.svdvals(A)
    level = share * values[0]
    if np.min(np.abs(values - level)) > 1e-9 * values[0]:
        assert count_above(A, level) == np.sum(values > level)


def test_counts_between_any_two_prescribed_values():
    values = np.geomspace(1, 1e-3, 20)
    A = with_values(values, np.random.default_rng(0))
    levels = np.sqrt(values[:-1] * values[1:])
    assert [count_above(A, level) for level in levels] == list(range(1, 20))


def test_cesaro():
    values = cesaro_values(200)
    assert count_above(cesaro(200), 1.0) == np.sum(values > 1.0)


def test_bad_level():
    with pytest.raises(ValueError, match="level >= 0"):
        count_above(np.eye(3), -1.0)

"""Certified top singular values against closed forms, an independent dense SVD (LAPACK gesdd), and prescribed spectra."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.linalg.inertia import certify_by_count
from rmt.linalg.top_singular import top_singular_values
from tests.linalg.matrices import causal, cesaro, cesaro_values, gram, key_query, lognormal, with_values


def solve(A, rng, width=1, **options):
    start = A.sum(axis=0, dtype=np.float64)
    return top_singular_values(
        gram(A), A.shape[1], probe=rng.standard_normal((A.shape[1], width)), start=start, **options
    )


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("n", [256, 1024])
@pytest.mark.parametrize(
    "make",
    [
        lambda n, rng: lognormal(n, 0.5, rng),
        lambda n, rng: lognormal(n, 0.8326, rng),
        lambda n, rng: lognormal(n, 1.0, rng),
        lambda n, rng: key_query(n, 64, 1.0, rng),
        lambda n, rng: causal(n, 0.5, rng),
    ],
    ids=["iid .5", "iid .83", "iid 1", "key-query", "causal"],
)
def test_agrees_with_a_dense_svd(make, n, width):
    """Oracle: LAPACK. Measured s1 error <= 6e-8 (float32 products), s2 error <= 5.4e-7, at the default tolerance."""
    rng = np.random.default_rng([n, width])
    A = make(n, rng)
    found = solve(A, rng, width)
    exact = scipy.linalg.svdvals(A.astype(np.float64))[:2]
    assert found.converged and found.products <= (60 if width == 1 else 160)
    np.testing.assert_allclose(found.values, exact, rtol=1e-6)
    assert np.all(found.lower <= exact) and np.all(exact <= found.upper)
    assert exact[1] <= found.missed_above <= 2 * exact[1]
    assert np.all((found.upper - found.lower)[1] <= 2e-3 * exact[1])


def test_agrees_at_2048():
    rng = np.random.default_rng(7)
    A = lognormal(2048, 0.5, rng)
    found = certify_by_count(solve(A, rng), A)
    assert found.failure_probability == 0 and "exactly 1" in found.certificate
    exact = scipy.linalg.eigvalsh(A.T.astype(np.float64) @ A.astype(np.float64), subset_by_index=[2046, 2047])
    np.testing.assert_allclose(found.values, np.sqrt(exact[::-1]), rtol=1e-6)


@pytest.mark.parametrize("n", [100, 1000])
def test_cesaro_ladder(n):
    """Closed form: no single value leads, so nothing here relies on a large gap."""
    found = solve(cesaro(n), np.random.default_rng(n), count=5)
    np.testing.assert_allclose(found.values, cesaro_values(n)[:5], rtol=1e-6)


def test_values_are_lower_bounds_and_blocks_resolve_multiplicity():
    """Prescribed spectrum with a triple second value, which a single start vector cannot see more than once."""
    rng = np.random.default_rng(3)
    values = np.concatenate([[1.0, 0.5, 0.5, 0.5], np.linspace(0.3, 0.01, 96)])
    A = with_values(values, rng)
    found = solve(A, rng, width=4, count=4)
    np.testing.assert_allclose(found.values, values[:4], rtol=1e-6)
    assert np.all(found.values <= values[:4] * (1 + 1e-12))


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("n", [33, 40, 200])
@pytest.mark.parametrize("kind", ["zero", "uniform", "permutation", "rank two", "one entry"])
def test_degenerate_matrices(kind, n, width):
    """Breakdown of the recurrence: closed forms."""
    rng = np.random.default_rng(n)
    u = np.ones(n) / np.sqrt(n)
    v = np.zeros(n)
    v[:2] = 0.5**0.5, -(0.5**0.5)
    A, exact = {
        "zero": (np.zeros((n, n)), (0, 0, 0)),
        "uniform": (np.full((n, n), 1 / n), (1, 0, 0)),
        "permutation": (np.eye(n)[rng.permutation(n)], (1, 1, 1)),
        "rank two": (np.outer(u, u) + 0.25 * np.outer(v, v), (1, 0.25, 0)),
        "one entry": (np.outer(np.eye(n)[0], np.eye(n)[5]), (1, 0, 0)),
    }[kind]
    found = solve(A, rng, width, count=3)
    np.testing.assert_allclose(found.values, exact, atol=1e-7)
    assert found.converged and np.all(np.isfinite(found.upper)) and np.isfinite(found.missed_above)
    assert found.missed_above >= exact[2]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_small_sizes_give_every_value(n, count):
    rng = np.random.default_rng(n)
    A = rng.standard_normal((n, n))
    found = solve(A, rng, count=count)
    np.testing.assert_allclose(found.values, scipy.linalg.svdvals(A)[:count], rtol=1e-7)
    assert found.values.shape == (min(n, count),)
    zero = solve(np.zeros((n, n)), rng, count=count)
    assert not zero.values.any() and zero.missed_above == 0


@settings(max_examples=25, deadline=None)
@given(n=st.integers(34, 90), count=st.integers(1, 5), width=st.integers(1, 4), seed=st.integers(0, 2**31))
def test_intervals_hold_singular_values(n, count, width, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n)) * np.exp(rng.standard_normal(n))
    found = solve(A, rng, width, count=count)
    exact = scipy.linalg.svdvals(A)
    for lower, upper in zip(found.lower, found.upper, strict=True):
        assert np.any((exact >= lower * (1 - 1e-12)) & (exact <= upper * (1 + 1e-12)))
    np.testing.assert_allclose(found.values, exact[:count], rtol=1e-5)


def test_limit_is_said_and_the_interval_stays_honest():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 400))
    found = solve(A, rng, max_products=20)
    assert not found.converged and "NOT converged" in found.certificate
    exact = scipy.linalg.svdvals(A)
    assert found.values[0] <= exact[0] <= found.missed_above


def test_missed_tolerance_buys_a_tighter_bound():
    rng = np.random.default_rng(1)
    A = lognormal(512, 0.5, rng)
    loose, tight = solve(A, rng), solve(A, rng, missed_tolerance=0.005)
    assert tight.missed_above <= 1.005 * tight.values[1] < loose.missed_above
    assert tight.products > loose.products


# What the start can have missed.

SPECTRUM = np.concatenate([[1.0, 0.5], np.linspace(0.45, 0.01, 98)])


def diagonal(spectrum):
    return lambda V: (spectrum**2)[:, None] * V


def violations(scale, rng, draws=300, failure_probability=0.1):
    """How often the second value exceeds the level, the run being stopped long before it converges."""
    count = 0
    for _ in range(draws):
        probe = scale * rng.standard_normal((100, 1))
        found = top_singular_values(
            diagonal(SPECTRUM),
            100,
            probe=probe,
            start=np.eye(100)[0],
            max_products=17,
            failure_probability=failure_probability,
        )
        count += found.missed_above < SPECTRUM[1]
    return count


def test_level_is_exceeded_no_more_often_than_stated():
    """300 draws at probability 0.1: more than 57 by chance with probability 1e-6; a true rate of 0.3 passes with 1e-5."""
    limit = scipy.stats.binom.isf(1e-6, 300, 0.1)
    assert violations(1.0, np.random.default_rng(11)) <= limit


def test_negative_control_a_probe_that_is_too_small_breaks_the_bound():
    """The bound uses the law of the probe: N(0, 0.01^2) numbers posing as N(0, 1) must be caught by the same count."""
    limit = scipy.stats.binom.isf(1e-6, 300, 0.1)
    assert violations(0.01, np.random.default_rng(12)) > limit


def test_a_start_orthogonal_to_the_second_vector_is_exposed():
    """A start without any overlap sees s3 in place of s2. The probe, drawn independently, finds s2 all the same."""
    n, spectrum = 100, np.concatenate([[1.0, 0.6], np.linspace(0.3, 0.01, 98)])
    start = np.ones(n)
    start[1] = 0.0
    found = top_singular_values(
        diagonal(spectrum), n, probe=np.random.default_rng(0).standard_normal((n, 1)), start=start
    )
    np.testing.assert_allclose(found.values, [1.0, 0.6], rtol=1e-6)


def test_a_probe_with_little_overlap_is_covered_by_the_level():
    """Overlap 1e-5 of a typical one, still 10 times the level's quantile: wrong value, honest bound."""
    n, spectrum = 400, np.concatenate([[1.0, 0.31], np.linspace(0.3, 0.01, 398)])
    probe = np.random.default_rng(0).standard_normal((n, 1))
    probe[1] = 1e-5
    found = top_singular_values(diagonal(spectrum), n, probe=probe, start=np.eye(n)[0], tolerance=1e-3)
    assert found.values[1] < 0.305, "the case must be hard enough to be missed"
    assert found.missed_above >= 0.31


def test_a_probe_without_overlap_is_exposed_by_the_count():
    """The failure whose probability is stated, made to happen: only the exact count can see it, and does."""
    n, spectrum = 100, np.concatenate([[1.0, 0.6], np.linspace(0.3, 0.01, 98)])
    probe = np.random.default_rng(0).standard_normal((n, 1))
    probe[1] = 0.0
    found = top_singular_values(diagonal(spectrum), n, probe=probe, start=np.eye(n)[0])
    assert found.values[1] == pytest.approx(0.3) and found.missed_above < 0.6
    with pytest.raises(ArithmeticError, match="2 singular values exceed"):
        certify_by_count(found, np.diag(spectrum))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count must be at least 1"),
        ({"probe": np.full((50, 1), np.nan)}, "probe must hold finite"),
        ({"probe": np.zeros((50, 2))}, "probe must hold finite"),
        ({"max_products": 5}, "max_products = 5 leaves no room"),
        ({"start": np.full(50, np.inf)}, "start holds NaN"),
        ({"failure_probability": 0.0}, "between 0 and 1"),
    ],
)
def test_bad_input(options, message):
    options = {"probe": np.ones((50, 1))} | options
    with pytest.raises(ValueError, match=message):
        top_singular_values(lambda V: V, 50, **options)


def test_a_broken_product_fails_loudly():
    with pytest.raises(ArithmeticError, match="NaN"):
        top_singular_values(lambda V: V * np.nan, 50, probe=np.ones((50, 1)))

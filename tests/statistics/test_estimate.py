"""Estimates and their intervals: exact cases, an independent integral, calibration, and what never changes them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from rmt.statistics.estimate import Estimate, _modified_root, interval, tail_probabilities

DRAWS = 16


def land_tail(logs, theta):
    """Oracle: the exact conditional tail above, by quadrature (derived from the exponential family, Land 1971).

    Given the sum of squares W of z = log x - theta, r = sum z/sqrt(n W) = sin(phi) has the density cos^(n-2) exp(-k sin).
    """
    z = logs - theta
    total, n = np.sum(z**2), z.size
    k, phi = 0.5 * math.sqrt(n * total), math.asin(z.sum() / math.sqrt(n * total))
    density = lambda at: math.cos(at) ** (n - 2) * math.exp(-k * math.sin(at) - k)  # noqa: E731
    above = integrate.quad(density, phi, math.pi / 2, epsabs=0, epsrel=1e-10, limit=200)[0]
    below = integrate.quad(density, -math.pi / 2, phi, epsabs=0, epsrel=1e-10, limit=200)[0]
    return above / (above + below)


def test_gaussian_interval_is_students():
    """Oracle: the t interval in closed form. Narrow and negative draws know no other law."""
    draws = np.random.default_rng(1).normal(-3.0, 1.0, DRAWS)
    for level in (0.05, 1e-5, 1e-8):
        half = -special.stdtrit(DRAWS - 1, level / 2) * draws.std(ddof=1) / 4
        assert interval(draws, "mean", level=level) == pytest.approx((draws.mean() - half, draws.mean() + half))


def test_lognormal_median_interval_is_students_of_the_logarithms():
    """Strongly skewed draws: the weight of the Gaussian law is far below the level."""
    logs = np.random.default_rng(2).normal(0.0, 2.0, 40)
    half = -special.stdtrit(39, 0.025) * logs.std(ddof=1) / math.sqrt(40)
    ends = interval(np.exp(logs), "median", level=0.05)
    assert np.log(ends) == pytest.approx((logs.mean() - half, logs.mean() + half), rel=1e-6)


@pytest.mark.parametrize("count, tolerance", [(4, 0.12), (8, 0.05), (16, 0.025), (64, 0.006)])
def test_lognormal_mean_tail_is_lands(count, tolerance):
    """Oracle: the exact conditional tail by quadrature, 2 to 5 standard errors away on both sides."""
    for spread in (0.8, 1.5):
        logs = np.random.default_rng(count).normal(0.0, spread, count)
        logs = np.sort(logs - logs.mean()) * spread / logs.std(ddof=1)
        error = math.sqrt(logs.var() / count + logs.var() ** 2 / 2 / count)
        for away in (-5, -2, 2, 5):
            theta = logs.var() / 2 + away * error
            exact = land_tail(logs, theta)
            found = special.ndtr(-_modified_root(-theta, logs.std(ddof=1), count))
            assert min(found, 1 - found) == pytest.approx(min(exact, 1 - exact), rel=tolerance)


def test_interval_and_tails_are_one_statement():
    """Algebra: at each end the opposite tail is half the level. Down to 1e-8, from 4 to 64 draws."""
    generator = np.random.default_rng(4)
    for count in (4, 16, 64):
        draws = generator.lognormal(0, 0.4, (50, count))
        for statistic in ("mean", "median"):
            for level in (0.05, 1e-5, 1e-8):
                lower, upper = interval(draws, statistic, level=level)
                known = np.isfinite(upper)
                assert tail_probabilities(draws, lower, statistic=statistic)[1] == pytest.approx(level / 2, rel=1e-5)
                below = tail_probabilities(draws[known], upper[known], statistic=statistic)[0]
                assert below == pytest.approx(level / 2, rel=1e-5)


@pytest.mark.parametrize(
    "sample, truth",
    [
        (lambda g, size: g.normal(1.0, 0.1, size), {"mean": 1.0, "median": 1.0}),
        (lambda g, size: g.normal(1.0, 0.4, size), {"mean": 1.0, "median": 1.0}),
        (lambda g, size: g.lognormal(0, 0.3, size), {"mean": math.exp(0.045), "median": 1.0}),
        (lambda g, size: g.lognormal(0, 1.0, size), {"mean": math.exp(0.5), "median": 1.0}),
    ],
    ids=["gaussian .1", "gaussian .4", "lognormal .3", "lognormal 1"],
)
def test_95_percent_intervals_cover(sample, truth):
    """2e4 rows of 4 and of 16 draws: sd .0015. Bounds 5 sd beyond the measured .944 to .955: false alarm < 1e-6."""
    generator = np.random.default_rng(5)
    for count in (4, DRAWS):
        draws = sample(generator, (20_000, count))
        for statistic, value in truth.items():
            below, above = tail_probabilities(draws, np.full(len(draws), value), statistic=statistic)
            assert np.mean((below >= 0.025) & (above >= 0.025)) == pytest.approx(0.95, abs=0.014)


def test_what_an_estimate_says():
    draws = [1.0, 2.0, 4.0, 8.0]
    mean, median = Estimate.from_draws(draws), Estimate.from_draws(draws, "median")
    assert (mean.value, median.value, mean.draws) == (3.75, 3.0, 4)
    assert mean.stderr == pytest.approx(np.std(draws, ddof=1) / 2)
    for estimate in (mean, median):
        assert estimate.interval is not None and estimate.interval[0] <= estimate.value <= estimate.interval[1]


def test_equal_draws_one_draw_and_undefined_draws():
    equal = Estimate.from_draws([0.1] * 7)
    assert (equal.value, equal.stderr, equal.interval) == (0.1, 0.0, (0.1, 0.1))
    assert Estimate.from_draws([2.0]) == Estimate(2.0, None, None, 1)
    assert Estimate.from_draws([2.0], deterministic=True) == Estimate(2.0, 0.0, (2.0, 2.0), 1)
    some = Estimate.from_draws([1.0, math.nan, 3.0, math.inf])
    assert (some.value, some.draws, some.undefined) == (2.0, 4, 2)
    assert Estimate.from_draws([math.nan] * 2) == Estimate(None, None, None, 2, undefined=2)
    assert Estimate.from_draws([]).value is None


def test_numbers_of_any_size():
    """Squares of 1e-250 underflow and of 1e200 overflow; the interval only changes its unit."""
    draws = np.random.default_rng(6).lognormal(0, 0.3, DRAWS)
    unit = np.array(interval(draws, "mean", level=1e-5))
    for scale in (2.0**-900, 2.0**700):
        assert np.array(interval(draws * scale, "mean", level=1e-5)) / scale == pytest.approx(unit, rel=1e-9)


def test_rows_are_judged_alone():
    draws = np.random.default_rng(7).lognormal(0, 0.3, (2, 3, 8))
    draws[1, 2, 0] = np.nan
    lower, upper = interval(draws, "median", level=1e-3)
    assert lower.shape == (2, 3) and np.isnan(lower[1, 2]) and np.isnan(upper[1, 2])
    assert (lower[0, 1], upper[0, 1]) == pytest.approx(interval(draws[0, 1], "median", level=1e-3))


@pytest.mark.parametrize("bad", [{"statistic": "mode"}, {"level": 0.0}, {"level": 1.5}])
def test_bad_requests_are_refused(bad):
    with pytest.raises(ValueError, match="is not"):
        interval([1.0, 2.0], **bad)
    with pytest.raises(ValueError, match="two draws"):
        interval([1.0])
    with pytest.raises(ValueError, match="axes"):
        Estimate.from_draws([[1.0, 2.0]])


values = st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=12)


@given(values, st.sampled_from(["mean", "median"]), st.floats(1e-4, 1e4), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_does_not_matter_and_units_only_rescale(draws, statistic, unit, shuffler):
    mixed = list(draws)
    shuffler.shuffle(mixed)
    plain = Estimate.from_draws(draws, statistic)
    other = Estimate.from_draws(np.array(mixed) * unit, statistic)
    assert other.value == pytest.approx(plain.value * unit, rel=1e-9)
    if np.ptp(draws) > 1e-4 * max(draws) and plain.interval and other.interval:
        assert np.array(other.interval) / unit == pytest.approx(np.array(plain.interval), rel=1e-5, abs=1e-9)


@given(values, st.sampled_from(["mean", "median"]))
@settings(max_examples=40, deadline=None)
def test_a_smaller_level_gives_a_wider_interval(draws, statistic):
    ends = [interval(draws, statistic, level=level) for level in (0.3, 0.05, 1e-3, 1e-6)]
    for inner, outer in itertools.pairwise(ends):
        slack = 1e-8 * max(draws)
        assert outer[0] <= inner[0] + slack and inner[1] <= outer[1] + slack

"""Verdicts: the rule, its error rates and its power."""

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.statistics.compare import FAMILY_LEVEL, decide, judge
from rmt.statistics.estimate import interval
from rmt.theorems.prediction import Approximation, Bound, Limit, out_of_range

WORDS = {"source": "test", "validity": "always"}


def about(value, width, statistic="mean"):
    return Approximation(value=value, band=(value - width, value + width), statistic=statistic, **WORDS)


def test_the_five_verdicts():
    draws = np.random.default_rng(0).normal(1.0, 0.01, 16)
    assert judge(draws, about(1.0, 0.05)).verdict == "supported"
    assert judge(draws, about(2.0, 0.05)).verdict == "contradicted"
    assert judge(draws, about(1.0, 0.001)).verdict == "undecided"
    assert judge(draws, None).verdict == "no prediction"
    gone = judge(draws, out_of_range("beta = 9: too large", source="test"))
    assert gone.verdict == "out of range" and gone.predicted is None and gone.measured is not None


def test_one_draw_is_undecided_unless_deterministic():
    assert judge([1.0], about(1.0, 0.1)).verdict == "undecided" and judge([1.0], about(1.0, 0.1)).stderr is None
    assert judge([1.0], about(1.0, 0.1), deterministic=True).verdict == "supported"
    assert judge([2.0], about(1.0, 0.1), deterministic=True).verdict == "contradicted"


def test_undefined_draws_are_said_and_a_limit_waits_for_the_sweep():
    assert "undefined" in judge([math.nan] * 3, about(1.0, 0.1)).detail
    assert judge([1.0, 1.0, 1.0], Limit(value=1.0, **WORDS)).verdict == "undecided"


def test_a_bound_is_one_sided():
    draws = np.random.default_rng(1).normal(1.0, 0.01, 16)
    upper = Bound(value=2.0, side="upper", **WORDS)
    assert judge(draws, upper).verdict == "supported" and "slack 0.99" in judge(draws, upper).detail
    assert judge(draws, Bound(value=2.0, side="lower", **WORDS)).verdict == "contradicted"


def test_the_detail_says_how_many_draws_would_decide():
    """Asked for that many, the same law decides in more than nine of ten runs."""
    generator = np.random.default_rng(2)
    first = judge(generator.normal(1.0, 0.1, 16), about(1.02, 0.04))
    needed = int(first.detail.split("about ")[1].split()[0])
    decided = [judge(generator.normal(1.0, 0.1, 4 * needed), about(1.0, 0.04)).verdict for _ in range(50)]
    assert decided.count("supported") > 45


ROWS, DRAWS = 100, 16


def rates(sample, truth, statistic, rows, comparisons=ROWS):
    """Share of rows whose family-wise interval misses the truth, over the stated share."""
    missed = 0
    for _ in range(rows // 100_000):
        lower, upper = interval(sample((100_000, DRAWS)), statistic, level=FAMILY_LEVEL / comparisons)
        missed += int(np.sum((upper < truth) | (truth < lower)))
    return missed / rows / (FAMILY_LEVEL / comparisons)


@pytest.mark.parametrize("law, statistic", [("normal", "mean"), ("lognormal", "median"), ("lognormal", "mean")])
def test_false_contradictions_come_at_the_stated_rate(law, statistic):
    """Family-wise 1e-3 over 10 rows of 16 draws: 1e-4 a row. 6e5 rows expect 60 misses, Poisson sd 8.

    Half and one and a half times the rate are 4 sd away: false alarm 1e-4 on a fixed seed. Lognormal log-sd 0.5.
    """
    generator = np.random.default_rng(20261130)
    if law == "normal":
        found = rates(lambda size: generator.normal(1.0, 0.1, size), 1.0, statistic, 600_000, 10)
    else:
        truth = 1.0 if statistic == "median" else math.exp(0.125)
        found = rates(lambda size: generator.lognormal(0, 0.5, size), truth, statistic, 600_000, 10)
    assert 0.5 <= found <= 1.5


@pytest.mark.slow
@pytest.mark.parametrize("law, statistic", [("normal", "mean"), ("lognormal", "median"), ("lognormal", "mean")])
def test_false_contradictions_of_a_hundred_rows(law, statistic):
    """The same at 1e-5 a row: 1e7 rows expect 100 misses."""
    generator = np.random.default_rng(7)
    if law == "normal":
        found = rates(lambda size: generator.normal(1.0, 0.1, size), 1.0, statistic, 10_000_000)
    else:
        truth = 1.0 if statistic == "median" else math.exp(0.125)
        found = rates(lambda size: generator.lognormal(0, 0.5, size), truth, statistic, 10_000_000)
    assert 0.5 <= found <= 1.5


def test_a_normal_interval_fails_the_same_check():
    """Negative control: mean -+ z s/sqrt(n) misses far more often than stated."""
    generator = np.random.default_rng(3)
    draws = generator.normal(1.0, 0.1, (200_000, DRAWS))
    z = -scipy.special.ndtri(FAMILY_LEVEL / 10 / 2)
    spread = draws.std(axis=1, ddof=1) / math.sqrt(DRAWS)
    missed = np.mean(np.abs(draws.mean(axis=1) - 1.0) > z * spread) / (FAMILY_LEVEL / 10)
    assert missed > 1.5


def test_a_shift_of_the_detectable_size_is_contradicted_with_the_stated_power():
    """300 judged rows, shifted by `detectable` beyond the band: at least 80 % contradicted (stated: 90 %, sd 1.7 %)."""
    generator = np.random.default_rng(4)
    width, sd = 0.02, 0.1
    quantile = scipy.special.stdtrit(DRAWS - 1, 1 - FAMILY_LEVEL / ROWS / 2)
    shift = (quantile + scipy.special.ndtri(0.9)) * sd / math.sqrt(DRAWS)
    verdicts = [
        judge(generator.normal(1.0 + width + 1.1 * shift, sd, DRAWS), about(1.0, width), comparisons=ROWS).verdict
        for _ in range(300)
    ]
    assert verdicts.count("contradicted") >= 240
    one = judge(generator.normal(1.0, sd, DRAWS), about(1.0, width), comparisons=ROWS)
    assert one.detectable == pytest.approx(shift, rel=0.8)


def test_95_percent_intervals_cover_95_percent():
    """2e5 rows: sd 5e-4; the bounds are 10 sd away."""
    generator = np.random.default_rng(5)
    lower, upper = interval(generator.lognormal(0, 0.3, (200_000, DRAWS)), "median", level=0.05)
    assert np.mean((lower <= 1) & (1 <= upper)) == pytest.approx(0.95, abs=0.005)


@given(
    st.lists(st.floats(0.5, 2), min_size=3, max_size=20),
    st.floats(0.01, 1),
    st.floats(1, 3),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_a_wider_band_never_turns_support_away_and_order_does_not_matter(draws, width, factor, shuffler):
    narrow, wide = judge(draws, about(1.0, width)), judge(draws, about(1.0, factor * width))
    assert not (narrow.verdict == "supported" and wide.verdict != "supported")
    assert not (wide.verdict == "contradicted" and narrow.verdict != "contradicted")
    mixed = list(draws)
    shuffler.shuffle(mixed)
    assert judge(mixed, about(1.0, width)).verdict == narrow.verdict


def test_the_rule_itself():
    assert decide((1, 2), (0, 3), (1, 2)) == "supported"
    assert decide((1, 2), (0, 3), (3.5, 4)) == "contradicted"
    assert decide((1, 2), (0, 3), (2.5, 4)) == "undecided"

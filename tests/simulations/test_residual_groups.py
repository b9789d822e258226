"""Statements over draws: what supports them, what contradicts them, and how often chance alone would."""

import numpy as np
import pytest

from simulations.claims.residual_groups import in_every_draw, mostly


def every(ratios, **more):
    return in_every_draw("kept", ratios, expected=None, source="here", **more)


def most(happened):
    return mostly("happens", happened, along="x", expected=None, source="here")


def test_one_exception_contradicts_a_statement_about_every_draw():
    good = np.linspace(1.1, 2, 8)
    assert every([good, 2 * good]).verdict == "supported"
    assert every([good[:7]]).verdict == "undecided"
    claim = every([good, np.where(np.arange(8) == 3, 0.9, 5.0)])
    assert claim.verdict == "contradicted" and claim.measured == 0.9 and "broken in 1 of 8" in claim.detail
    assert every([np.append(good, np.nan)]).verdict == "undecided"
    assert every([np.full(8, np.nan)]).measured is None


@pytest.mark.parametrize("count, verdict", [(16, "supported"), (12, "supported"), (11, "undecided"), (2, "undecided")])
def test_the_sign_test_follows_the_binomial_law(count, verdict):
    """Published tails: P(X >= 12) = 0.0384 and P(X >= 11) = 0.105 of 16 fair coins; P(X <= 2) = 0.0021."""
    claim = most([np.arange(16) < count])
    assert claim.verdict == verdict and claim.measured == count / 16
    assert claim.interval[0] <= count / 16 <= claim.interval[1]


def test_the_level_is_shared_and_the_worst_decides():
    assert most([np.ones(8, bool)] * 4).verdict == "supported"  # 0.0039 < 0.05/4
    assert most([np.ones(8, bool)] * 3 + [np.arange(8) < 7]).verdict == "undecided"  # 0.035
    assert most([np.ones(16, bool), np.zeros(16, bool)]).verdict == "contradicted"

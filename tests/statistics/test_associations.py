"""Associations: Spearman's correlation against SciPy, and the rates of its claim."""

import numpy as np
import pytest
from scipy import stats

from rmt.statistics.associations import association_claim, rank_correlation

WORDS = {"source": "test"}


def test_rank_correlation_is_scipys():
    generator = np.random.default_rng(0)
    for _ in range(20):
        x, y = generator.integers(0, 6, 12), generator.standard_normal(12)
        assert rank_correlation(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_monotone_cases_are_supported_and_opposite_ones_contradicted():
    x = np.arange(12.0)
    assert association_claim("up", x, x**3, at_least=0.8, **WORDS).verdict == "supported"
    assert association_claim("down", x, -x, at_least=0.8, **WORDS).verdict == "contradicted"


def test_few_or_constant_cases_are_undecided():
    assert "at least 6" in association_claim("few", [1, 2], [1, 2], at_least=0.5, **WORDS).detail
    assert "undefined" in association_claim("gap", [*range(7), np.nan], range(8), at_least=0.5, **WORDS).detail
    assert "does not vary" in association_claim("flat", range(8), [1] * 8, at_least=0.5, **WORDS).detail


def test_the_interval_covers():
    """2000 samples of 15 Gaussian pairs, correlation 0.6 (Spearman 0.582): coverage of 95 % within 92.5 ... 97.5 % (five
    standard errors of 0.5 %)."""
    generator = np.random.default_rng(1)
    truth = 6 / np.pi * np.arcsin(0.3)
    hits = 0
    for _ in range(2000):
        x, noise = generator.standard_normal((2, 15))
        low, high = association_claim("", x, 0.6 * x + 0.8 * noise, at_least=0.5, **WORDS).interval
        hits += low <= truth <= high
    assert 0.925 < hits / 2000 < 0.975

"""Claims over a sweep: the two laws of the second singular value, told apart on synthetic draws of realistic noise."""

import math

import numpy as np
import pytest

from rmt.statistics.claims import exponent_claim, limit_claim

SIZES = (256, 512, 1024, 2048, 4096, 16384)
SPREAD = (0.03, 0.02, 0.015, 0.01, 0.007, 0.004)  # relative sd of one draw
COUNT = (16, 16, 16, 16, 16, 4)


def key_query(n, beta=0.5, head_dim=64):
    """Edge of the all-degrees law, first three degrees and noise, minimised on a grid: independent of rmt.laws."""
    weights = [beta ** (2 * degree) / math.factorial(degree) for degree in (1, 2, 3)]
    ratios = [math.comb(head_dim + degree - 1, degree) / n for degree in (1, 2, 3)]
    rest = math.expm1(beta**2) - sum(weights)
    end = min(math.sqrt(r / w) for w, r in zip(weights, ratios, strict=True))
    g = np.linspace(0.2 * end, end, 200001)[:-1]
    total = sum(w * g / (1 - w * g**2 / r) for w, r in zip(weights, ratios, strict=True)) + rest * g
    return float(np.min(1 / g + total)) / math.sqrt(n)


def iid(n, beta=0.5):
    return 2 * math.sqrt(math.expm1(beta**2) * (1 - 2 / n)) / math.sqrt(n)


def draws_of(law, seed):
    generator = np.random.default_rng(seed)
    return [
        law(n) * generator.lognormal(0, spread, count) for n, spread, count in zip(SIZES, SPREAD, COUNT, strict=True)
    ]


def judged(law, seed):
    words = {"source": "test"}
    limit = limit_claim("limit", SIZES, draws_of(law, seed), predicted=0.0625, tolerance=0.15, **words)
    power = exponent_claim("power", SIZES, draws_of(law, seed), predicted=-0.5, tolerance=0.05, **words)
    return limit, power


def test_the_two_laws_are_told_apart():
    """20 synthetic sweeps each; a wrong decision is never seen, an undecided one in at most a quarter."""
    decisions = {law.__name__: [judged(law, seed) for seed in range(20)] for law in (key_query, iid)}
    right = {"key_query": ("supported", "contradicted"), "iid": ("contradicted", "supported")}
    for name, pairs in decisions.items():
        for position in (0, 1):
            verdicts = [pair[position].verdict for pair in pairs]
            wrong = {"supported", "contradicted"} - {right[name][position]}
            assert not wrong & set(verdicts)
            assert verdicts.count(right[name][position]) >= 15


def test_a_curve_is_no_power_law():
    """Lack of fit: y = n^-1/2 (1 + 100/n) has a slope far from -1/2 at small n, and is not supported."""
    generator = np.random.default_rng(1)
    draws = [n**-0.5 * (1 + 100 / n) * generator.lognormal(0, 0.01, 16) for n in SIZES]
    claim = exponent_claim("power", SIZES, draws, predicted=-0.5, tolerance=0.01, source="test")
    assert claim.verdict != "supported"


def test_a_straight_power_law_is_accepted_in_nearly_every_sweep():
    """False alarm of the lack-of-fit check: at most 2 of 40 sweeps (the smallest misfit makes it conservative)."""
    rejected = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        draws = [n**-0.5 * generator.lognormal(0, 0.02, 16) for n in SIZES]
        claim = exponent_claim("power", SIZES, draws, predicted=-0.5, tolerance=0.05, source="test")
        rejected += claim.verdict != "supported"
        assert claim.measured == pytest.approx(-0.5, abs=0.02)
    assert rejected <= 2


def test_few_sizes_decide_nothing():
    assert exponent_claim("p", (1, 2), [[1, 1.1]] * 2, predicted=0, tolerance=1, source="t").verdict == "undecided"
    assert limit_claim("p", (1, 2, 4), [[1, 1.1]] * 3, predicted=1, tolerance=1, source="t").verdict == "undecided"

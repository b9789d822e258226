"""The published figures of rotary positions, capped logits, normalised heads, scales and sinks."""

import math

import numpy as np
import pytest
import scipy.sparse.linalg

from rmt.attention.positions import rotated
from rmt.laws.averages import terraced_singular_values
from rmt.laws.keyquery import KeyQueryLaw
from rmt.laws.normalised_heads import funk_hecke_values, qk_norm_variance
from rmt.theorems.attention_functions import moments
from rmt.theorems.causal_sinks import causal_sink_predictions

CAPS = [(1.0, 1.0, 0.1406), (2.0, 1.0, 0.1917), (2.0, 2.0, 0.2370), (5.0, 2.0, 0.356)]  # c, beta, a_1/sqrt(16)


def softmax(logits):
    A = np.exp(logits - logits.max(axis=1, keepdims=True))
    return A / A.sum(axis=1, keepdims=True)


def largest(A, count):
    return np.sort(scipy.sparse.linalg.svds(A, k=count, return_singular_vectors=False))[::-1]


def capped(cap, beta):
    """Moments of exp(c tanh(l/c)), over its mean squared: sigma^2, and the degree-one value a_1."""
    of = moments(lambda x: np.exp(cap * np.tanh(x / cap)), beta**2)
    return of.square / of.mean**2 - 1, math.sqrt(of.degrees[0]) / of.mean


def test_capped_logits_in_closed_form():
    """Edges 2 sigma = 2.099 (c = beta = 2) and 1.189 (1, 1); degree one over sqrt(16)."""
    edges = [2 * math.sqrt(capped(*case)[0]) for case in ((2.0, 2.0), (1.0, 1.0))]
    assert edges == pytest.approx([2.099, 1.189], abs=6e-4)
    assert [capped(c, b)[1] / 4 for c, b, _ in CAPS] == pytest.approx([case[2] for case in CAPS], abs=1.2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("cap, beta, edge", [(2.0, 2.0, 2.097), (1.0, 1.0, 1.181)])
def test_capped_logits_have_the_edge_of_bounded_entries(cap, beta, edge):
    """iid, n = 2000: sqrt(n) s_2 within 2 % of the published measurement, no single entry sticks out."""
    generator = np.random.default_rng(11)
    A = softmax(cap * np.tanh(beta * generator.standard_normal((2000, 2000)) / cap))
    assert math.sqrt(2000) * largest(A, 2)[1] == pytest.approx(edge, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cap, beta, measured", [(1.0, 1.0, 0.1386), (2.0, 1.0, 0.1897), (2.0, 2.0, 0.2366), (5.0, 2.0, 0.354)]
)
def test_capped_logits_saturate(cap, beta, measured):
    """Key-query, d_k = 16, n = 2000: the median of s_2 ... s_17 within 4 % of the published value and of a_1/sqrt(16)."""
    generator = np.random.default_rng(12)
    q, k = generator.standard_normal((2, 2000, 16))
    values = largest(softmax(cap * np.tanh(beta / 4 * q @ k.T / cap)), 17)
    middle = np.median(values[1:])
    assert middle == pytest.approx(measured, rel=0.04)
    assert middle == pytest.approx(capped(cap, beta)[1] / 4, rel=0.05)


def test_normalised_heads_in_closed_form():
    """Bessel ratios and variances at beta = 1: .3232 .2374 .1232 (d_k = 8, 16, 64), sigma^2 1.140 (8), 1.335 (16)."""
    assert [funk_hecke_values(d, 1.0, 2)[1] for d in (8, 16, 64)] == pytest.approx([0.3232, 0.2374, 0.1232], abs=6e-5)
    assert [qk_norm_variance(d, 1.0) for d in (8, 16)] == pytest.approx([1.140, 1.335], abs=6e-4)


def test_logits_over_head_dim_saturate_at_its_inverse():
    """1/d_k scaling is beta = 1/sqrt(d_k): s_2 tends to 1/d_k = .0156 as n grows, here within 4 % at n = 10^5."""
    values = KeyQueryLaw(100_000, 64, 1 / 8).top_value([1, 64]) / math.sqrt(100_000)
    assert np.mean(values) == pytest.approx(1 / 64, rel=0.04)


def test_sinks_shrink_rows():
    """Bidirectional s_1 = (1 + sigma^2/n)^(1/2)/(1 + c/n), c = e^(b - beta^2/2): n = 1000, beta = .7: .9995 .9848 .7603 .5611."""
    sums = np.array([1 / (1 + math.exp(b - 0.245) / 1000) for b in (0.0, 3.0, 6.0, math.log(1000))])
    assert sums * math.sqrt(1 + math.expm1(0.49) / 1000) == pytest.approx([0.9995, 0.9848, 0.7603, 0.5611], abs=1e-4)


def test_sinks_shorten_the_causal_ladder():
    """n = 1000: s_1 1.764 without, 1.64 with off-by-one (beta = .7), 1.341 at b = 3; with noise 1.344."""
    without = causal_sink_predictions(1000, 0.7, 0.0)["top_singular_value"].value
    assert without == pytest.approx(1.64, rel=0.01)
    assert causal_sink_predictions(1000, 0.7, 3.0)["top_singular_value"].value == pytest.approx(1.344, rel=0.01)
    assert terraced_singular_values(1 / (np.arange(1, 1001) + 15.7), 3) == pytest.approx(
        [1.341, 0.757, 0.498], rel=2e-3
    )


@pytest.mark.slow
def test_sinks_in_samples():
    """n = 1000, beta = .7, 4 draws: s_1 of 4 sinks to .1 %; causal with b = 3: 1.344 .768 .521 within 2 %."""
    generator = np.random.default_rng(13)
    rows, values = [], []
    for _ in range(4):
        weights = np.exp(0.7 * generator.standard_normal((1000, 1000)))
        total = weights.sum(axis=1, keepdims=True)
        rows.append([largest(weights / (total + math.exp(b)), 1)[0] for b in (0.0, 3.0, 6.0, math.log(1000))])
        below = np.tril(weights)
        values.append(largest(below / (math.exp(3.0) + below.sum(axis=1, keepdims=True)), 3))
    assert np.mean(rows, axis=0) == pytest.approx([0.9995, 0.9848, 0.7601, 0.5612], rel=1e-3)
    assert np.mean(values, axis=0) == pytest.approx([1.344, 0.768, 0.521], rel=0.02)


def shared(n, width, head_dim, rho, generator):
    """Queries and keys of tokens with a common component of weight rho."""
    X = math.sqrt(rho) * generator.standard_normal(width) + math.sqrt(1 - rho) * generator.standard_normal((n, width))
    return [X @ generator.standard_normal((width, head_dim)) / math.sqrt(width) for _ in range(2)]


@pytest.mark.slow
def test_rotation_averages_anisotropic_weights():
    """n = 1000, d = 256, d_k = 64, beta = 1, queries and keys from the same tokens, 3 draws: s_2 .230, with RoPE .193; 5 %."""
    found = []
    for draw in range(3):
        q, k = shared(1000, 256, 64, 0.0, np.random.default_rng([14, draw]))
        found.append([largest(softmax(a @ b.T / 8), 2) for a, b in ((q, k), (rotated(q), rotated(k)))])
    (plain, turned) = np.mean(found, axis=0)
    assert plain[1] == pytest.approx(0.230, rel=0.05)
    assert turned[1] == pytest.approx(0.193, rel=0.05)
    assert plain[0] == pytest.approx(turned[0], rel=0.02)


SHARED = [  # rho; bidirectional s_1, s_2 without and s_1, s_2, s_3 with RoPE; causal s_1 without and with
    (0.5, (1.118, 0.133), (1.061, 0.302, 0.288), (1.92, 1.89)),
    (0.9, (1.047, 0.024), (1.025, 0.334, 0.320), (1.80, 1.89)),
]


@pytest.mark.slow
@pytest.mark.parametrize("rho, plain, turned, causal", SHARED)
def test_rotation_makes_outliers_of_a_shared_component(rho, plain, turned, causal):
    """n = 1000, d = 256, d_k = 64, beta = 1, 12 draws; with RoPE the leading values scatter by .09 a draw: within .08."""
    found, masked = [], []
    for draw in range(12):
        q, k = shared(1000, 256, 64, rho, np.random.default_rng([15, draw]))
        pair = []
        for a, b in ((q, k), (rotated(q), rotated(k))):
            logits = a @ b.T / 8
            pair.append(largest(softmax(logits), 3))
            lower = np.tril(np.exp(logits - logits.max()))
            masked.append(largest(lower / lower.sum(axis=1, keepdims=True), 1)[0])
        found.append(pair)
    mean = np.mean(found, axis=0)
    assert mean[0, :2] == pytest.approx(plain, abs=0.03)
    assert mean[1] == pytest.approx(turned, abs=0.08)
    assert mean[1, 1] > 1.8 * mean[0, 1]  # the new outliers
    assert np.reshape(masked, (12, 2)).mean(axis=0) == pytest.approx(causal, abs=0.08)

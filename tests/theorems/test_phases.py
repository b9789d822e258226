"""The phase diagram: known corners, closed forms at the boundaries, and agreement with the edge's own rule."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtri

from rmt.theorems.layer import layer
from rmt.theorems.phases import REGIMES, Phase, entry_threshold, phase_predictions


@pytest.mark.parametrize(
    "n, beta, head_dim, regime",
    [
        (1024, 0.5, 10**4, "iid"),
        (1024, 0.5, 1024, "proportional"),
        (10**6, 1.0, 64, "saturated"),
        (1024, 2.5, 64, "entry outlier"),
        (1024, 4.0, 64, "condensed"),
    ],
)
def test_corners_of_the_map(n, beta, head_dim, regime):
    assert Phase(n, beta, head_dim).regime == regime
    assert regime in REGIMES


def test_one_degree_gives_the_published_edge():
    """n = d_k, small beta: edge^2 n/beta^2 = 27/4, so the spread is sqrt(27/16)."""
    assert Phase(1000, 0.01, 1000).spread == pytest.approx(math.sqrt(27) / 4, rel=2e-3)


def test_saturation_tends_to_one_from_above():
    found = [Phase(n, 1.0, 64).saturation for n in (10**4, 10**5, 10**6, 10**7)]
    assert np.all(np.diff(found) < 0) and 1 <= found[-1] < 1.005


@pytest.mark.parametrize("n", [256, 4096])
@pytest.mark.parametrize("beta", [0.3, 0.8, 1.2, 1.6, 2.0, 2.4])
def test_the_entry_indicator_agrees_with_the_edge_of_the_law(n, beta):
    """Independent code path: `HermiteLaw.edge` finds the minimum, the indicator looks at the slope."""
    phase = Phase(n, beta, 64)
    edge = phase.law.edge(entry=layer(n, beta, 64).largest_entry - n**-0.5)
    assert (phase.entry > 0) == edge.detached


def test_the_entry_threshold_of_iid_logits_is_that_of_the_width_theory():
    """Without low-rank pieces (d_k huge) an entry leaves at theta = sigma: the median maximum meets the bulk.

    exp(beta z - beta^2/2)/sqrt(n) = sqrt(exp(beta^2) - 1) with z = -Phi^-1(ln 2/n^2); the mean entry 1/sqrt(n), left out
    here, lowers theta by 2 % and beta by half of that.
    """
    for n in (3300, 57_000):
        z = -float(ndtri(math.log(2) / n**2))
        crossing = brentq(lambda b: b * z - b * b / 2 - math.log(n) / 2 - math.log(math.expm1(b * b)) / 2, 0.3, 2.0)  # noqa: B023
        assert entry_threshold(n, 10**6) == pytest.approx(crossing, rel=0.03)


def test_participation_is_exact_for_few_tokens():
    """Plain sampling at n = 8, d_k = 64, beta = 1.5: 4000 matrices, standard error .2 %, tolerance 5 of them."""
    generator = np.random.default_rng(1)
    Q, K = generator.standard_normal((2, 4000, 8, 64))
    logits = 1.5 * Q @ K.transpose(0, 2, 1) / 8
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    A = weights / weights.sum(-1, keepdims=True)
    rows = np.sum(A**2, axis=-1).mean(-1)
    assert Phase(8, 1.5, 64).participation == pytest.approx(rows.mean(), abs=5 * rows.std() / math.sqrt(4000))


def test_predictions_scale_with_the_limit_and_stop_where_the_theory_does():
    found = phase_predictions(1024, 0.83, 64)
    ratio = found["saturation"].value / found["second_singular_value"].value
    assert ratio == pytest.approx(8 / 0.83)
    assert not phase_predictions(1024, 2.5, 64)["saturation"].in_range


def test_a_point_off_the_map_is_refused():
    with pytest.raises(ValueError, match="needs n >= 2 and beta > 0"):
        Phase(1, 1.0, 64)

"""An outlier over a bulk: against plain sampling of a mean plus Gaussian noise, and QK-norm against its limit."""

import numpy as np
import pytest

from rmt.laws.normalised_heads import funk_hecke_values
from rmt.theorems.normalised_heads import qk_norm_predictions
from rmt.theorems.outlier_and_bulk import Errors, OutlierAndBulk

ERRORS = Errors(variance=0.03, top=0.1, bulk=0.03)


@pytest.mark.parametrize("centred", [True, False])
def test_the_top_value_of_a_mean_plus_noise(centred):
    """numpy, n = 200, level .5, variance 2, 40 draws: excess of s_1^2 known to 1.5 %; the other rule is off by half."""
    rng = np.random.default_rng(0)
    n, tops, squares = 200, [], []
    for _ in range(40):
        noise = np.sqrt(2) / n * rng.standard_normal((n, n))
        A = 0.5 * (1 / n + noise - (noise.mean(axis=1, keepdims=True) if centred else 0))
        values = np.linalg.svd(A, compute_uv=False)
        tops.append(values[0])
        squares.append(np.sum(values**2))
    model = OutlierAndBulk(
        n=n, variance=2.0, bulk=(0.1, 0.09), level=0.5, errors=ERRORS, centred=centred, source="x", validity="y"
    )
    excess = np.mean(np.square(tops)) / 0.25 - 1
    assert excess == pytest.approx(model.top_squared / 0.25 - 1, rel=0.08)
    other = OutlierAndBulk(
        n=n, variance=2.0, bulk=(0.1, 0.09), level=0.5, errors=ERRORS, centred=not centred, source="x", validity="y"
    )
    assert abs(excess / (other.top_squared / 0.25 - 1) - 1) > 0.3
    assert np.mean(squares) == pytest.approx(model.kept()["frobenius_norm_squared"].value, rel=0.02)


def test_qk_norm_tends_to_ratios_of_bessel_functions():
    """Published (Funk-Hecke): degree one at beta = 1: .3232 (d_k = 8), .2374 (16), .1232 (64)."""
    for head_dim, published in ((8, 0.3232), (16, 0.2374), (64, 0.1232)):
        limit = funk_hecke_values(head_dim, 1.0, 2)[1]
        found = qk_norm_predictions(10**6, 1.0, head_dim=head_dim, removed=False)
        assert limit == pytest.approx(published, abs=6e-5)
        assert found["second_singular_value"].value == pytest.approx(limit, rel=0.02)
        assert found["top_singular_value"].value == pytest.approx(1, abs=1e-4)


def test_qk_norm_is_refused_out_of_range():
    for changes in ({"n": 100}, {"beta": 1.5}, {"head_dim": 4}):
        found = qk_norm_predictions(**{"n": 1000, "beta": 1.0, "head_dim": 64, "removed": True, **changes})
        assert found["top_singular_value"].value is None

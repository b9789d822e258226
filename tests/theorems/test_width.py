"""Predictions for one layer: exact rows, validity, and the shape of what is said."""

import math

import numpy as np
import pytest
import scipy.special

from rmt.theorems.layer import Layer
from rmt.theorems.width import width_predictions


def predictions(**changes):
    setting = {
        "model": "iid",
        "n": 1000,
        "beta": 0.5,
        "head_dim": 64,
        "variant": "plain",
        "tokens": "independent",
        "width": 1000,
        "value_width": 1000,
    }
    return width_predictions(**{**setting, **changes})


def test_row_averages_are_those_of_plain_sampling():
    """Oracle: numpy, 4000 rows of n = 64 with d_k = 8, beta = 1; standard errors stated, 5.5 of them (1e-7 two-sided)."""
    generator = np.random.default_rng(20261130)
    queries, keys = generator.standard_normal((4000, 8)), generator.standard_normal((4000, 64, 8))
    logits = np.einsum("rd,rjd->rj", queries, keys) / math.sqrt(8)
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows /= rows.sum(axis=1, keepdims=True)
    layer = Layer(64, 1.0, 8)
    for measured, predicted in (
        (64 * np.sum(rows**2, axis=1) - 1, layer.variance),
        (-np.sum(rows * np.log(rows), axis=1), layer.entropy),
    ):
        assert abs(measured.mean() - predicted) < 5.5 * measured.std() / math.sqrt(4000)
    wrong = Layer(64, 1.05, 8)  # negative control: 5 % in beta is seen
    measured = 64 * np.sum(rows**2, axis=1) - 1
    assert abs(measured.mean() - wrong.variance) > 5.5 * measured.std() / math.sqrt(4000)


def test_many_head_dimensions_are_iid_logits():
    assert Layer(500, 0.7, 20000).variance == pytest.approx(Layer(500, 0.7).variance, rel=1e-3)
    assert Layer(500, 0.7, 20000).entropy == pytest.approx(Layer(500, 0.7).entropy, rel=1e-5)


@pytest.mark.parametrize("beta, published", [(0.3, 94), (0.5, 152), (0.8326, 3.3e3), (1.0, 5.7e4)])
def test_the_size_from_which_the_largest_entry_stays_inside_the_bulk(beta, published):
    """Published with the maximum at expected count one and no row normaliser, hence 15 %."""

    def outside(n):
        layer = Layer(int(n), beta)
        return layer.largest_entry > math.sqrt(math.expm1(beta**2))

    assert outside(0.85 * published) and not outside(1.15 * published)


def test_the_largest_entry_is_the_median_of_a_maximum():
    """Closed form: invert the entry to z, then Phi(z)^(n^2) = 1/2."""
    layer = Layer(300, 0.8)
    share = layer.largest_entry / math.sqrt(300)
    z = (math.log(299 * share / (1 - share)) + 0.32) / 0.8
    assert 300**2 * scipy.special.log_ndtr(z) == pytest.approx(-math.log(2), rel=1e-5)  # Poisson: O(n^-2)


def test_iid_second_value_is_the_larger_of_edge_and_entry():
    """Published entry rule at beta = 1, n = 200, 500, 1000: 3.02, 2.98, 2.91."""
    for n, published in ((200, 3.02), (500, 2.98), (1000, 2.91)):
        value = predictions(n=n, beta=1.0)["second_singular_value"].value
        assert value * math.sqrt(n) == pytest.approx(published, rel=0.03)


def test_repaired_rank_is_the_published_share_of_n():
    """Square orthonormal tokens, n -> infinity: .0658 n."""
    n = 40000
    value = predictions(n=n, variant="outlier_removed", tokens="orthonormal", width=n, value_width=n)
    assert value["gram_stable_rank"].value / n == pytest.approx(0.0658, rel=0.01)


def test_kept_rank_excess_is_the_published_one():
    """Orthonormal tokens, gamma = 1: (2 + gamma) sigma^4/n for large n."""
    n = 20000
    value = predictions(n=n, tokens="orthonormal", width=n, value_width=n)["gram_stable_rank_excess"].value
    assert value == pytest.approx(3 * math.expm1(0.25) ** 2 / n, rel=0.01)


@pytest.mark.parametrize(
    "changes, rule",
    [
        ({"n": 100}, "calibrated for n >= 200"),
        ({"beta": 3.0}, "rows condense"),
        ({"model": "keyquery", "head_dim": 8}, "head_dim >= 16"),
        ({"model": "keyquery", "beta": 1.2}, "beta <= 1"),
        ({"model": "keyquery", "beta": 1.0, "n": 500}, "n >= 1000"),
    ],
)
def test_out_of_range_gives_no_number_and_the_rule(changes, rule):
    said = predictions(**changes)
    second = said["second_singular_value"]
    assert second.value is None and second.band is None and rule in second.validity
    assert said["frobenius_norm_squared"].in_range  # exact row averages hold everywhere


@pytest.mark.parametrize("n", [1, 2, 50, 256])
@pytest.mark.parametrize("variant", ["plain", "outlier_removed"])
@pytest.mark.parametrize("beta", [0.0, 0.5, 20.0])
def test_every_prediction_is_a_number_inside_its_band_or_says_why_not(n, variant, beta):
    for model in ("iid", "keyquery"):
        said = predictions(n=n, variant=variant, beta=beta, model=model).values()
        flat = [one for entry in said for one in (entry.values() if isinstance(entry, dict) else [entry])]
        for prediction in flat:
            if prediction.in_range:
                assert prediction.band[0] <= prediction.value <= prediction.band[1]
            assert prediction.source and prediction.validity


def test_an_unknown_model_is_refused():
    with pytest.raises(ValueError, match="model linear"):
        predictions(model="linear")

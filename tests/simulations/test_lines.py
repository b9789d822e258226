"""The lines of a page: theory only in range, one prediction per setting."""

import dataclasses
import types

import numpy as np

from simulations import softmax_regression, width_collapse
from simulations.pages import lines


def line(experiment, setting, quantity, sizes, **more):
    return lines.theory(types.SimpleNamespace(experiment=experiment), setting, quantity, "a", sizes, **more)


def test_the_excess_law_is_drawn_only_where_it_is_in_range():
    """Out of range below n = 1000: the page once drew the bare law there, with a band of its own."""
    setting = softmax_regression.Setting(optimizer="preconditioned")
    curve = line(softmax_regression.EXPERIMENT, setting, "excess_risk", [500, 1000, 2000])
    assert np.isnan(curve.value).tolist() == [True, False, False]
    said = softmax_regression.EXPERIMENT.predict(dataclasses.replace(setting, n=2000))["excess_risk"]
    assert (curve.value[2], curve.lower[2], curve.upper[2]) == (said.value, *said.band)


def test_sizes_without_meaning_are_gaps_and_derived_widths_follow_n():
    setting = width_collapse.Setting(n=256, tokens="orthonormal")
    fixed = line(width_collapse.EXPERIMENT, setting, "token_stable_rank", [256, 512])
    follows = line(
        width_collapse.EXPERIMENT, setting, "token_stable_rank", [256, 512], derived=("width", "value_width")
    )
    assert np.isnan(fixed.value).tolist() == [False, True]
    assert not np.isnan(follows.value).any()


def test_the_panels_share_one_prediction_per_setting():
    calls = []

    def predict(setting):
        calls.append(setting)
        return {}

    experiment = dataclasses.replace(width_collapse.EXPERIMENT, predict=predict)
    for quantity in ("top_singular_value", "second_singular_value"):
        line(experiment, width_collapse.Setting(), quantity, [256, 512])
    assert len(calls) == 2

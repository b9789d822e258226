"""Settings and sweeps."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmt.experiments.setting import as_record, identity, sweep
from tests.experiments.toy import Setting


def test_sweep_is_the_cartesian_product_in_the_order_of_the_flags():
    settings, left_out = sweep(Setting, {"n": (4, 8), "spread": (1.0, 2.0)})
    assert [(s.n, s.spread) for s in settings] == [(4, 1.0), (4, 2.0), (8, 1.0), (8, 2.0)]
    assert left_out == []


def test_duplicates_are_merged_and_meaningless_pairs_are_named_once():
    settings, left_out = sweep(Setting, {"n": (4, 4, 200), "model": ("flat", "normal")})
    assert [(s.n, s.model) for s in settings] == [(4, "flat"), (4, "normal"), (200, "normal")]
    assert left_out == ["flat numbers with n = 200: flat needs n <= 100"]


@pytest.mark.parametrize(
    "values, message",
    [
        ({"n": (0,)}, "--n 0: must be an integer >= 1"),
        ({"n": (1.5,)}, "--n 1.5: must be an integer >= 1"),
        ({"n": (True,)}, "--n True: must be an integer >= 1"),
        ({"spread": (-1.0,)}, "--spread -1.0: must be a finite number >= 0"),
        ({"spread": (float("nan"),)}, "--spread nan: must be a finite number >= 0"),
        ({"model": ("foo",)}, "--model foo: must be one of normal, flat, broken"),
        ({"depth": (2,)}, "depth: no such field; the fields are n, spread, model"),
    ],
)
def test_a_bad_value_is_refused_with_value_rule_and_remedy(values, message):
    with pytest.raises(ValueError) as refusal:
        sweep(Setting, values)
    assert str(refusal.value) == message


@given(st.integers(1, 10**6), st.floats(0, 1e6))
def test_identity_holds_just_what_differs_from_the_defaults(n, spread):
    setting = Setting(n=n, spread=spread)
    kept = identity(setting)
    assert Setting(**kept) == setting
    assert "model" not in kept and ("n" in kept) == (n != 64)
    assert list(as_record(setting)) == [field.name for field in dataclasses.fields(Setting)]

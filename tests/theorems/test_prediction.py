"""The closed family of predictions: fields, validation, bands. Expected values are the definitions themselves."""

import dataclasses

import pytest

from rmt.theorems.prediction import (
    Approximation,
    Bound,
    Exact,
    Limit,
    PowerLaw,
    SpectrumTends,
    absolute_band,
    out_of_range,
    relative_band,
)

COMMON = {"source": "derived, here", "validity": "n >= 2"}
FORMS = [
    (Exact(value=1, band=(0.9, 1.1), **COMMON), "exact"),
    (Limit(value=1.0, **COMMON), "limit"),
    (Approximation(value=1.0, band=(0.5, 2), statistic="median", **COMMON), "approximation"),
    (PowerLaw(value=0.25, along="n", at=16, exponent=-0.5, prefactor=1.0, **COMMON), "power law"),
    (Bound(value=1.0, side="upper", standing="theorem", **COMMON), "bound"),
]


@pytest.mark.parametrize(("form", "kind"), FORMS)
def test_common_attributes(form, kind):
    assert form.kind == kind
    assert form.in_range
    assert isinstance(form.value, float)
    assert form.statistic in ("mean", "median")
    with pytest.raises(dataclasses.FrozenInstanceError):
        form.value = 2.0


def test_out_of_range_gives_no_number():
    form = out_of_range("beta = 9 is above 2", source="derived, here", statistic="median")
    assert (form.value, form.band, form.in_range) == (None, None, False)
    assert form.statistic == "median"
    assert "9" in form.validity


@pytest.mark.parametrize(
    ("form", "fields", "message"),
    [
        (Exact, {"value": float("nan")}, "finite"),
        (Exact, {"value": 1.0, "band": (2.0, 3.0)}, "hold the value"),
        (Exact, {"value": 1.0, "band": (0.0, float("inf"))}, "finite"),
        (Limit, {"value": None, "band": (0.0, 1.0)}, "without a value"),
        (Limit, {"value": 1.0, "statistic": "mode"}, "mode"),
        (Limit, {"value": 1.0, "standing": "folklore"}, "folklore"),
        (Limit, {"value": 1.0, "source": ""}, "source"),
        (Limit, {"value": 1.0, "exponent": 0.0}, "positive, finite rate"),
        (Limit, {"value": 1.0, "exponent": 1.0, "correction": -1.0}, "correction = -1"),
        (Bound, {"value": 1.0, "side": "left"}, "left"),
        (PowerLaw, {"value": 2.0, "along": "n", "at": 4, "exponent": 1.0, "prefactor": 1.0}, "is not prefactor"),
        (SpectrumTends, {"law": None, "scale": 0.0}, "scale"),
        (SpectrumTends, {"law": None, "scale": 1.0, "distance": 2.0}, "distance"),
    ],
)
def test_each_form_validates_itself(form, fields, message):
    with pytest.raises(ValueError, match=message):
        form(**(COMMON | fields))


def test_spectrum_has_a_law_and_no_number():
    form = SpectrumTends(law=object(), scale=32.0, **COMMON)
    assert form.in_range and form.value is None and form.band is None
    assert not SpectrumTends(law=None, scale=32.0, **COMMON).in_range


def test_bands():
    assert relative_band(-2.0, 0.1) == pytest.approx((-2.2, -1.8))
    assert absolute_band(1.0, 0.25) == (0.75, 1.25)
    with pytest.raises(ValueError, match="half-width"):
        absolute_band(1.0, -1.0)

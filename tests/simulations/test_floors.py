"""Floors of approximations: every band holds its floor, and none is ten times as wide, but for those named."""

import dataclasses

import pytest

from simulations.floors.__main__ import PLANS, main
from simulations.floors.floor import Floor, floors, table, widths

LAZY = {  # bands known to be wide
    ("depth_collapse", "collapse_depth_bf16"),  # whole layers: the band is one, the floor none
    ("softmax_regression", "one_point_smoothness"),  # 10 % about a constant that is met to 0.3 %
}


def test_a_floor_outside_its_band_is_seen_and_a_wide_band_is_marked():
    """By hand: three rows of one quantity, 1.0, 0.5 and 0.02 of a band with errors of a twentieth of it."""
    rows = [Floor("toy", "x", f"n {n}", floor, 0.05, 1.0) for n, floor in ((1, 1.0), (2, 0.5), (3, 0.02))]
    (width,) = widths(rows)
    assert (width.settings, width.outside, width.unresolved, width.lazy) == (3, 0, 0, False)
    assert width.most == pytest.approx(1.05) and width.share == pytest.approx(0.95)
    assert widths([dataclasses.replace(rows[0], floor=1.3)])[0].outside == 1
    assert widths(rows[2:])[0].lazy and "band over ten floors" in table(widths(rows[2:]))
    assert widths([dataclasses.replace(rows[0], stderr=0.6)])[0].unresolved == 1


def test_floors_of_a_small_sweep_are_inside_and_a_prediction_three_bands_off_is_not(tmp_path):
    """Residual conditioning, n = 64, 8 draws: bands hold; negative control: a prediction three bands away."""
    found = floors("residual_conditioning", 8, {"n": 64, "width": 256, "skip_scale": 2.0}, out=str(tmp_path))
    assert {one.quantity for one in found} >= {"largest_singular_value", "smallest_over_tokens"}
    assert not any(one.outside for one in found)
    assert all(dataclasses.replace(one, floor=one.floor + 3 * one.half).outside for one in found)


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["blind_test"])
    assert stopped.value.code == 2 and "must be one of width_collapse" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("experiment", list(dict.fromkeys(name for name, _, _ in PLANS)))
def test_every_band_holds_its_floor(experiment):
    """Beyond 4.5 standard errors; three settings in four are resolved; two and a half minutes on one core in all."""
    found = [row for name, draws, values in PLANS if name == experiment for row in floors(name, draws, values)]
    print(f"\n{table(widths(found))}")
    assert [one for one in found if one.outside] == []
    assert sum(one.stderr < one.half / 2 for one in found) >= 0.75 * len(found)
    assert {(one.experiment, one.quantity) for one in widths(found) if one.lazy} <= LAZY

"""weight_conditioning from the command line: errors, merged duplicates, verdicts and the sentence at small size."""

import json

import jsonschema
import pytest

from rmt.experiments.cli import run_experiment
from simulations.weight_conditioning import EXPERIMENT, Setting
from tests.experiments.document import SCHEMA


def refuse_nan(text):
    pytest.fail(f"{text} in the JSON document")


@pytest.mark.parametrize(
    "arguments, fragment",
    [
        (("--width", "8"), "head_dim 64 > width 8"),
        (("--shift", "-1"), "--shift -1.0"),
        (("--std", "0"), "--std 0.0"),
        (("--correction", "magic"), "--correction magic"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(arguments, fragment, capsys, tmp_path):
    assert run_experiment(EXPERIMENT, [*arguments, "--out", str(tmp_path), "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and fragment in printed.err and "Traceback" not in printed.err


def test_small_run_supports_the_edges_and_writes_its_figure(capsys, tmp_path):
    arguments = ["--width", "96", "--head-dim", "8", "96", "--shift", "0", "2", "10", "--n", "32", "--draws", "8"]
    where = ["--out", str(tmp_path), "--figure", str(tmp_path / "page.png"), "--quiet", "--format", "json"]
    assert run_experiment(EXPERIMENT, [*arguments, *where]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    jsonschema.validate(found, SCHEMA)
    assert (tmp_path / "page.png").exists()
    svd = [row for row in found["rows"] if row["setting"]["correction"] == "svd"]
    assert {row["setting"]["shift"] for row in svd} == {None}
    assert all(row["verdict"] == "supported" for row in svd if row["quantity"] == "weight_condition_number")
    verdicts = {claim["claim"]: (claim["verdict"], claim["expected"]) for claim in found["claims"]}
    assert verdicts["any W: a shift of 2 and more lowers kappa"] == ("contradicted", "contradicted")
    assert all(verdict != "contradicted" for verdict, expected in verdicts.values() if expected == "supported")


def test_settings_fill_in_their_deviation():
    assert Setting().std == pytest.approx(768**-0.5) and Setting().scale == pytest.approx(1)
    assert Setting(scaling="xavier").std == pytest.approx((2 / (768 + 64)) ** 0.5)
    assert Setting(correction="svd") == Setting(correction="svd", shift=3.0)


def test_a_page_without_a_shift_draws_without_a_warning(tmp_path):
    """Regression: its axis was logarithmic for a moment, and matplotlib complained. Warnings are errors in tests."""
    arguments = ("--shift", "0", "--head-dim", "4", "--width", "8", "--n", "8", "--draws", "2", "--quiet")
    page = tmp_path / "page.png"
    assert run_experiment(EXPERIMENT, [*arguments, "--out", str(tmp_path), "--figure", str(page)]) == 0
    assert page.exists()

"""softmax_regression from the command line: edge cases, errors, divergence, and agreement with theory at small size."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from rmt.theorems.softmax_predictions import training_predictions
from simulations.softmax_regression import EXPERIMENT, Setting
from tests.experiments.document import SCHEMA


def refuse_nan(text):
    pytest.fail(f"{text} in the JSON document")


def document(capsys, tmp_path, *arguments):
    code = run_experiment(
        EXPERIMENT, [*arguments, "--format", "json", "--quiet", "--no-figure", "--out", str(tmp_path)]
    )
    assert code == 0
    return json.loads(capsys.readouterr().out, parse_constant=refuse_nan)


@pytest.mark.parametrize(
    "arguments, fragment",
    [
        (("--n", "3"), "needs n >= d"),
        (("--value-width", "5"), "needs p <= d"),
        (("--condition", "0.5"), "--condition 0.5"),
        (("--tau", "0"), "--tau 0.0"),
        (("--optimizer", "newton"), "--optimizer newton"),
        (("--covariance", "missing.npy"), "cannot be read"),
        (("--covariance", "cubic"), "--covariance cubic"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(arguments, fragment, capsys, tmp_path):
    assert run_experiment(EXPERIMENT, [*arguments, "--out", str(tmp_path), "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and fragment in printed.err and "Traceback" not in printed.err


@pytest.mark.parametrize(
    "matrix, fragment", [(np.diag([1.0, np.nan]), "not finite"), (np.diag([1.0, 0.0]), "singular")]
)
def test_a_covariance_file_that_cannot_be_used_is_refused(matrix, fragment, capsys, tmp_path):
    np.save(tmp_path / "covariance.npy", matrix)
    arguments = ["--width", "2", "--covariance", str(tmp_path / "covariance.npy"), "--no-figure"]
    assert run_experiment(EXPERIMENT, [*arguments, "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and fragment in printed.err


def test_one_excess_row_per_setting_and_the_population_follows_its_law(capsys, tmp_path):
    arguments = ("--n", "60", "--optimizer", "preconditioned", "gd", "--passes", "20", "--draws", "4")
    found = document(capsys, tmp_path, *arguments)
    jsonschema.validate(found, SCHEMA)
    rows = [row for row in found["rows"] if row["quantity"] == "excess_risk"]
    assert [row["setting"]["optimizer"] for row in rows] == ["preconditioned", "gd"]
    own = [row for row in found["rows"] if row["setting"]["optimizer"] == "preconditioned"]
    verdicts = {row["quantity"]: row["verdict"] for row in own}
    for quantity in (
        "population_steps_over_law", "population_rate", "restricted_condition", "one_point_convexity", "one_point_smoothness"
    ):  # fmt: skip
        assert verdicts[quantity] == "supported", quantity


def test_a_divergent_run_says_at_which_step_and_leaves_no_nan(capsys, tmp_path):
    arguments = ("--n", "60", "--optimizer", "gd", "--rate", "1000", "--passes", "20", "--draws", "2")
    found = document(capsys, tmp_path, *arguments)
    rows = {row["quantity"]: row for row in found["rows"]}
    step = rows["diverged_at_step"]["measured"]
    assert step >= 1 and rows["excess_risk"]["measured"] is None
    assert rows["excess_risk"]["detail"].startswith(f"diverged at step {step:.0f} (")
    assert any("diverged at step" in claim["detail"] for claim in found["claims"])


def test_the_ablation_is_a_table_of_claims(capsys, tmp_path):
    arguments = ("--n", "60", "--optimizer", "preconditioned", "gd", "--start", "spectral", "random")
    found = document(capsys, tmp_path, *arguments, "--regularizer", "on", "off", "--passes", "10", "--draws", "2")
    along = [claim["along"] for claim in found["claims"]]
    assert [along.count(name) for name in ("start", "regularizer")] == [4, 4]
    bought = [claim for claim in found["claims"] if "optimizer gd ends above preconditioned" in claim["claim"]]
    assert len(bought) == 4


@pytest.mark.parametrize(
    "problem",
    [
        ("--width", "1"),
        ("--width", "5", "--value-width", "2"),
        ("--target-condition", "1"),
        ("--rho", "1.5"),
        ("--covariance", "power", "--noise", "0.3"),
        ("--contexts", "n", "--n", "12"),
        ("--start", "large", "--optimizer", "renormalised"),
    ],
    ids=" ".join,
)
def test_the_edges_of_the_range_run_and_contradict_nothing(problem, capsys, tmp_path):
    found = document(
        capsys, tmp_path, "--n", "40", "--optimizer", "preconditioned", *problem, "--passes", "5", "--draws", "2"
    )
    jsonschema.validate(found, SCHEMA)
    assert sum(row["quantity"] == "excess_risk" for row in found["rows"]) == 1
    assert not [row["quantity"] for row in found["rows"] if row["verdict"] == "contradicted"]


def test_the_figure_shows_each_kind_of_panel_that_the_sweep_can_fill(tmp_path):
    """Letters a to e: curves of five methods in two panels, scaling in two, the population descent, the ends."""
    arguments = ["--n", "40", "60", "--optimizer", "preconditioned", "gd", "adam", "shampoo", "muon", "--passes", "4"]
    folder = ["--draws", "2", "--quiet", "--out", str(tmp_path), "--figure", str(tmp_path / "page.svg")]
    assert run_experiment(EXPERIMENT, [*arguments, *folder]) == 0
    assert (tmp_path / "page.svg").stat().st_size > 10_000


def test_settings_fill_in_what_their_method_needs():
    own, rival = Setting(), Setting(optimizer="sgd")
    assert (own.start, own.regularizer, own.tau) == ("spectral", "on", 1.0)
    assert (rival.start, rival.regularizer) == ("random", "off")
    assert own == Setting(start="spectral", regularizer="on")


def test_predictions_end_where_their_range_ends():
    values = 0.25 * np.array([1, 0.7, 0.5, 1 / 3])

    def said(**change):
        return training_predictions(values, **{"width": 4, "n": 2000, "tau": 1.0, **change})["excess_risk"]

    assert said().in_range
    assert not said(tau=16.0).in_range  # tau = 64 s_1 at n = 2000: measured 4 times the law at n = 1000
    assert not said(n=500).in_range and not said(tau=0.75).in_range and not said(contexts=2000).in_range
    assert "infinite" in said(tau=0.4).validity  # |Bt| beyond 1/sqrt 2

"""residual_convergence from the command line: errors, C6, C7, the global minimum, resuming, one's own files."""

import json
import re

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from rmt.experiments.run import run
from rmt.regression import datasets
from simulations.residual_convergence import EXPERIMENT, Setting
from tests.experiments.document import SCHEMA


def refuse_nan(text):
    pytest.fail(f"{text} in the JSON document")


def trained(tmp_path, **flags):
    return run(EXPERIMENT, out=str(tmp_path), quiet=True, **flags)


@pytest.mark.parametrize(
    "arguments, fragment",
    [
        (("--data", "jena"), "--data jena"),
        (("--data", "iid", "--data-file", "x.csv"), "--data weather or sentences"),
        (("--data", "weather", "--data-file", "no_such.csv"), "no_such.csv"),
        (("--data", "weather", "--width", "20"), "4 variables times 4 lags are 16"),
        (("--heads", "3"), "3 heads"),
        (("--correlation", "1", "--data", "correlated"), "--correlation 1"),
        (("--skip-scale", "-1"), "--skip-scale -1"),
        (("--steps", "0"), "--steps 0"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(arguments, fragment, capsys, tmp_path):
    assert run_experiment(EXPERIMENT, [*arguments, "--out", str(tmp_path), "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and fragment in printed.err and "Traceback" not in printed.err


@pytest.mark.parametrize("data", ["weather", "sentences"])
def test_missing_data_give_the_install_command(data, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(datasets, data.upper(), ("no_such_package", "data.csv"))
    for load in (datasets.load_series, datasets.load_sentences):
        load.cache_clear()
    assert run_experiment(EXPERIMENT, ["--data", data, "--out", str(tmp_path), "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "pip install 'rmt-attention[data]'" in printed.err and printed.err.count("\n") == 1


def test_the_document_is_valid_and_the_page_is_drawn(capsys, tmp_path):
    arguments = ["--data", "iid", "correlated", "weather", "--skip-scale", "0", "1", "--steps", "30", "--draws", "4"]
    arguments += ["--executor", "serial"]
    files = ["--out", str(tmp_path), "--figure", str(tmp_path / "page.png")]
    assert run_experiment(EXPERIMENT, [*arguments, *files, "--format", "json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    jsonschema.validate(found, SCHEMA)
    rows = [row for row in found["rows"] if row["quantity"] == "certificate_over_tangent"]
    assert len(rows) == 6 and all(row["verdict"] == "supported" for row in rows)
    never = [row for row in found["rows"] if row["quantity"] == "steps_to_thousandth" and row["measured"] is None]
    assert never and all("not reached in 30 steps (4 of 4 draws)" in row["detail"] for row in never)
    assert (tmp_path / "page.png").exists()


def test_descent_on_independent_tokens_keeps_its_bound_and_reaches_the_minimum(tmp_path):
    """C6 and the global minimum, 4 draws: no step slower than 1 - mu lambda_min(0), late rate of the frozen kernel."""
    results = trained(tmp_path, data="iid", skip_scale=(0.25, 1.0), draws=4)
    for setting in results.settings:
        samples = results.samples[setting]
        assert (samples["final_loss_ratio"] < 1e-10).all() and (samples["worst_step_over_bound"] >= 1).all()
        assert np.allclose(samples["late_rate_over_law"], 1, atol=1e-4)
        assert (samples["drift_over_bound"] <= 1).all()


def test_the_skip_removes_the_stall_of_correlated_tokens(tmp_path):
    """C7, 1200 steps, 6 draws: median loss over its start below 1e-2 with the skip and at least 10 times higher without."""
    results = trained(tmp_path, data="correlated", skip_scale=(0.0, 1.0), steps=1200, draws=6)
    without, with_it = (np.median(results.samples[s]["final_loss_ratio"]) for s in results.settings)
    assert with_it < 1e-2 and without > 10 * with_it and without > 0.1


@pytest.mark.slow
def test_the_weather_result_is_monotone_in_the_skip(tmp_path):
    """16 windows and weights, 5 skip scales, a sign test for each pair (5 % shared by 4): about 50 s of one core."""
    results = trained(tmp_path, data="weather", skip_scale=(0.0, 0.25, 0.5, 1.0, 2.0), draws=16)
    claims = [claim for claim in EXPERIMENT.claims(results) if "lower loss" in claim.claim]
    assert [claim.verdict for claim in claims] == ["supported", "supported"]
    medians = [np.median(results.samples[s]["final_loss_ratio"]) for s in results.settings]
    assert medians == sorted(medians, reverse=True)


@pytest.mark.slow
def test_every_draw_of_independent_tokens_reaches_the_minimum(tmp_path):
    results = trained(tmp_path, data="iid", skip_scale=(0.25, 0.5, 1.0, 2.0), draws=16)
    claims = [claim for claim in EXPERIMENT.claims(results) if claim.expected]
    assert claims and all(claim.verdict == claim.expected for claim in claims)


def test_an_adam_run_and_a_deep_one_are_measured_without_claims_that_are_not_theirs(tmp_path):
    results = trained(
        tmp_path, data="iid", optimizer="adam", depth=2, norm="pre", heads=2, skip_scale=1.0, steps=20, draws=4
    )
    rows = {row["quantity"]: row for row in results.rows}
    assert rows["final_loss_ratio"]["measured"] < 1 and rows["worst_step_over_bound"]["verdict"] == "out of range"
    assert "certificate_over_tangent" not in rows or rows["certificate_over_tangent"]["measured"] is None


def test_a_divergent_run_says_so_and_leaves_no_nan(capsys, tmp_path):
    arguments = ["--data", "iid", "--skip-scale", "0", "1", "2", "--rate", "30", "--steps", "50", "--draws", "4"]
    more = ["--format", "json", "--quiet", "--no-figure", "--executor", "serial", "--out", str(tmp_path)]
    assert run_experiment(EXPERIMENT, [*arguments, *more]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    rows = {row["quantity"]: row for row in found["rows"]}
    assert rows["diverged_at_step"]["measured"] >= 1 and rows["final_loss_ratio"]["measured"] is None


def test_one_s_own_files_serve_as_data(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n" + "\n".join(f"{t % 7},{t * t % 11}" for t in range(60)))
    results = trained(
        tmp_path, data="weather", data_file=str(tmp_path / "mine.csv"), n=8, skip_scale=1.0, steps=20, draws=2
    )
    assert next(iter(results.settings)).width == 8
    lines = "\n".join(f"word{t % 5} word{t % 3}\t{t % 2}" for t in range(20))
    (tmp_path / "mine.tsv").write_text("sentence\tlabel\n" + lines)
    flags = {"data": "sentences", "data_file": str(tmp_path / "mine.tsv"), "depth": (2, 4), "skip_scale": (0.0, 1.0)}
    results = trained(tmp_path, **flags, n=4, steps=10, draws=2)
    assert {row["quantity"]: row["measured"] for row in results.rows}["token_gap_ratio"] is not None
    assert any("deeper" in claim.claim for claim in EXPERIMENT.claims(results))
    told = re.findall(r"(?:Reproduced|Not reproduced|Left open): (.*?)\.(?= |$)", EXPERIMENT.summary(results))
    assert sum(len(re.findall("sentences data", line)) for line in told) == 5  # rank and loss at each depth, and deeper
    assert EXPERIMENT.figure(results) is not None


def test_settings_fill_in_what_their_data_need():
    assert (Setting().n, Setting().width, Setting().steps, Setting().rate) == (8, 16, 20000, 0.5)
    weather = Setting(data="weather")
    assert (weather.n, weather.width, weather.correlation) == (16, 16, None)
    assert Setting(data="correlated").correlation == 0.9 and Setting(correlation=0.5) == Setting()
    assert Setting(optimizer="adam").rate == 3e-3


@pytest.mark.parametrize("sizes", [{"n": 1}, {"width": 1}])
def test_one_token_or_one_coordinate_trains_without_a_second_value(sizes, tmp_path):
    """Regression: the ratio of the second singular value to the first was read where there is none."""
    results = run(EXPERIMENT, data="iid", steps=3, draws=1, skip_scale=1.0, out=str(tmp_path), **sizes)
    assert not results.failures and np.isnan(results.draws("token_gap_ratio")).all()

"""residual_conditioning from the command line: errors, the tables of C1 and C4, the counterexample."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from rmt.experiments.run import run
from simulations.residual_conditioning import EXPERIMENT, Setting
from tests.experiments.document import SCHEMA


@pytest.mark.parametrize(
    "arguments, fragment",
    [
        (("--skip-scale", "-1"), "--skip-scale -1"),
        (("--correlation", "1"), "--correlation 1"),
        (("--scaling", "magic"), "--scaling magic"),
        (("--n", "0"), "--n 0"),
        (("--spectrum", "full"), "--spectrum full"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(arguments, fragment, capsys, tmp_path):
    assert run_experiment(EXPERIMENT, [*arguments, "--out", str(tmp_path), "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and fragment in printed.err and "Traceback" not in printed.err


def test_the_document_is_valid_and_edges_are_supported(capsys, tmp_path):
    arguments = ["--n", "64", "--skip-scale", "0", "0.5", "1", "2", "--format", "json", "--quiet", "--correlation", "0"]
    figure = tmp_path / "page.png"
    assert run_experiment(EXPERIMENT, [*arguments, "--out", str(tmp_path), "--figure", str(figure)]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    rows = {(row["quantity"], row["setting"]["skip_scale"]): row for row in found["rows"]}
    for scale in (0.5, 1.0, 2.0):
        assert rows["largest_singular_value", scale]["verdict"] != "contradicted"
        assert rows["smallest_singular_value", scale]["verdict"] != "contradicted"
        assert rows["smallest_over_tokens", scale]["verdict"] == "supported"
    assert rows["smallest_singular_value", 0.0]["verdict"] == "out of range"
    assert all(claim["verdict"] == claim["expected"] for claim in found["claims"] if claim["expected"])
    assert figure.exists()


def test_the_smallest_value_follows_the_skip_scale(tmp_path):
    """C1: n = 16, d = 32, 40 draws: median within 6 % of skip s_min(X) from skip 0.5 on, for both kinds of tokens."""
    results = run(
        EXPERIMENT, n=16, skip_scale=(0.5, 1.0, 2.0), correlation=(0.0, 0.9), draws=40, out=str(tmp_path), quiet=True
    )
    for setting in results.settings:
        assert np.median(results.samples[setting]["smallest_over_tokens"]) == pytest.approx(1, abs=0.06)


def test_collapse_exponents(tmp_path):
    """C4: n = d = 32, d_k 128 ... 2048, 16 draws: slopes -1, -1/2 and 0 by the scaling, each judged with its interval."""
    results = run(
        EXPERIMENT,
        n=32,
        width=32,
        skip_scale=0.0,
        head_dim=(128, 256, 512, 1024, 2048),
        scaling=("fan_out", "mup", "standard"),
        correlation=0.0,
        draws=16,
        out=str(tmp_path),
        quiet=True,
    )
    claims = EXPERIMENT.claims(results)
    assert [claim.predicted for claim in claims] == [-1.0, -0.5, 0.0]
    assert [claim.verdict for claim in claims] == ["supported"] * 3


def test_the_counterexample_contradicts_full_rank(tmp_path):
    results = run(EXPERIMENT, n=8, values="opposed", skip_scale=1.0, correlation=0.0, out=str(tmp_path), quiet=True)
    claim = EXPERIMENT.claims(results)[-1]
    assert claim.verdict == "contradicted" and claim.expected == "contradicted"
    rows = {row["quantity"]: row for row in results.rows}
    assert rows["inverse_condition_number"]["verdict"] == "supported"
    assert rows["condition_number"]["measured"] is None


def test_small_scores_are_first_order(tmp_path):
    results = run(EXPERIMENT, n=64, scaling="mup", skip_scale=1.0, correlation=0.0, out=str(tmp_path), quiet=True)
    rows = {row["quantity"]: row for row in results.rows}
    assert rows["second_over_scores"]["verdict"] == "supported"


@pytest.mark.parametrize(
    "flags", [{"n": 1, "width": 1}, {"n": 3, "width": 1}, {"n": 70, "width": 1}, {"n": 2, "width": 9}]
)
def test_the_smallest_layers_are_measured(flags, tmp_path):
    results = run(EXPERIMENT, **flags, skip_scale=(0.0, 2.0), correlation=0.0, draws=2, out=str(tmp_path), quiet=True)
    rows = {(row["quantity"], row["setting"]["skip_scale"]): row for row in results.rows}
    assert rows["largest_singular_value", 2.0]["measured"] > 0
    assert all(row["verdict"] in ("out of range", "no prediction", "undecided") for row in results.rows)


def test_settings_fill_in_their_width():
    assert Setting(n=32).width == 64 and Setting(n=32) == Setting(n=32, width=64)

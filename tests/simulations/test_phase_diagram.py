"""phase_diagram: the regimes are met where the map puts them, from the command line, at small sizes."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from rmt.experiments.run import run
from simulations.phase_diagram import EXPERIMENT
from tests.experiments.document import SCHEMA


def test_small_run_agrees_with_the_map(capsys, tmp_path):
    arguments = ["--n", "256", "--beta", "0.3", "2.5", "--draws", "16", "--format", "json", "--quiet", "--check"]
    assert run_experiment(EXPERIMENT, [*arguments, "--no-figure", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    assert [claim["verdict"] for claim in found["claims"]] == ["contradicted", "supported"]
    assert {row["verdict"] for row in found["rows"] if row["quantity"] == "participation"} == {"supported"}


def test_page_shows_every_head_width(tmp_path, monkeypatch):
    monkeypatch.setattr("simulations.pages.phase_diagram.SIZES", np.array([64, 1024, 10**6]))
    monkeypatch.setattr("simulations.pages.phase_diagram.BETAS", np.array([0.1, 1.0, 8.0]))
    results = run(EXPERIMENT, n=64, beta=1.0, head_dim=(16, 64), draws=2, out=str(tmp_path), quiet=True)
    titles = [ax.get_title(loc="left") for ax in EXPERIMENT.figure(results).axes]
    assert [title.split(",")[-1].strip() for title in titles] == ["$d_k$ = 16", "$d_k$ = 64", "$d_k$ = 128"]


@pytest.mark.parametrize("flag, value", [("--n", "8"), ("--beta", "0")])
def test_bad_input_is_one_line(flag, value, capsys, tmp_path):
    assert run_experiment(EXPERIMENT, [flag, value, "--out", str(tmp_path), "--no-figure"]) == 2
    assert capsys.readouterr().err.count("\n") == 1

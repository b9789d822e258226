"""cause_and_effect: the contract, and the verdicts at small size."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.arrays import CPU
from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench
from rmt.experiments.run import run
from rmt.streams import stream
from simulations.cause_and_effect import EXPERIMENT
from tests.experiments.document import SCHEMA


def refuse_nan(text):
    pytest.fail(f"{text} in the JSON document")


def test_the_document_keeps_the_contract_on_own_tokens(capsys, tmp_path):
    words = [
        "--n",
        "1",
        "8",
        "--model",
        "own",
        "--head-dim",
        "4",
        "--skip-scale",
        "1",
        "--norm",
        "pre",
        "--probes",
        "1",
    ]
    words += ["--depth", "2", "--draws", "2", "--format", "json", "--quiet", "--out", str(tmp_path), "--no-figure"]
    assert run_experiment(EXPERIMENT, words) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    jsonschema.validate(found, SCHEMA)


def test_the_verdicts_without_skip(tmp_path):
    """n = d = 128, L = 3, iid, 4 draws: (iii) and (ii) hold; (i) holds for unit weights and fails for the usual ones."""
    results = run(EXPERIMENT, n=128, depth=3, draws=4, out=str(tmp_path), quiet=True)
    frame = results.frame()
    assert (frame["verdict"] != "contradicted").all(), frame[frame["verdict"] == "contradicted"]
    surprising = [c for c in results.claims if c["expected"] and c["verdict"] not in (c["expected"], "undecided")]
    assert surprising == []
    decided = {c["claim"][:4]: c["verdict"] for c in results.claims if c["expected"] == "supported"}
    assert decided["(iii"] == "supported" and decided["(ii)"] == "supported"
    growth = [c for c in results.claims if "moves |ln growth|" in c["claim"]]
    assert {c["verdict"] for c in growth} == {"supported", "contradicted"}


def test_one_token_and_equal_logits_have_no_growth_and_no_warning():
    """n = 1 and beta = 0 with the outlier removed: A - J = 0, nothing grows."""
    for flags in ({"n": 1}, {"n": 8, "beta": 0.0}):
        setting = EXPERIMENT.Setting(width=8, depth=2, variant="outlier_scaled", eta=0.0, **flags)
        record = EXPERIMENT.measure(setting, range(2), stream(0), Bench(CPU))
        assert np.isnan(record["gradient_growth"]).all()

"""gradient_norms: the contract, agreement with theory in both conventions, and gradients through softmax."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from rmt.experiments.run import run
from simulations.gradient_norms import EXPERIMENT
from tests.experiments.document import SCHEMA


def refuse_nan(text):
    pytest.fail(f"{text} in the JSON document")


def test_norms_match_theory_in_both_conventions_and_do_not_depend_on_the_layer(tmp_path):
    """n = d = 50, 100, 150, L = 3, 8 draws of 32 weight draws: nothing contradicted (family-wise rate 1e-3), claims hold."""
    results = run(EXPERIMENT, n=(50, 100, 150), draws=8, probes=32, out=str(tmp_path), quiet=True)
    frame = results.frame()
    assert (frame["verdict"] != "contradicted").all()
    assert (frame[frame["variant"] == "plain"]["verdict"] == "supported").mean() > 0.7
    assert all(claim["verdict"] in ("supported", "undecided") for claim in results.claims)
    constant = [claim for claim in results.claims if "every layer" in claim["claim"]]
    assert len(constant) == 12
    wrong = (
        results.draws("gradient_norm_squared", n=100, variant="plain", value_scale="1")[:, 0] / 100
    )  # another power of n
    from rmt.statistics.compare import judge

    setting = results.where(n=100, variant="plain", value_scale="1")[0]
    assert judge(wrong, EXPERIMENT.predict(setting)["gradient_norm_squared"][1]).verdict == "contradicted"


def test_the_document_keeps_the_contract_with_attention_on_own_tokens(capsys, tmp_path):
    words = ["--n", "1", "6", "--model", "own", "--depth", "2", "--draws", "2", "--head-dim", "4", "--probes", "2"]
    words += ["--norm", "none", "pre", "--skip-scale", "1", "--format", "json", "--quiet", "--out", str(tmp_path)]
    assert run_experiment(EXPERIMENT, [*words, "--no-figure"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    jsonschema.validate(found, SCHEMA)
    assert {row["quantity"] for row in found["rows"]} == {
        "gradient_norm_squared",
        "query_gradient_squared",
        "key_gradient_squared",
    }


def test_gradients_of_queries_vanish_when_tokens_align(tmp_path):
    """Without skip the tokens align, and with them the gradients of W_Q die (Noci et al. 2022); by 1e6 in three layers."""
    words = {"n": 64, "model": "own", "depth": 4, "variant": "plain", "value_scale": "1/sqrtd", "draws": 2, "probes": 2}
    found = run(EXPERIMENT, **words, out=str(tmp_path), quiet=True).samples
    squares = next(iter(found.values()))["query_gradient_squared"].mean(axis=0)
    assert squares[-1] < 1e-6 * squares[0] and np.all(np.diff(squares) < 0)


def test_uniform_attention_and_one_layer_have_their_closed_forms(tmp_path):
    """beta = 0: A = J, F_L = 1 kept, 0 removed; identity attention: F = n, so d n in the usual convention."""
    words = {
        "n": 20,
        "beta": 0.0,
        "depth": 1,
        "draws": 2,
        "value_scale": "1/sqrtd",
        "out": str(tmp_path),
        "quiet": True,
    }
    for variant, expected in (("plain", 20.0), ("outlier_removed", 0.0), ("identity", 400.0)):
        found = run(EXPERIMENT, **words, variant=variant).samples
        np.testing.assert_allclose(next(iter(found.values()))["gradient_norm_squared"], expected, rtol=1e-6, atol=1e-20)

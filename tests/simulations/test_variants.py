"""variants: the contract at tiny sizes, and the statements that hold at small ones."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.attention.repairs import REPAIRS
from rmt.experiments.cli import run_experiment
from rmt.experiments.run import run
from simulations.variants import EXPERIMENT, NAMES
from tests.experiments.document import SCHEMA


def refuse_nan(text):
    pytest.fail(f"{text} in the JSON document")


def test_every_repair_is_in_the_sweep():
    assert set(NAMES) == set(REPAIRS)


def test_all_variants_run_at_tiny_size_and_keep_the_contract(capsys, tmp_path):
    words = ["--n", "12", "--depth", "2", "--width", "12", "--head-dim", "4", "--draws", "2", "--format", "json"]
    assert run_experiment(EXPERIMENT, [*words, "--quiet", "--out", str(tmp_path), "--no-figure"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    jsonschema.validate(found, SCHEMA)
    seen = {(row["setting"]["variant"], row["setting"]["mask"]) for row in found["rows"]}
    assert len(seen) == 2 * len(NAMES) - 6  # six need the causal mask


def test_the_running_mean_is_what_a_causal_mask_needs_taken_off(tmp_path):
    """n = d = 128, L = 6, pre-norm and skip, 8 draws: rank kept, gradient held, and 11^T/n is no substitute."""
    results = run(
        EXPERIMENT,
        n=128,
        width=128,
        depth=6,
        mask="causal",
        variant=("plain", "outlier_removed", "running_mean_removed"),
        draws=8,
        out=str(tmp_path),
        quiet=True,
    )
    found = {claim["claim"].partition(": ")[2] or claim["claim"]: claim["verdict"] for claim in results.claims}
    assert found["taking off 11^T/n instead of the running mean does as well for the last rank"] == "contradicted"
    repaired = results.draws("token_stable_rank", variant="running_mean_removed")[:, -1]
    assert repaired.min() > 5 * results.draws("token_stable_rank", variant="plain")[:, -1].max()
    assert results.draws("frozen_gradient_factor", variant="running_mean_removed").max() < 1.5
    assert np.abs(results.draws("token_cosine", variant="running_mean_removed")[:, -1]).max() < 0.01

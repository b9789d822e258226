"""reference_figures: the contract, and figure VII against its published numbers."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from rmt.experiments.run import run
from simulations.networks import published
from simulations.pages.reference_figures import fuss_catalan_ratio
from simulations.reference_figures import EXPERIMENT
from tests.experiments.document import SCHEMA


def refuse_nan(text):
    pytest.fail(f"{text} in the JSON document")


def test_figure_vii_in_seconds_within_what_was_read_off(tmp_path):
    """T = 150, nine configurations, 5 runs: no number read off is contradicted, and the collapsed ones stay collapsed."""
    results = run(EXPERIMENT, panels="VII", draws=5, out=str(tmp_path), quiet=True)
    assert [claim["claim"] for claim in results.claims if claim["verdict"] == "contradicted"] == []
    samples = next(iter(results.samples.values()))
    assert set(samples) == {f"gram_stable_rank, {name}" for name in published.NINE}
    for name in ("A", "A, norm", "A, skip", "A, skip, norm"):
        assert samples[f"gram_stable_rank, {name}"][:, -1].max() < 1.01
    assert (results.frame()["verdict"] != "contradicted").all()


def test_a_causal_spectrum_is_its_diagonal_and_the_document_keeps_the_contract(capsys, tmp_path):
    words = ["--panels", "IV", "--draws", "2", "--format", "json", "--quiet", "--out", str(tmp_path), "--no-figure"]
    assert run_experiment(EXPERIMENT, words) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    jsonschema.validate(found, SCHEMA)
    assert any(claim["verdict"] == "supported" for claim in found["claims"])


def test_an_unknown_panel_is_refused(capsys, tmp_path):
    assert run_experiment(EXPERIMENT, ["--panels", "XII", "--out", str(tmp_path), "--no-figure"]) == 2
    assert "--panels XII: must be one of I, II" in capsys.readouterr().err


def test_the_limit_ratios_are_the_printed_ones():
    """.125 .0658 .0444 (identity, orders 1 to 3) and .0658 .0336 (removed, orders 2 and 4)."""
    np.testing.assert_allclose(
        [fuss_catalan_ratio(k) for k in (1, 2, 3, 4)], [0.125, 0.0658, 0.0445, 0.0336], atol=2e-4
    )

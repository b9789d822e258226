"""edge_fluctuations from the command line at small sizes."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from rmt.experiments.run import run
from simulations.edge_fluctuations import EXPERIMENT
from tests.experiments.document import SCHEMA


def test_small_run_is_supported_and_reads_well(capsys, tmp_path):
    """n = 64, 16 batches of 64: the mean of 1024 edges, error .04, band .09 to .24 around it."""
    arguments = ["--n", "64", "--weights", "exponential", "--batch", "64", "--format", "json", "--quiet", "--check"]
    assert run_experiment(EXPERIMENT, [*arguments, "--no-figure", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    assert found["rows"][0]["quantity"] == "edge_coordinate" and found["rows"][0]["verdict"] != "contradicted"


def test_coordinates_are_those_of_a_dense_svd(tmp_path):
    """Independent oracle: LAPACK's largest singular value of the same matrices, batch after batch."""
    from rmt.ensembles.markov import MarkovAttention
    from rmt.streams import stream
    from rmt.theorems.edge_fluctuations import EdgeFluctuation

    results = run(EXPERIMENT, n=24, weights="uniform", batch=3, draws=2, out=str(tmp_path), quiet=True)
    scaling = EdgeFluctuation(24, None, weights="uniform").scaling
    for number, xi in enumerate(results.samples[results.settings[0]]["_edge_coordinate"].ravel()):
        A = np.asarray(MarkovAttention(24, weights="uniform").matrix(stream(0), number).dense(), dtype=float)
        top = np.linalg.norm(A - A.mean(0), ord=2)
        assert xi == pytest.approx(scaling.standardise(24 * top**2), abs=1e-3)


def test_page_draws_both_models(tmp_path):
    results = run(EXPERIMENT, n=(32, 64), model="keyquery", beta=0.5, batch=2, draws=2, out=str(tmp_path), quiet=True)
    assert len(EXPERIMENT.figure(results).axes) == 2

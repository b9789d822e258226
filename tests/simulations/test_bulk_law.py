"""bulk_law from the command line at small sizes, and the decided share of the full one."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from rmt.experiments.run import run
from simulations.bulk_law import EXPERIMENT
from tests.experiments.document import SCHEMA


def document(capsys, *arguments, code=0):
    assert run_experiment(EXPERIMENT, [*arguments, "--format", "json", "--quiet", "--no-figure"]) == code
    return json.loads(capsys.readouterr().out)


def decided(rows):
    judged = [row for row in rows if row["verdict"] not in ("no prediction", "out of range")]
    return np.mean([row["verdict"] != "undecided" for row in judged])


def test_small_spectra_follow_their_law_and_not_the_rival(capsys, tmp_path):
    found = document(capsys, "--n", "320", "--draws", "8", "--check", "--out", str(tmp_path))
    jsonschema.validate(found, SCHEMA)
    assert decided(found["rows"]) >= 0.8
    assert [claim["verdict"] for claim in found["claims"][:2]] == ["supported", "contradicted"]
    assert (
        found["claims"][2]["verdict"] == "contradicted"
    )  # lognormal entries of beta .83 are no Gaussian ones at n = 320


def test_spectra_are_those_of_a_dense_svd(tmp_path):
    """Independent oracle: LAPACK on the same matrix, and the exact zero left out."""
    from rmt.ensembles.markov import MarkovAttention
    from rmt.streams import stream

    results = run(EXPERIMENT, n=48, model="iid", draws=1, dtype="float64", out=str(tmp_path), quiet=True)
    A = np.asarray(MarkovAttention(48, results.settings[0].beta).matrix(stream(0), 0, dtype=np.float64).dense())
    values = np.sqrt(48) * np.linalg.svd(A - A.mean(0), compute_uv=False)
    assert values[-1] < 1e-6
    assert results.draws("_spectrum")[0] == pytest.approx(values[:-1], abs=1e-6)


def test_page_has_two_panels_a_setting(tmp_path):
    results = run(EXPERIMENT, n=64, weights=("uniform", "lognormal"), draws=2, out=str(tmp_path), quiet=True)
    assert len(EXPERIMENT.figure(results).axes) == 2 * 3


@pytest.mark.slow
def test_full_size_decides_its_rows(capsys, tmp_path):
    arguments = ("--n", "1024", "--model", "iid", "keyquery", "--mask", "none", "causal", "--check")
    found = document(capsys, *arguments, "--out", str(tmp_path))
    assert decided(found["rows"]) >= 0.8
    verdicts = [claim["verdict"] for claim in found["claims"][:4]]
    assert verdicts == ["supported"] + 3 * ["contradicted"]
    assert verdicts == [claim["expected"] for claim in found["claims"][:4]]


def test_causal_light_weights_are_left_out(capsys, tmp_path):
    arguments = ["--weights", "uniform", "--model", "iid", "--mask", "causal", "--out", str(tmp_path), "--no-figure"]
    assert run_experiment(EXPERIMENT, arguments) == 2
    assert "choose --weights lognormal or --mask none" in capsys.readouterr().err

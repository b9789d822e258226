"""jacobian_conditioning from the command line: errors, verdicts of the paper's claims, and every kind of attention."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from simulations.claims.jacobian_conditioning import rank_claim
from simulations.jacobian_conditioning import EXPERIMENT, Setting
from tests.experiments.document import SCHEMA


def refuse_nan(text):
    pytest.fail(f"{text} in the JSON document")


def document(capsys, tmp_path, *arguments):
    where = ["--out", str(tmp_path), "--figure", str(tmp_path / "page.png"), "--quiet", "--format", "json"]
    assert run_experiment(EXPERIMENT, [*arguments, *where]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.mark.parametrize(
    "arguments, fragment",
    [
        (("--n", "1"), "--n 1"),
        (("--attention", "xcit", "--value-dim", "3"), "xcit needs them equal"),
        (("--attention", "window", "--mask", "causal"), "only softmax has masks"),
        (("--attention", "nystrom", "--landmarks", "9"), "landmarks <= n"),
        (("--correction", "magic"), "--correction magic"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(arguments, fragment, capsys, tmp_path):
    assert run_experiment(EXPERIMENT, [*arguments, "--out", str(tmp_path), "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and fragment in printed.err and "Traceback" not in printed.err


def test_the_default_sweep_judges_the_paper(capsys, tmp_path):
    found = document(capsys, tmp_path, "--draws", "12")
    rows = [row for row in found["rows"] if row["predicted"] is not None]
    assert {row["verdict"] for row in rows} == {"supported"}
    assert {"smallest_over_mixed", "condition_over_bound", "query_condition"} <= {row["quantity"] for row in rows}
    verdicts = {claim["claim"].partition(": ")[2] or claim["claim"]: claim["verdict"] for claim in found["claims"]}
    assert verdicts["the SVD correction lowers kappa(J)"] == "contradicted"
    assert verdicts["a shift of 10 lowers kappa(J)"] == "supported"
    assert (
        verdicts[
            "the bound of Theorem 3.4 is finite, read literally (no singular value of the softmax derivative is 0)"
        ]
        == "contradicted"
    )
    assert verdicts["Theorem 3.4 over non-zero singular values holds for every W_V"] == "contradicted"
    assert not [
        c
        for c in found["claims"]
        if c["verdict"] in ("supported", "contradicted") and c["expected"] not in (None, c["verdict"])
    ]
    assert (tmp_path / "page.png").exists()


def test_every_kind_of_attention_and_a_singular_jacobian(capsys, tmp_path):
    arguments = ["--attention", "softmax", "window", "xcit", "nystrom", "--width", "12", "--head-dim", "4", "--n", "12"]
    found = document(capsys, tmp_path, *arguments, "--correction", "none", "shift", "--draws", "4")
    kinds = {row["setting"]["attention"] for row in found["rows"] if row["quantity"] == "jacobian_condition_number"}
    assert kinds == {"softmax", "window", "xcit", "nystrom"}


def test_settings_forget_what_does_not_apply():
    assert Setting() == Setting(shift=3.0, window=9, landmarks=2, norm="preserved", corrected="v")
    assert Setting(correction="orthogonal_shared").norm == "preserved"
    assert Setting(correction="svd", shift=2.0).shift is None


def test_rank_claims_decide_with_enough_draws():
    """Normal draws from a fixed seed: correlation .95 of 60 draws has interval about [.92, .97]."""
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((2, 60))
    assert rank_claim("", x, x + 0.2 * noise, None, "s").verdict == "supported"
    assert rank_claim("", x, noise, None, "s").verdict == "contradicted"
    assert rank_claim("", x[:5], noise[:5], None, "s").verdict == "undecided"

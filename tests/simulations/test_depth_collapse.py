"""depth_collapse from the command line and from Python: errors, contract, agreement with theory."""

import json

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import main, run_experiment
from rmt.experiments.run import run
from simulations.depth_collapse import EXPERIMENT
from simulations.networks.measure import bfloat16
from tests.experiments.document import SCHEMA


def refuse_nan(text):
    pytest.fail(f"{text} in the JSON document")


@pytest.mark.parametrize(
    "arguments, fragment",
    [
        (("--depth", "0"), "--depth 0: must be an integer >= 1"),
        (("--heads", "3"), "--heads 3: must divide the value width"),
        (("--heads", "4", "--kv-heads", "3"), "--kv-heads 3: must divide --heads 4"),
        (("--variant", "magic"), "--variant magic: must be one of plain"),
        (("--variant", "running_mean_removed"), "it needs --mask causal"),
        (("--beta", "1e5"), "--beta 100000.0: must be a finite number >= 0 and <= 10000"),
        (("--skip-scale", "much"), "--skip-scale much: must be a number >= 0 or one of 1/sqrtL"),
        (("--tokens", "orthonormal", "--n", "64", "--width", "32"), "needs n <= width"),
        (("--tokens", "words"), "must be orthonormal, gaussian or the path of a .npy file"),
        (("--tokens", "missing.npy"), "cannot be read"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(arguments, fragment, capsys, tmp_path):
    assert run_experiment(EXPERIMENT, [*arguments, "--out", str(tmp_path), "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and fragment in printed.err


@pytest.mark.parametrize(
    "array, fragment",
    [
        (np.full((8, 16), np.nan), "needs finite numbers"),
        (np.zeros((16, 8)), "must be (8, 16)"),
        (np.zeros((8, 16), complex), "needs finite numbers"),
    ],
)
def test_unusable_token_files_are_refused(array, fragment, capsys, tmp_path):
    np.save(tmp_path / "tokens.npy", array)
    words = ["--n", "8", "--width", "16", "--tokens", str(tmp_path / "tokens.npy"), "--out", str(tmp_path / "store")]
    assert run_experiment(EXPERIMENT, [*words, "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and fragment in printed.err


def test_tokens_of_a_file_are_used_and_a_changed_file_is_noticed(tmp_path):
    generator = np.random.default_rng(0)
    path = tmp_path / "tokens.npy"
    np.save(path, generator.standard_normal((8, 16)))
    words = {"n": 8, "width": 16, "tokens": str(path), "variant": "identity", "depth": 1, "draws": 2, "quiet": True}
    first = run(EXPERIMENT, **words, out=str(tmp_path / "store"))
    (setting,) = first.settings
    assert setting.tokens.startswith(f"{path}#")
    np.save(path, generator.standard_normal((8, 16)))
    with pytest.raises(ValueError, match="has changed"):
        type(setting)(n=8, width=16, tokens=setting.tokens)


def test_the_document_keeps_the_contract_at_tiny_sizes(capsys, tmp_path):
    words = ["--n", "1", "2", "5", "--depth", "2", "--beta", "0", "0.8", "--draws", "2", "--format", "json", "--quiet"]
    assert run_experiment(EXPERIMENT, [*words, "--out", str(tmp_path), "--no-figure"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    jsonschema.validate(found, SCHEMA)
    assert {row["index"].get("layer") for row in found["rows"]} >= {1, 2}


def test_ranks_along_depth_agree_with_theory(tmp_path):
    """n = d = 256, 16 draws, 4 layers, kept and removed: no row contradicts (family-wise rate 1e-3), most are decided."""
    results = run(EXPERIMENT, n=256, depth=4, draws=16, out=str(tmp_path), quiet=True)
    frame = results.frame()
    judged = frame[frame["verdict"].isin(["supported", "undecided", "contradicted"])]
    assert (judged["verdict"] != "contradicted").all(), judged[judged["verdict"] == "contradicted"]
    assert (judged["verdict"] == "supported").mean() > 0.6
    wrong = results.draws("gram_stable_rank_excess", variant="plain")[:, 1] * 2  # negative control
    from rmt.statistics.compare import judge

    prediction = EXPERIMENT.predict(results.where(variant="plain")[0])["gram_stable_rank_excess"][2]
    assert judge(wrong, prediction, comparisons=50).verdict == "contradicted"


def test_bfloat16_rounds_to_nearest_even():
    """Closed form: 8 significant bits."""
    assert bfloat16(np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-7, -3.14159])).tolist() == [
        1.0,
        1 + 2.0**-6,
        1 + 2.0**-7,
        -3.140625,
    ]


def test_in_bfloat16_plain_attention_becomes_one_token(tmp_path):
    """Collapse is seen in bfloat16 at the layer where it is in double: 1 - cosine passes 2^-8."""
    words = {"n": 64, "depth": 4, "variant": "plain", "draws": 2, "quiet": True, "out": str(tmp_path)}
    layers = [run(EXPERIMENT, **words, precision=p).samples for p in ("double", "bf16")]
    measured = [next(iter(found.values()))["collapse_depth_bf16"] for found in layers]
    assert np.array_equal(measured[0], measured[1]) and np.isfinite(measured[0]).all()


def test_spectra_along_depth_count_outliers_and_entropy(tmp_path):
    """n = 64, uniform attention (beta = 0): entropy ln n, one outlier; iid logits: one outlier in every layer."""
    words = {
        "n": 64,
        "depth": 2,
        "draws": 2,
        "spectrum": "full",
        "variant": "plain",
        "quiet": True,
        "out": str(tmp_path),
    }
    uniform = next(iter(run(EXPERIMENT, **words, beta=0.0).samples.values()))
    np.testing.assert_allclose(uniform["attention_entropy"], np.log(64), rtol=1e-6)
    noisy = next(iter(run(EXPERIMENT, **words, beta=0.3).samples.values()))
    assert (uniform["outlier_count"] == 1).all() and (noisy["outlier_count"] == 1).all()
    assert (noisy["attention_entropy"] < np.log(64)).all() and (noisy["gap_ratio"] < 0.15).all()


def test_several_heads_are_judged_and_drawn(tmp_path, capsys):
    """Regression: claims and curves against n were looked for at width 1, which no two heads can share."""
    arguments = ("--n", "8", "12", "20", "--heads", "2", "--depth", "2", "--draws", "2", "--quiet", "--format", "json")
    for name in ("depth_collapse", "gradient_norms", "cause_and_effect"):
        page = tmp_path / f"{name}.png"
        assert main([name, *arguments, "--out", str(tmp_path), "--figure", str(page)]) == 0
        assert page.exists() and json.loads(capsys.readouterr().out)["rows"]

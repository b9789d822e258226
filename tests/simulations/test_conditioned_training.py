"""conditioned_training: settings, ListOps, refusals and claims without torch; data, variants and small runs with it (models)."""

import json
import math

import jsonschema
import numpy as np
import pytest

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench
from rmt.experiments.results import Results
from rmt.experiments.setting import Meaningless
from rmt.streams import stream
from simulations.claims.conditioned_training import all_claims, arms, effect_claim, sentence
from simulations.conditioned_training import EXPERIMENT, Setting, main
from simulations.training.data import LISTOPS, listops, listops_value, load, patches, text
from tests.experiments.document import SCHEMA

SMALL = ("--steps", "10", "--draws", "2", "--batch", "16", "--width", "8", "--rate", "0.003")


def test_settings_forget_what_does_not_apply():
    assert Setting(shift=3.0) == Setting() and Setting(variant="shift", shift=3.0).shift == 3.0
    assert Setting(n=64).n == 16 and Setting(task="listops", n=64).n == 64
    assert Setting(variant="outlier_removed", keep_norm="yes", corrected="v").corrected == "qkv"


@pytest.mark.parametrize(
    "fields, fragment",
    [
        ({"width": 9}, "split into 2 heads"),
        ({"task": "causal-lm", "attention": "window"}, "causal mask"),
        ({"attention": "xcit", "variant": "outlier_removed"}, "no outlier"),
        ({"task": "listops", "images": "."}, "classified only"),
    ],
)
def test_combinations_without_meaning(fields, fragment):
    with pytest.raises(Meaningless, match=fragment):
        Setting(**fields)


def test_a_missing_folder_is_refused(capsys, tmp_path):
    assert main(["--images", str(tmp_path / "none"), "--out", str(tmp_path), "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "is no folder" in printed.err and printed.err.count("\n") == 1


def test_a_missing_package_is_one_line_with_the_command(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["--out", str(tmp_path), "--no-figure"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "pip install 'rmt-attention[torch]'" in printed.err and printed.err.count("\n") == 1


def test_listops_expressions_have_their_values():
    assert [listops_value(op, [3, 9, 4, 9]) for op in ("[MAX", "[MIN", "[MED", "[SM")] == [9, 3, 4, 5]
    inputs, labels = listops(stream(0), 0, 200, 24)
    for tokens, label in zip(inputs, labels, strict=True):
        words = [LISTOPS[t] for t in tokens]
        assert _value(iter(words)) == label and words.count("]") == sum(w.startswith("[") for w in words)
    assert len(set(labels)) == 10


def _value(words, operator=None):
    """An independent reading: a recursive parser."""
    operator = operator or next(words)
    values = []
    for word in words:
        if word == "]":
            return listops_value(operator, values)
        values.append(_value(words, word) if word.startswith("[") else int(word))
    raise AssertionError("no closing bracket")


def test_text_windows_and_patches():
    data = load("causal-lm", stream(0), 0, n=32)
    assert data.inputs.shape == (1500, 32) and np.array_equal(data.inputs[:, 1:], data.targets[:, :-1])
    hidden = load("masked-lm", stream(0), 0, n=32)
    assert np.array_equal(hidden.targets >= 0, hidden.inputs == 256)
    assert abs((hidden.targets >= 0).mean() - 0.15) < 0.01  # 48000 bytes: standard error .0016
    assert len(text()) > 10**5
    pixels = np.arange(64.0).reshape(1, 8, 8)
    assert patches(pixels)[0, 1].tolist() == [2, 3, 10, 11]


def test_effects_are_judged_by_their_interval():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(8)
    assert effect_claim("", 5 + noise, 1.0, "", "").verdict == "supported"
    assert effect_claim("", -50 + noise, 1.0, "", "").verdict == "contradicted"
    assert effect_claim("", noise, 1.0, "", "").verdict == "undecided"
    assert effect_claim("", np.array([1.0, math.nan]), 1.0, "", "").verdict == "undecided"


def results_of(values):
    """Results with given accuracies: {(variant, rate): (validation, test)}; everything else is noise of a fixed seed."""
    rng = np.random.default_rng(1)
    samples = {}
    for (variant, rate), (validation, test) in values.items():
        setting = Setting(variant=variant, rate=rate)
        sample = {
            name: rng.uniform(1, 2, 4)
            for name in ("test_loss", "generalisation_gap", "steps_to_goal", "initial_jacobian_condition")
        }
        sample |= {
            f"_{name}": rng.uniform(1, 2, (4, 5))
            for name in ("query_smallest", "query_condition", "jacobian_condition_number")
        }
        sample |= {
            "validation_accuracy": validation + 0 * rng.uniform(size=4),
            "test_accuracy": test + 0.001 * rng.uniform(size=4),
        }
        sample |= {
            "parameters": np.full(4, 9.0),
            "_held_bytes": np.full(4, 1.0),
            "_time_ratio": rng.uniform(1, 1.01, 4),
        }
        samples[setting] = sample
    return Results(EXPERIMENT, 0, "cpu", {}, samples)


def test_rates_are_chosen_by_validation_and_effects_paired():
    results = results_of(
        {
            ("none", 1e-3): (0.8, 0.7),
            ("none", 1e-2): (0.7, 0.9),
            ("shift", 1e-3): (0.6, 0.99),
            ("shift", 1e-2): (0.9, 0.8),
        }
    )
    (group,) = arms(results).values()
    assert [arm.chosen.rate for arm in group] == [1e-3, 1e-2] and group[0].rates == (1e-3, 1e-2)
    claims = {claim.claim.partition(": ")[2]: claim for claim in all_claims(results)}
    assert claims["shift 0.5 raises the test accuracy"].verdict == "supported"
    assert claims["shift 0.5 raises the test accuracy"].measured == pytest.approx(0.1, abs=2e-3)
    assert claims["shift 0.5 adds no parameters"].verdict == "supported"
    assert sum("not run here" in claim.detail for claim in claims.values()) == sum(
        c.verdict == "undecided" and "points" in c.claim for c in claims.values()
    )
    assert "shift 0.5 +10.0" in sentence(results)


def refuse_nan(found):
    pytest.fail(f"{found} in the JSON document")


@pytest.mark.models
@pytest.mark.parametrize(
    "arguments",
    [
        ("--variant", "none", "shift", "svd", "outlier_removed", "alpha_from_0", "energy_matched", "residual_scaled"),
        ("--attention", "xcit", "nystrom", "window", "--variant", "none", "shift"),
        ("--task", "listops", "masked-lm", "causal-lm", "--n", "24", "--variant", "none", "orthogonal_shared"),
        ("--norm", "pre", "post", "none", "--depth", "3", "--variant", "none", "shift"),
    ],
)
def test_small_runs_of_everything(arguments, capsys, tmp_path):
    where = [
        "--out",
        str(tmp_path),
        "--figure",
        str(tmp_path / "page.png"),
        "--quiet",
        "--format",
        "json",
        "--shift",
        "0.5",
    ]
    assert main([*arguments, *SMALL, *where, "--executor", "serial"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_nan)
    jsonschema.validate(found, SCHEMA)
    losses = [row["measured"] for row in found["rows"] if row["quantity"] == "train_loss"]
    assert losses and all(math.isfinite(loss) for loss in losses) and (tmp_path / "page.png").exists()


@pytest.mark.models
def test_variants_start_from_the_same_weights_and_runs_repeat():
    from simulations.conditioned_training import measure

    runs = [
        measure(Setting(variant=v, steps=10, batch=16, width=8, shift=0.0), range(1), stream(0), Bench(None))
        for v in ("none", "none", "shift", "alpha_from_0")
    ]
    curves = [run["_losses"][0] for run in runs]
    assert np.array_equal(curves[0], curves[1])
    assert np.allclose(curves[2], curves[0], atol=1e-5)  # a shift of zero
    assert curves[3][0] == pytest.approx(curves[0][0], abs=1e-5)  # no outlier removed yet


@pytest.mark.models
def test_a_folder_of_images(tmp_path, capsys):
    from PIL import Image

    rng = np.random.default_rng(0)
    for kind, level in (("dark", 40), ("light", 200)):
        (tmp_path / "images" / kind).mkdir(parents=True)
        for number in range(30):
            pixels = np.clip(level + 30 * rng.standard_normal((20, 24)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / kind / f"{number}.png")
    arguments = [
        "--images",
        str(tmp_path / "images"),
        "--variant",
        "none",
        "--steps",
        "40",
        "--draws",
        "2",
        "--batch",
        "16",
    ]
    where = ["--out", str(tmp_path / "store"), "--no-figure", "--quiet", "--format", "json", "--rate", "0.003"]
    assert run_experiment(EXPERIMENT, [*arguments, *where, "--executor", "serial"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert next(row for row in rows if row["quantity"] == "test_accuracy")["measured"] > 0.9

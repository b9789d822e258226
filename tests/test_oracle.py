"""The oracle: every combination of flags is answered in under a second, with numbers or with the reason why not."""

import itertools
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rmt
from rmt.experiments.cli import main
from rmt.oracle import QUANTITIES, predict
from rmt.theorems.width import MASKS, MODELS, TOKENS, VARIANTS

ROOT = Path(__file__).resolve().parents[1]


def test_every_combination_is_answered_in_under_a_second_or_says_why_not():
    for n, model, mask, tokens, variant in itertools.product((1, 300, 131072), MODELS, MASKS, TOKENS, VARIANTS):
        start = time.process_time()
        found = predict(n, model=model, mask=mask, tokens=tokens, variant=variant, width=131072, value_width=128)
        assert time.process_time() - start < 1
        assert tuple(found) == QUANTITIES
        for entry in found.values():
            for form in entry.values() if isinstance(entry, dict) else [entry]:
                assert form.value is not None or form.validity


ANY = {
    "n": (1, 2, 7, 64, 300, 513, 4096, 131072, 10**6),
    "model": MODELS,
    "beta": (0.0, 0.1, 0.5, 0.83, 1.0, 1.4, 3.0, 10.0),
    "weights": ("lognormal", "uniform", "gamma"),
    "head_dim": (1, 8, 16, 64, 128),
    "mask": MASKS,
    "window": (8, 256),
    "tokens": ("independent", "gaussian", "layernorm"),
    "width": (16, 256, 4096),
    "value_width": (8, 64),
    "weight_init": ("gaussian", "orthogonal"),
    "heads": (1, 1, 2),
    "attention": ("softmax", "softmax", "softmax", "relu", "tanh"),
    "cap": (None, None, 2.0),
    "norm": ("none", "none", "qk"),
    "sink": (None, None, 3.0),
    "position": ("none", "rope", "alibi"),
    "slope": (0.01, 0.1),
    "variant": VARIANTS,
}


def test_any_mixture_of_options_is_answered_in_under_a_second_or_refused_in_one_line():
    """300 mixtures; what has no meaning names its flag and the rule, all else has every quantity."""
    generator, refused = random.Random(7), 0
    for _ in range(300):
        words = {name: generator.choice(values) for name, values in ANY.items()}
        start = time.process_time()
        try:
            found = predict(**words)
        except ValueError as reason:
            refused += 1
            assert any(str(reason).startswith(flag) for flag in ("weights", "norm", "position", "sink")), words
            continue
        assert time.process_time() - start < 1, words
        assert tuple(found) == QUANTITIES
    assert refused < 200


def test_the_call_that_users_quote():
    """Derived: at d_k = 128, beta = 1 the second value tends to .0886 and is .0928 to .093 at n = 1e5."""
    second = rmt.predict(n=131072, head_dim=128, beta=1)["second_singular_value"]
    assert 0.0886 < second.value < 0.095 and second.standing == "derived"
    assert second.band[0] < second.value < second.band[1]
    from rmt.oracle import predict as same

    assert rmt.predict is same  # also once the module has been imported


def test_a_causal_mask_has_a_ladder_at_any_size():
    """Derived: s_1 rises slowly to 2, and the number of values that stand out like ln n."""
    small, large = (rmt.predict(n=n, head_dim=128, beta=1, mask="causal") for n in (4096, 10**6))
    assert 1.8 < small["top_singular_value"].value < large["top_singular_value"].value < 2
    assert small["outlier_count"].value + 1 < large["outlier_count"].value < 8


def test_one_outlier_without_a_mask_and_silence_where_no_theorem_speaks():
    found = predict(1000)
    assert found["outlier_count"].value == 1
    assert found["effective_rank"].value is None and "no prediction" in found["effective_rank"].validity


@pytest.mark.parametrize(
    "changes, fragment",
    [
        ({"n": 0}, "n 0: must be an integer >= 1"),
        ({"n": 10, "beta": -1.0}, "beta -1.0: must be"),
        ({"n": 10, "beta": float("nan")}, "beta nan: must be"),
        ({"n": 10, "sink": float("nan")}, "sink nan: must be"),
        ({"n": 10, "mask": "foo"}, "mask foo: must be one of none, causal, window"),
        ({"n": 2000, "tokens": "orthonormal"}, "needs n <= width"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(changes, fragment, capsys):
    with pytest.raises(ValueError, match=fragment):
        predict(**changes)
    flags = itertools.chain(*((f"--{name}", str(value)) for name, value in changes.items()))
    assert main(["predict", *flags]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and fragment in printed.err


def test_the_command_prints_one_table_or_one_document(capsys):
    assert main(["predict", "--n", "4096", "--beta", "0.5"]) == 0
    assert "second_singular_value" in capsys.readouterr().out
    assert main(["predict", "--n", "4096", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["setting"]["n"] == 4096
    assert {row["quantity"] for row in document["predictions"]} == set(QUANTITIES)


def test_the_oracle_needs_numpy_and_scipy_only_and_about_a_second_from_a_cold_start():
    code = (
        "import sys, rmt; rmt.predict(n=131072, head_dim=128, mask='causal');"
        "print(sorted(set(sys.modules) & {'numba', 'pandas', 'matplotlib', 'seaborn', 'rich', 'threadpoolctl'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_sizes_at_the_border_get_numbers_or_one_line():
    import numpy as np

    assert predict(np.int64(10**10), head_dim=np.int32(64)) == predict(10**10, head_dim=64)
    with pytest.raises(ValueError, match="beta 1e"):
        predict(300, beta=1e200)
    narrow = predict(300, tokens="layernorm", width=2, head_dim=1)
    assert not narrow["top_singular_value"].in_range
    hot = predict(300, beta=4.0, head_dim=17, variant="centred")["frobenius_norm_squared"]
    assert hot.value is None and "beta <= 1" in hot.validity  # the formula gives a negative square there
    assert predict(1000, beta=1.0, variant="centred")["frobenius_norm_squared"].in_range
    assert not predict(300, cap=1e-300)["top_singular_value"].in_range


def test_a_window_over_very_many_tokens_takes_no_memory_for_them():
    """Closed form: n - w rows of the same energy, so the square grows linearly."""
    few, many = (predict(n, mask="window")["frobenius_norm_squared"].value for n in (10**6, 10**12))
    assert many / few == pytest.approx(1e6, rel=1e-3)

"""`rmt predict` against measurement: settings drawn at random over every option, none chosen by hand or left out."""

import random

import pytest

from rmt.experiments.setting import Meaningless, as_record
from rmt.oracle import predict
from rmt.statistics.compare import judge
from simulations.width_collapse import EXPERIMENT, Setting

OPTIONS = (
    {},
    {},
    {},
    {"cap": 2.0},
    {"sink": 3.0},
    {"norm": "qk"},
    {"position": "rope"},
    {"attention": "sigmoid"},
    {"attention": "relu"},
    {"attention": "tanh"},
    {"mask": "window", "window": 64},
    {"mask": "causal", "position": "alibi", "slope": 0.02},
    {"mask": "causal"},
    {"mask": "causal"},
)


def one_setting(generator):
    """Arguments that mean the same to `predict` and to width_collapse."""
    while True:
        words = {
            "n": generator.randrange(300, 701),
            "model": generator.choice(("iid", "keyquery")),
            "beta": round(generator.uniform(0.2, 1.0), 3),
            "weights": generator.choice(("lognormal", "lognormal", "exponential", "uniform", "gamma")),
            "head_dim": generator.choice((16, 32, 64)),
            "tokens": generator.choice(("independent", "independent", "orthonormal", "gaussian", "layernorm")),
            "weight_init": generator.choice(("gaussian", "gaussian", "uniform", "rademacher", "orthogonal")),
            "width": 704,
            "value_width": generator.choice((64, 128)),
            "variant": generator.choice(("plain", "plain", "outlier_removed", "centred", "running_mean_removed")),
            **generator.choice(OPTIONS),
        }
        try:
            return words, Setting(**words)
        except Meaningless:
            continue


def verdicts(seed, count, draws, folder):
    """Of every prediction in range of `count` settings; the family is all of them."""
    from rmt.experiments.run import run

    generator, judged, silent = random.Random(seed), [], 0
    for _ in range(count):
        words, setting = one_setting(generator)
        found = predict(**words)
        fields = {name: value for name, value in as_record(setting).items() if value is not None}
        results = run(EXPERIMENT, **fields, draws=draws, out=str(folder), quiet=True)
        assert list(results.samples) == [setting]
        for quantity, entry in found.items():
            for rank, form in (entry if isinstance(entry, dict) else {None: entry}).items():
                array = results.samples[setting].get(quantity)
                if form.value is None or array is None:
                    silent += 1
                    assert form.value is not None or form.validity
                    continue
                judged.append((setting, quantity, rank, array if rank is None else array[:, rank - 1], form))
    rows = [
        (setting, quantity, rank, judge(array, form, comparisons=len(judged)))
        for setting, quantity, rank, array, form in judged
    ]
    return rows, silent


def check(rows, decided):
    contradicted = [row for row in rows if row[3].verdict == "contradicted"]
    assert not contradicted, contradicted[:3]
    share = sum(row[3].verdict == "supported" for row in rows) / len(rows)
    assert share >= decided, share


def test_eight_random_settings(tmp_path):
    """None contradicted (false alarm 1e-3 over the family if every band holds), at least a third decided by 6 draws."""
    rows, _ = verdicts(1, 8, 6, tmp_path)
    assert len(rows) > 30
    check(rows, 1 / 3)


@pytest.mark.slow
def test_fifty_random_settings(tmp_path):
    """None contradicted (false alarm 1e-3 over the family if every band holds), at least 70 % decided by 24 draws."""
    rows, _ = verdicts(2, 50, 24, tmp_path)
    assert len(rows) > 300 and len({row[0] for row in rows}) >= 35
    check(rows, 0.7)

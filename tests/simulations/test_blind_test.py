"""blind_test: settings follow from the hash alone, coverage is counted rightly, and a band that is too tight is caught."""

import collections
import dataclasses
import json

import jsonschema
import pytest

from rmt.experiments.cli import run_experiment
from rmt.experiments.run import run
from rmt.streams import stream
from simulations.blind.draw import BETAS, SIZES, drawn, head, own_stream
from simulations.blind.score import REGIMES, Row, coverages, out_of_range_share, regime, rows_in_range
from simulations.blind_test import EXPERIMENT, SETTINGS, Setting
from tests.experiments.document import SCHEMA

HASH = "4f0c" * 10


def few(count):
    """The first layers of the hash that are quick to simulate and to predict."""
    numbers = range(1, SETTINGS + 1)
    return [k for k in numbers if drawn(HASH, k).n < 450 and drawn(HASH, k).mask == "none"][:count]


def test_settings_follow_from_the_hash_and_stay_in_the_stated_ranges():
    layers = [drawn(HASH, number) for number in range(1, SETTINGS + 1)]
    assert layers == [drawn(HASH, number) for number in range(1, SETTINGS + 1)]
    assert drawn("4f0d" * 10, 1) != layers[0]
    assert all(SIZES[0] <= one.n <= SIZES[1] for one in layers)
    assert all(one.beta is None or BETAS[0] <= one.beta <= BETAS[1] for one in layers)
    found = collections.Counter(regime(one) for one in layers)
    assert set(found) == set(REGIMES) and min(found.values()) >= 3


def test_matrices_are_the_hashes_own():
    assert own_stream(HASH, stream(0)) != own_stream("4f0d" * 10, stream(0)) != stream(0)
    assert own_stream(HASH, stream(1)) != own_stream(HASH, stream(0))


def test_the_commit_is_the_one_checked_out_unless_named():
    assert Setting().commit == head() and len(head()) == 40
    assert Setting(commit=HASH, number=3).layer == drawn(HASH, 3)
    with pytest.raises(ValueError, match="full hash of 40"):
        Setting(commit="4f0c")


def small():
    """The experiment with a family of three rows' settings, not of two hundred."""
    return dataclasses.replace(EXPERIMENT, sweep={"commit": (HASH,), "number": tuple(few(3))})


def test_small_run_prints_coverage_and_misses(capsys, tmp_path):
    numbers = few(3)
    arguments = ["--draws", "4", "--format", "json", "--quiet", "--no-figure"]
    assert run_experiment(small(), [*arguments, "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    assert any("out of range" in claim["claim"] for claim in found["claims"])
    rows = rows_in_range(found["rows"], {k: drawn(HASH, k) for k in numbers})
    assert len([claim for claim in found["claims"] if claim["claim"].startswith("miss")]) == sum(
        not row.held for row in rows
    )
    assert sum(one.rows for one in coverages(rows)) == len(rows)


def row(number, measured, interval, band=(0.9, 1.1)):
    return Row(number, drawn(HASH, number), "second_singular_value", 1.0, measured, band, interval)


def test_coverage_counts_rows_and_settings():
    """Closed form: three of four rows held, one of the misses clear."""
    same = next(k for k in range(2, SETTINGS) if regime(drawn(HASH, k)) == regime(drawn(HASH, 1)))
    rows = [row(1, 1.0, None), row(1, 1.05, None), row(same, 1.0, None), row(same, 1.3, (1.2, 1.4))]
    (one,) = coverages(rows)
    assert (one.settings, one.rows, one.held, one.clear_misses, one.share) == (2, 4, 3, 1, 0.75)
    assert coverages(rows[:1])[0].interval == (0.025, 1.0)  # one setting without a miss says little
    assert not row(1, 1.15, (1.0, 1.3)).clear and not row(1, 1.15, (1.0, 1.3)).held


def test_bands_half_as_wide_hold_less():
    """Negative control: narrowing every band must lower the count of rows held."""
    rows = [row(1, 1.0 + away, None) for away in (-0.09, -0.02, 0.0, 0.03, 0.08)]
    tight = [dataclasses.replace(one, band=(0.95, 1.05)) for one in rows]
    assert coverages(rows)[0].held == 5 and coverages(tight)[0].held == 3


def test_the_share_out_of_range_leaves_out_what_no_theorem_speaks_of():
    rows = [{"verdict": word} for word in ("supported", "out of range", "no prediction", "undecided")]
    assert out_of_range_share(rows) == pytest.approx(1 / 3)


def test_page_draws(tmp_path):
    results = run(small(), number=few(2), draws=2, out=str(tmp_path), quiet=True)
    assert len(EXPERIMENT.figure(results).axes) == 2

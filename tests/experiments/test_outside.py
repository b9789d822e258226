"""Experiments from outside: a file of one's own with a neighbour it imports, in spawned workers, and their papers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rmt.experiments.cite import bibliography, citations
from rmt.experiments.cli import main
from rmt.experiments.experiment import load
from simulations.width_collapse import EXPERIMENT

ROOT = Path(__file__).resolve().parents[2]
NEIGHBOUR = "def third(values):\n    return (values**3).mean()\n"
MINE = '''"""Mine: the third moment of normal numbers."""
import dataclasses
import os
import neighbour
import numpy as np
from rmt.experiments.experiment import Experiment
from rmt.experiments.setting import check_fields, integer
from rmt.kernels import kernels_for

@dataclasses.dataclass(frozen=True)
class Setting:
    n: int = integer(64, "numbers")
    def __post_init__(self):
        check_fields(self)

def measure(setting, draws, stream, bench):
    rows = [kernels_for(bench.backend).variates(stream.words("x", draw), 0, 1, setting.n)[0] for draw in draws]
    return {"third_moment": np.array([neighbour.third(row) for row in rows]), "_worker": np.full(len(rows), os.getpid())}

EXPERIMENT = Experiment("mine", Setting, measure, sweep={"n": (16, 32)})
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "neighbour.py").write_text(NEIGHBOUR)
    return tmp_path


def test_a_file_of_ones_own_in_spawned_workers(folder):
    """Serial and two spawned processes store the same numbers; the folder need not be the working folder."""
    outputs = []
    for name in ("serial", "processes"):
        command = [sys.executable, "-m", "simulations", str(folder / "mine.py"), "--executor", name, "--workers", "2"]
        done = subprocess.run(
            [*command, "--out", str(folder / name), "--draws", "8", "--format", "json", "--quiet"],
            check=True, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        outputs.append(done.stdout.split('"rows"')[1])
    assert outputs[0] == outputs[1] and "third_moment" in outputs[0]


def test_a_module_of_ones_own_from_python(folder):
    """run(my_module.EXPERIMENT) with spawned workers, from a script with a __main__ guard."""
    (folder / "script.py").write_text(
        "import os, mine, rmt\n"
        "if __name__ == '__main__':\n"
        "    found = rmt.run(mine.EXPERIMENT, n=(16, 32), draws=8, executor='processes', workers=2, quiet=True, out='store')\n"
        "    workers = {int(w) for arrays in found.samples.values() for w in arrays['_worker']}\n"
        "    print(len(found.samples), os.getpid() not in workers)\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], check=True, capture_output=True, text=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.split() == ["2", "True"]


def test_cite_prints_the_papers_behind_the_predictions(capsys):
    assert main(["cite", "width_collapse", "--n", "256", "--model", "iid"]) == 0
    printed = capsys.readouterr().out
    assert "@inproceedings{nait-saada2024," in printed and "{bordenave2012," in printed
    assert printed.count("@") >= 2 and "softmax-dynamics" not in printed


def test_cite_without_papers_and_with_bad_flags(folder, capsys):
    assert main(["cite", str(folder / "mine.py")]) == 0
    printed = capsys.readouterr()
    assert printed.out == "" and "no paper is behind its predictions" in printed.err
    assert main(["cite", "width_collapse", "--n", "0"]) == 2
    assert main(["cite", "nowhere"]) == 2
    assert main(["cite"]) == 2
    capsys.readouterr()


def test_every_entry_has_a_key_and_citations_are_entries():
    entries = bibliography()
    assert len(entries) >= 8 and all(entry.startswith("@") for entry in entries.values())
    assert set(citations(EXPERIMENT, {"n": (256,)})) <= set(entries.values())
    assert load(str(ROOT / "tests" / "experiments" / "toy.py")).name == "toy"

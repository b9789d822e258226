"""The notebooks run from the first cell to the last, in a process of their own and from their own folder's root."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run(cells, folder):
    """Run cells one after the other, in one namespace, with warnings as errors."""
    program = "\n".join(f"exec(compile({cell!r}, 'cell {at}', 'exec'), names)" for at, cell in enumerate(cells, 1))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", "names = {'__name__': '__main__'}\n" + program],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_there_are_notebooks():
    assert NOTEBOOKS and [path.name[:2] for path in NOTEBOOKS] == [f"{at:02}" for at in range(1, len(NOTEBOOKS) + 1)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    done = run(code(path), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")


def test_a_broken_cell_is_found(tmp_path):
    """Negative control."""
    assert run(["x = 1", "assert x == 2"], tmp_path).returncode != 0

"""The arrows of the design: imports run one way, and the two books never meet but in statistics and simulations."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"matplotlib", "seaborn", "pandas", "cupy", "torch"}

# Each part may import itself, the parts named, and what they may import.
BELOW = {
    "arrays": [],
    "parser": [],
    "streams": ["arrays"],
    "kernels": ["streams", "arrays"],
    "linalg": ["kernels"],
    "ensembles": ["linalg"],
    "attention": ["ensembles"],
    "regression": ["attention"],
    "observables": ["attention"],
    "laws": [],
    "theorems": ["laws"],
    "propagation": ["laws"],
    "oracle": ["theorems", "propagation", "parser"],
    "statistics": ["theorems"],  # of which only rmt.theorems.prediction, see below
    "figures": ["statistics", "laws"],
    "experiments": ["statistics", "figures", "streams", "arrays", "kernels", "doctor", "oracle"],
    "preflight": ["oracle", "attention", "observables", "statistics"],
    "pytorch": [],
    "doctor": ["arrays", "kernels", "parser"],
}


def allowed(part):
    found, todo = {part}, [part]
    while todo:
        for below in BELOW[todo.pop()]:
            if below not in found:
                found.add(below)
                todo.append(below)
    return found


def sources():
    return sorted((ROOT / "rmt").rglob("*.py"))


def imports(path, *, top_level_only=False):
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(path):
    return path.relative_to(ROOT / "rmt").with_suffix("").parts[0]


def wrong_arrows(path, part):
    for name in imports(path):
        pieces = name.split(".")
        if pieces[0] == "rmt" and len(pieces) > 1 and pieces[1] in BELOW and pieces[1] not in allowed(part):
            yield f"{path.name} imports {name}"
        if pieces[0] == "simulations":
            yield f"{path.name} imports {name}"


def test_every_part_has_its_place():
    parts = {part_of(path) for path in sources()} - {"__init__"}
    assert parts <= set(BELOW), f"give {parts - set(BELOW)} a place in BELOW"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path):
    part = part_of(path)
    if part != "__init__":
        assert list(wrong_arrows(path, part)) == []


def test_a_wrong_arrow_is_found(tmp_path):
    """Negative control."""
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from rmt.ensembles.markov import MarkovAttention\n")
    assert list(wrong_arrows(bad, "theorems"))
    assert not list(wrong_arrows(bad, "observables"))


def test_statistics_sees_of_the_theory_only_the_forms_of_predictions():
    for path in (ROOT / "rmt" / "statistics").glob("*.py"):
        names = [name for name in imports(path) if name.startswith(("rmt.theorems", "rmt.laws"))]
        assert all(name.startswith("rmt.theorems.prediction") for name in names), path.name


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_heavy_import_on_top_of_a_module(path):
    if part_of(path) in ("figures", "pytorch"):
        return
    assert not {name.split(".")[0] for name in imports(path, top_level_only=True)} & HEAVY


@pytest.mark.parametrize(
    "module, absent",
    [
        ("rmt.laws.hermite", {"numba", *HEAVY}),
        ("rmt.oracle", {"numba", *HEAVY}),
        ("simulations.width_collapse", {"numba", "scipy", *HEAVY}),
        ("rmt.ensembles.markov", {"numba", *HEAVY}),
    ],
)
def test_importing_a_module_leaves_these_packages_alone(module, absent):
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & {absent!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []

"""The face of rmt.laws: every name is there, and importing them all stays light."""

import ast
import importlib
import pathlib
import statistics
import subprocess
import sys

import pytest

import rmt.laws


def test_every_public_name_loads_and_is_listed():
    assert rmt.laws.__all__ == sorted(rmt.laws.__all__)
    assert set(rmt.laws._HOME) == set(rmt.laws.__all__) == set(dir(rmt.laws))
    for name in rmt.laws.__all__:
        assert getattr(rmt.laws, name) is getattr(importlib.import_module(f"rmt.laws.{rmt.laws._HOME[name]}"), name)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        rmt.laws.Nonsense  # noqa: B018


def test_names_for_type_checkers_are_the_same():
    """The block under TYPE_CHECKING and the table of homes say the same."""
    tree = ast.parse(pathlib.Path(rmt.laws.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    found = {alias.name: node.module.removeprefix("rmt.laws.") for node in block.body for alias in node.names}
    assert found == rmt.laws._HOME


HEAVY = ("numba", "matplotlib", "pandas", "cupy", "torch", "seaborn")


def test_all_laws_together_import_nothing_heavy():
    code = f"from rmt.laws import *; import sys; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def seconds_to(statement):
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return statistics.median(float(run.stdout) for run in runs)


@pytest.mark.slow
def test_import_takes_no_longer_than_one_and_a_half_scipy_stats():
    """Median of five fresh processes each; every law loaded, not only the lazy face."""
    assert seconds_to("from rmt.laws import *") <= 1.5 * seconds_to("import scipy.stats")

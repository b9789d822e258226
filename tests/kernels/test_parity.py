"""One oracle, one compiled twin: equal bits for every law, dtype, mask, size, shift and tiling, on any CPU."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from rmt.kernels import cpu, reference
from rmt.kernels.rows import LAWS
from tests.kernels import golden

WORDS = (1, 2, 4, 3)
HASHES = {
    "lognormal": "bfce479008bd577e3dbc9001598677dbbcb1a7eada22e6913632d875fc2785b4",
    "exponential": "7b5c798b6e050debdce2cab6af9c9e70cc6b97e712aeef14b12f67a823bc230b",
    "uniform": "1ccc12b3bb6f9d2c37ca9b93a67c23b3f381c070193d903844fa43f683088d47",
    "gamma": "5d8fb71454861b7eedc57b646f50b63aff567c4278c650ac0859de68f19657c9",
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("columns", [1, 63, 64, 65, 200])
def test_variates(law, columns):
    drawn = cpu.variates(WORDS, 5, 12, columns, law=law)
    assert drawn.shape == (7, columns) and drawn.dtype == np.float32
    np.testing.assert_array_equal(drawn, reference.variates(WORDS, 5, 12, columns, law=law))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beta", [0.0, 1.0, 20.0])
def test_markov_rows(law, dtype, causal, beta):
    for n, start in ((1, 0), (3, 0), (130, 60)):
        assert_same(
            lambda kernels, out, column_sums, start=start: kernels.markov_rows(
                WORDS, start, out, beta=beta, law=law, causal=causal, column_sums=column_sums
            ),
            lambda n=n: np.full((min(n, 7), n), np.nan, dtype),
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_softmax_rows(dtype, causal, scale):
    logits = scale * cpu.variates(WORDS, 0, 9, 150).astype(dtype)
    assert_same(
        lambda kernels, out, column_sums: kernels.softmax_rows(out, 50, causal=causal, column_sums=column_sums),
        logits.copy,
    )


def assert_same(fill, make):
    compiled, plain = make(), make()
    n = compiled.shape[1]
    sums = []
    columns = np.zeros(n), np.zeros(n)
    for kernels, rows, column_sums in ((cpu, compiled, columns[0]), (reference, plain, columns[1])):
        sums.append(fill(kernels, rows, column_sums))
    np.testing.assert_array_equal(compiled, plain)
    np.testing.assert_array_equal(*columns)
    for name in ("total", "weighted", "squared"):
        np.testing.assert_array_equal(getattr(sums[0], name), getattr(sums[1], name))


def test_golden_hashes_do_not_depend_on_tiles_or_threads():
    assert golden.hashes() == HASHES
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(golden.hashes, (1, 17))) == [HASHES, HASHES]


def test_golden_hashes_do_not_depend_on_the_cpu():
    """A generic target has neither wide vectors nor fused multiply-add."""
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.kernels.golden"]
    run = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    assert dict(line.split() for line in run.stdout.splitlines()) == HASHES


def test_an_entry_depends_on_its_address_only():
    whole = reference.variates(WORDS, 0, 40, 300)
    np.testing.assert_array_equal(whole[11:13, :70], cpu.variates(WORDS, 11, 13, 70))
    for other in ((0, 2, 4, 3), (1, 0, 4, 3), (1, 2, 0, 3), (1, 2, 4, 0)):
        assert not np.any(whole == cpu.variates(other, 0, 40, 300))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 6, 8])
def test_gram_rows_adds_the_product(dtype, rows):
    """Oracle: NumPy in float64. A lost row or vector of the remainder loop would be an error of order one."""
    rng = np.random.default_rng(2)
    A, vectors = rng.random((rows, 5000)).astype(dtype), rng.standard_normal((3, 5000)).astype(dtype)
    expected = 1 + (vectors.astype(float) @ A.T.astype(float)) @ A
    for kernels in (cpu, reference):
        products = np.ones((3, 5000))
        kernels.gram_rows(A, vectors, products)
        tolerance = 2e-6 if dtype is np.float32 else 1e-13
        np.testing.assert_allclose(products, expected, atol=tolerance * np.abs(expected).max(), rtol=0)

"""Race width_collapse against NumPy and ARPACK: `python -m benchmarks.width_collapse [--n 4096] [--quick]`.

Both sides are interleaved under the same thread limit; accuracy is checked in the same run. The goals are figures of an
AVX-512 machine; elsewhere they are goals, not gates.

How many products s2 takes differs from matrix to matrix (9 to 43 at tolerance 1e-3, n = 4096): each call takes the next
of six, and the median counts. The goals were set for logits of variance one; the default beta is harder, because no
entry lifts s2 out of the bulk, and is raced too.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.linalg
import threadpoolctl

from benchmarks.race import race, race_commands, report
from benchmarks.rivals import by_arpack, by_svd, softmax_matrix
from rmt.arrays import CPU
from rmt.ensembles.markov import MarkovAttention
from rmt.kernels import kernels_for
from rmt.linalg.full_spectrum import singular_values
from rmt.linalg.top_singular import top_singular_values
from rmt.streams import stream

BETAS = (1.0, 0.8326)
BETA = BETAS[1]
MATRICES = 6
ROOT = Path(__file__).resolve().parents[1]


def ours(n: int, beta: float, draw: int, *, workers: int = 1, tolerance: float = 1e-3) -> tuple[float, float, float]:
    """s1, s2 and the stable rank, sampling included."""
    matrix = MarkovAttention(n, beta).matrix(stream(0), draw, workers=workers, memory_budget=16 * 10**9)
    probe = kernels_for(CPU).variates(stream(0).words("probe", draw), 0, n, 1)
    top = top_singular_values(matrix.gram_product, n, probe=probe, start=matrix.column_sums, tolerance=tolerance)
    return top.values[0], top.values[1], matrix.frobenius_norm_squared / top.values[0] ** 2


def accuracy(n: int) -> None:
    """Our numbers against an SVD of the same matrix."""
    A = MarkovAttention(n, BETA).matrix(stream(0), 0, memory_budget=16 * 10**9).dense().astype(np.float64)
    exact = scipy.linalg.svdvals(A)
    for tolerance in (1e-3, 1e-6):
        found = ours(n, BETA, 0, tolerance=tolerance)
        error = abs(found[1] / exact[1] - 1)
        print(f"accuracy n = {n}, tolerance {tolerance:g}: s1 {abs(found[0] / exact[0] - 1):.1e}, s2 {error:.1e}")
    spectrum = singular_values(A)
    print(
        f"full spectrum: largest error {np.abs(spectrum.values - exact).max() / exact[1]:.1e} s2, method {spectrum.method}"
    )


def in_process(n: int, quick: bool) -> None:
    """s1, s2, stable rank; the sampler; the whole spectrum."""
    generator = np.random.default_rng(0)
    draws = itertools.cycle(range(MATRICES))
    for beta in BETAS:
        task = f"s1, s2, stable rank, beta {beta:.4g}, against"
        for workers in (1, 2):
            with threadpoolctl.threadpool_limits(workers):
                pair = race(
                    lambda b=beta, w=workers: ours(n, b, next(draws), workers=w),
                    lambda b=beta: by_arpack(n, b, generator),
                    repeats=2 * MATRICES - 1,
                )
                report(f"{task} float32 + ARPACK, {workers} threads", *pair, ">= 5x")
        with threadpoolctl.threadpool_limits(1):
            pair = race(
                lambda b=beta: ours(n, b, next(draws)),
                lambda b=beta: by_svd(n, b, generator),
                repeats=1 if quick else MATRICES - 1,
            )
            report(f"{task} float64 + svd, 1 thread", *pair, ">= 150x")
    with threadpoolctl.threadpool_limits(1):
        kernels, words = kernels_for(CPU), stream(0).words("logits", 0)
        out = np.empty((n, n), dtype=np.float32)
        sampler = race(
            lambda: kernels.markov_rows(words, 0, out, beta=BETA, law="lognormal", causal=False, column_sums=None),
            lambda: softmax_matrix(n, BETA, generator),
        )
        report("sampler against numpy float64 softmax, 1 thread", *sampler, ">= 10x")
        size = min(n, 2048)
        A = softmax_matrix(size, BETA, generator)
        whole = race(lambda: singular_values(A), lambda: np.linalg.svd(A, compute_uv=False), repeats=1 if quick else 3)
        report(f"full spectrum against np svd, n = {size}, 1 thread", *whole, ">= 2.5x")


def whole_commands(n: int, env: dict[str, str]) -> None:
    """The command line, process start included, warm kernel cache, an empty store for each run."""
    with tempfile.TemporaryDirectory() as folder:

        def command(draws: int) -> list[str]:
            flags = f"--n {n} --model iid --width 64 --draws {draws} --no-figure --format json --fresh --out {folder}"
            return [sys.executable, "-m", "simulations.width_collapse", *flags.split(), "--variant", "plain"]

        def rival(method: str, draws: int) -> list[str]:
            return [sys.executable, "-m", "benchmarks.rivals", method, str(n), str(draws)]

        report(
            "whole command, 1 draw, against the svd script",
            *race_commands(command(1), rival("svd", 1), repeats=3, env=env),
            ">= 10x",
        )
        pair = race_commands(command(10), rival("arpack", 10), repeats=5, env=env)
        report("whole command, 10 draws, against the ARPACK script", *pair, ">= 3.3x")
        help_pair = race_commands(
            [sys.executable, "-m", "simulations.width_collapse", "--help"],
            [sys.executable, "-c", "import numpy"],
            env=env,
        )
        report("--help against import numpy", *help_pair, ">= 0.125x")


def two_workers() -> None:
    """Draws a second of two worker processes over one, n = 1024, 64 draws, start-up excluded."""
    from rmt.experiments.executors import executor
    from rmt.experiments.experiment import Bench
    from rmt.experiments.tasks import plan, run_task
    from simulations.width_collapse import EXPERIMENT, Setting

    tasks = plan(EXPERIMENT, [Setting(n=1024, width=64)], draws=64, seed=0, dtype="float32", spectrum="none")
    bench, rate = Bench(CPU), {}
    for workers in (1, 2):
        with executor("processes", workers=workers) as pool:
            for future in [pool.submit(run_task, task.record(), bench) for task in tasks[: 4 * workers]]:
                future.result()
            start = time.perf_counter()
            for future in [pool.submit(run_task, task.record(), bench) for task in tasks]:
                future.result()
            rate[workers] = time.perf_counter() - start
    report("two worker processes over one, n = 1024, 64 draws", rate[2], rate[1], ">= 1.85x")


def main() -> None:
    """Run every race and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--quick", action="store_true", help="one repeat of the slow rivals")
    chosen = parser.parse_args()
    for pool in threadpoolctl.threadpool_info():
        print(pool["internal_api"], pool.get("architecture", ""), pool["version"])
    print(f"{'task':70} {'ours':>11}  {'theirs':>11}  ratio")
    in_process(chosen.n, chosen.quick)
    two_workers()
    whole_commands(chosen.n, {**os.environ, "PYTHONPATH": str(ROOT)})
    accuracy(chosen.n)


if __name__ == "__main__":
    main()

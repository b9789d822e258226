"""Race one softmax-regression gradient: `python -m benchmarks.softmax_regression [--n 20000] [--width 32]`.

Against its own four n x n x d products, in the same blocks and by whole rows (goal: at most 1.3 times their time), and
against plain NumPy with whole n x n arrays at a size that fits. Memory is the peak of Python allocations during one
gradient.
"""

from __future__ import annotations

import argparse
import tracemalloc
from typing import Any

import numpy as np
import threadpoolctl

from benchmarks.race import race, report
from rmt.regression import softmax_empirical
from rmt.regression.softmax_empirical import EmpiricalRisk
from rmt.regression.softmax_population import minimiser
from rmt.regression.softmax_problem import Contexts, covariance_matrix, regression_problem
from rmt.regression.softmax_weights import Weights


def task(n: int, width: int) -> tuple[Contexts, Weights]:
    """One context and a head at a minimum of its population risk."""
    problem = regression_problem(covariance_matrix(width, "geometric", 10.0), np.linspace(0.25, 0.1, width))
    normals = np.random.default_rng(0).standard_normal((1, n, width))
    return problem.respond(normals), minimiser(problem)


def four_products(data: Contexts, rows: int, keys: int) -> None:
    """Scores, means, projections and covariance products alone, in blocks of `rows` by `keys`."""
    tokens = data.tokens[0]
    blocks = [tokens[start : start + keys] for start in range(0, len(tokens), keys)]
    across = [np.ascontiguousarray(block.T) for block in blocks]
    for start in range(0, len(tokens), rows):
        part = tokens[start : start + rows]
        for _ in range(2):
            for block, turned in zip(blocks, across, strict=True):
                np.matmul(np.matmul(part, turned), block)


def plain_numpy(data: Contexts, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """The gradient as one would write it first, with n x n arrays."""
    X, Y, A, B = data.tokens[0], data.labels[0], weights.value, weights.score
    logits = X @ B @ X.T
    P = np.exp(logits - logits.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    M = P @ X
    R = Y - M @ A.T
    V = R @ A
    W = (P * (V @ X.T)) @ X - (V * M).sum(axis=1, keepdims=True) * M
    return -R.T @ M / len(X), -X.T @ W / len(X)


def peak_memory(call: Any) -> int:
    """Bytes allocated at the peak of one call."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main() -> None:
    """Run both races on one BLAS thread and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    data, weights = task(chosen.n, chosen.width)
    small, there = task(min(chosen.n, 4000), chosen.width)

    def gradient() -> Any:
        return EmpiricalRisk(data).value_and_gradient(weights)

    own = softmax_empirical._ENTRIES // softmax_empirical._KEYS, softmax_empirical._KEYS
    with threadpoolctl.threadpool_limits(1):
        peak = peak_memory(gradient)
        print(f"peak {peak / 1e6:.0f} MB, where an n x n array has {8e-6 * chosen.n**2:.0f} MB")
        for blocks, (rows, keys) in (("its blocks", own), ("whole rows", (own[0], chosen.n))):
            ours, theirs = race(gradient, lambda r=rows, k=keys: four_products(data, r, k), repeats=chosen.repeats)
            task_name = f"gradient against its products in {blocks}, n = {chosen.n}, d = {chosen.width}"
            report(task_name, ours, theirs, ">= 0.77x", f"(ours is {ours / theirs:.2f} times the products)")
        value, score = plain_numpy(small, there)
        found = EmpiricalRisk(small).value_and_gradient(there)[1]
        error = max(np.abs(found.value - value).max(), np.abs(found.score - score).max())
        pair = race(
            lambda: EmpiricalRisk(small).value_and_gradient(there),
            lambda: plain_numpy(small, there),
            repeats=chosen.repeats,
        )
        size = len(small.tokens[0])
        report(f"gradient against plain NumPy, n = {size}", *pair, ">= 1x", f"largest difference {error:.1e}")


if __name__ == "__main__":
    main()

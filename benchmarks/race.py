"""Race two ways of doing one task: interleaved, medians, the same thread limit on both sides."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

PAUSE = 0.1  # seconds: a BLAS thread spins on after its last call, and would sit on the other side's core


def race(ours: Callable[[], Any], theirs: Callable[[], Any], *, repeats: int = 5) -> tuple[float, float]:
    """Median seconds of both, called in turn after one warm-up each."""
    ours(), theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for kept, call in zip(times, (ours, theirs), strict=True):
            time.sleep(PAUSE)
            start = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def race_commands(
    ours: Sequence[str], theirs: Sequence[str], *, repeats: int = 5, env: dict[str, str]
) -> tuple[float, float]:
    """Median wall seconds of two whole commands."""

    def call(command: Sequence[str]) -> Callable[[], Any]:
        return lambda: subprocess.run(
            command, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    return race(call(ours), call(theirs), repeats=repeats)


def report(task: str, ours: float, theirs: float, goal: str, note: str = "") -> None:
    """One line: who against whom, seconds, ratio, goal."""
    print(f"{task:70} {ours:9.4f} s  {theirs:9.4f} s  {theirs / ours:7.1f}x  goal {goal:12} {note}", flush=True)

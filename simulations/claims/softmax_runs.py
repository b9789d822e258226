"""Runs of softmax regression that do not arrive: stuck, merely slow, or divergent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binomtest

from rmt.statistics.claims import CONTRADICTION_LEVEL, Claim
from simulations.claims.softmax_groups import OWN, draws_of, label

if TYPE_CHECKING:
    from rmt.experiments.results import Results

KINDS = ("slow", "saddle", "spurious_minimum", "converged")


def run_claims(results: Results) -> Iterator[Claim]:
    """Whether each rival gets stuck, and which settings diverged."""
    yield from _stuck(results)
    yield from _divergence(results)


def _stuck(results: Results) -> Iterator[Claim]:
    """Of the runs that had not converged: which share had come to rest, at a saddle or a spurious minimum?"""
    for optimizer in dict.fromkeys(s.optimizer for s in results.settings if s.optimizer not in OWN):
        settings = results.where(optimizer=optimizer)
        count = {kind: int(sum(np.nansum(draws_of(results, s, kind)) for s in settings)) for kind in KINDS}
        stuck = count["saddle"] + count["spurious_minimum"]
        stalled = stuck + count["slow"]
        if stalled == 0:
            continue
        share = binomtest(stuck, stalled)
        inner, wide = (share.proportion_ci(level) for level in (0.95, 1 - CONTRADICTION_LEVEL))
        counts = ", ".join(f"{kind.replace('_', ' ')} {number}" for kind, number in count.items())
        yield Claim(
            f"{optimizer} gets stuck: most runs that did not converge rest at a saddle or spurious minimum",
            "optimizer",
            None,
            stuck / stalled,
            (float(inner.low), float(inner.high)),
            "contradicted" if optimizer == "sgd" else None,
            "supported" if inner.low > 0.5 else "contradicted" if wide.high < 0.5 else "undecided",
            "goel2026, appendix A (SGD slow or stuck)",
            f"runs: {counts}; by gradient norm and least Hessian eigenvalue, Clopper-Pearson interval",
        )


def _divergence(results: Results) -> Iterator[Claim]:
    """One line for each setting of which a run diverged."""
    for setting in results.settings:
        steps = draws_of(results, setting, "diverged_at_step")
        gone = np.isfinite(steps)
        if gone.any():
            yield Claim(
                f"n = {setting.n}, {label(setting)}: converges",
                "draw",
                1.0,
                float(1 - gone.mean()),
                None,
                None,
                "contradicted",
                "measured",
                f"diverged at step {int(np.median(steps[gone]))} in {int(gone.sum())} of {gone.size} draws",
            )

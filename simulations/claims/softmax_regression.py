"""The claims of softmax_regression: scaling laws, comparisons, and whether runs get stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmt.statistics.claims import Claim
from simulations.claims.softmax_comparisons import comparison_claims
from simulations.claims.softmax_runs import run_claims
from simulations.claims.softmax_scaling import scaling_claims

if TYPE_CHECKING:
    from rmt.experiments.results import Results


def all_claims(results: Results) -> list[Claim]:
    """Every claim that the settings of this sweep can speak to."""
    return [*scaling_claims(results), *comparison_claims(results), *run_claims(results)]


def sentence(results: Results) -> str:
    """Median final excess of each optimiser at the largest n, from the start it was run from first."""
    n = max(s.n for s in results.settings)
    ends: dict[str, str] = {}
    for setting in results.where(n=n):
        values = results.samples[setting]["excess_risk"]
        if np.isfinite(values).any():
            end = f"{np.nanmedian(values):.2g}"
        else:
            end = f"diverged at step {int(np.nanmedian(results.samples[setting]['diverged_at_step']))}"
        ends.setdefault(setting.optimizer, end)
    parts = ", ".join(f"{name} {end}" for name, end in ends.items())
    return f"At n = {n} the median excess risk after training is: {parts}."

"""Settings of a sweep of softmax regression side by side: groups that differ in one field, their draws, their names."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.statistics.claims import Claim, bound_claim

if TYPE_CHECKING:
    from rmt.experiments.results import Results

OWN = ("preconditioned", "renormalised")  # Algorithm 1 and its variant


def draws_of(results: Results, setting: Any, quantity: str) -> np.ndarray:
    """The draws of a quantity; none where it was not measured."""
    return results.samples[setting].get(quantity, np.empty(0))


def label(setting: Any, *, without: str = "") -> str:
    """How the runs of a group are named; `without` is the field along which they are compared."""
    unusual = {
        "contexts": ("one", "n contexts"),
        "width": (4, f"d = {setting.width}"),
        "condition": (10.0, f"kappa(Sigma) = {setting.condition:g}"),
        "target_condition": (3.0, f"kappa(T) = {setting.target_condition:g}"),
        "noise": (0.0, f"noise {setting.noise:g}"),
        "tau": (4 * setting.largest, f"tau = {setting.tau:g}"),
        "rho": (0.5, f"rho = {setting.rho:g}"),
    }
    parts = [f"{setting.optimizer}, {setting.start} start, regulariser {setting.regularizer}"]
    for field, (usual, said) in unusual.items():
        if field != without and getattr(setting, field) != usual:
            parts.append(said)
    return ", ".join(parts)


def above_claim(
    claim: str, field: str, above: np.ndarray, below: np.ndarray, *, expected: str | None, source: str
) -> Claim | None:
    """Whether `above` exceeds `below`: the median of their ratio over the same draws against 1, one-sided.

    Draws that diverged on either side are left out and counted. None where fewer than two pairs are left.
    """
    count = min(len(above), len(below))
    good = np.isfinite(above[:count]) & np.isfinite(below[:count])
    if good.sum() < 2:
        return None
    ratio = above[:count][good] / below[:count][good]
    found = bound_claim(
        claim,
        [1.0],
        [ratio],
        bound=1.0,
        side="lower",
        along=field,
        statistic="median",
        expected=expected,
        source=source,
    )
    detail = f"median ratio over {good.sum()} paired draws, {count - good.sum()} diverged; above 1 at 95 % one-sided?"
    return dataclasses.replace(found, detail=detail)

"""Associations: does one quantity explain another across several cases, each a point of its own?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from rmt.statistics.claims import CONTRADICTION_LEVEL, Claim, verdict_of


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's rank correlation; ties share their mean rank. nan where one side does not vary."""
    from scipy.stats import rankdata  # here: it is slow to import

    ranks = [rankdata(np.asarray(side, dtype=float)) for side in (x, y)]
    spread = [side - side.mean() for side in ranks]
    norm = math.sqrt(float(np.sum(spread[0] ** 2) * np.sum(spread[1] ** 2)))
    return float(spread[0] @ spread[1]) / norm if norm > 0 else math.nan


def association_claim(
    claim: str,
    x: Sequence[float],
    y: Sequence[float],
    *,
    at_least: float,
    source: str,
    along: str = "",
    expected: str | None = None,
) -> Claim:
    """Judge that y follows x across cases: Spearman's correlation is at least `at_least`; six cases or more.

    The interval is Fisher's with the variance 1.06/(cases - 3) of Fieller, Hartley and Pearson (1957); one case is one
    point, however many draws stand behind it. Supported: the lower end at 95 % (one-sided) reaches `at_least`.
    Contradicted: the upper end at 1e-3 stays below it.
    """
    blank = Claim(claim, along, at_least, None, None, expected, "undecided", source, "")
    if len(x) != len(y) or len(x) < 6:
        return dataclasses.replace(blank, detail=f"{len(x)} cases: needs at least 6")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return dataclasses.replace(blank, detail="undefined in some cases")
    value = rank_correlation(x, y)
    if not math.isfinite(value):
        return dataclasses.replace(blank, detail="one of the quantities does not vary")
    centre, error = math.atanh(max(-0.9999, min(0.9999, value))), math.sqrt(1.06 / (len(x) - 3))

    def end(tail: float, sign: int) -> float:
        return math.tanh(centre - sign * float(special.ndtri(tail)) * error)

    supported, contradicted = end(0.05, -1) >= at_least, end(CONTRADICTION_LEVEL, 1) < at_least
    return dataclasses.replace(
        blank,
        measured=value,
        interval=(end(0.025, -1), end(0.025, 1)),
        verdict=verdict_of(supported, contradicted),
        detail=f"Spearman's correlation over {len(x)} cases",
    )
